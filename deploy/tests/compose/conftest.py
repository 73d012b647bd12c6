"""An engine for the session, and a composition of one strategy for each test file's parameter."""

import os

import pytest

from deploy.tests.compose.engine import Engine, EngineMissingError
from deploy.tests.compose.project import Project
from deploy.tests.fixtures import absent

STRATEGIES = ("nginx-accel", "asgi-hold", "uwsgi-offload")


def pytest_ignore_collect(config):
    """Leave these to their own lines of the Makefile: they take minutes, a daemon, both cores."""
    return config.getoption("markexpr") != "compose" or None


@pytest.fixture(scope="session")
def engine():
    try:
        engine = Engine().__enter__()
    except EngineMissingError as missing:
        absent("a Docker engine", str(missing))
    try:
        yield engine
    finally:
        print({name: f"{seconds:.0f} s" for name, seconds in engine.seconds.items()})
        engine.__exit__()


@pytest.fixture(scope="module", params=STRATEGIES)
def project(engine, request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    with Project(engine, request.param, folder) as project:
        yield project


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show what the containers said when a test has failed."""
    report = yield
    project = getattr(item, "funcargs", {}).get("project")
    if call.when == "call" and report.failed and project is not None:
        report.sections.append(("containers", project.said()))
        if folder := os.environ.get("COMPOSE_TEST_LOGS"):
            with open(os.path.join(folder, f"{project.strategy}.log"), "w") as file:
                file.write(project.said(lines="all"))
    return report
