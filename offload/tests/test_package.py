"""offload as a package of its own: a wheel in an environment that has nothing else of ours."""

import re
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile

import pytest

from offload.tests.installed import SOURCE, Installed, build_sdist, build_wheel
from offload.tests.processes import Process, answers_at, free_port, until

pytestmark = pytest.mark.integration

OURS = ("parcels", "carriers", "shipping", "deploy", "loadtests")
# What a user would write; a call with a wrong type must be found.
TYPED = """
from django.http import HttpResponse
from offload import release

release("0" * 32, HttpResponse())
release(12, HttpResponse())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("installed") / "env", wheel, "hub")


def version():
    return tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]["version"]


def test_the_wheel_has_the_package_and_its_papers_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    papers = {"offload/py.typed", "offload/CHANGELOG.md", "offload/SECURITY.md"}
    assert papers | {"offload/hub.py", "offload/configurations/nginx.conf.in"} <= set(names)
    assert not [
        name for name in names if name.startswith("offload/tests/") or name.endswith("setup.py")
    ]
    licence = next(name for name in names if name.endswith("licenses/LICENSE"))
    assert zipfile.ZipFile(wheel).read(licence) == (SOURCE / "LICENSE").read_bytes()
    metadata = next(name for name in names if name.endswith("/METADATA"))
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    assert "# offload: free the worker while the client waits" in text
    assert f"Version: {version()}" in text


def test_building_leaves_nothing_in_the_sources(wheel):
    left = {path.name for path in (wheel.parents[1] / "source").iterdir()}
    there = {path.name for path in SOURCE.iterdir()}
    assert left - there == set()
    assert not {"build", "dist"} & left
    assert not [name for name in left if name.endswith(".egg-info")]


def test_building_leaves_no_temporary_folder(wheel):
    assert list((wheel.parents[1] / "temporary").iterdir()) == []


def test_the_source_distribution_has_the_tests_and_makes_the_same_wheel(wheel, tmp_path):
    archive = build_sdist(tmp_path)
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    (root,) = (tmp_path / "unpacked").iterdir()
    assert {"LICENSE", "CHANGELOG.md", "SECURITY.md", "py.typed"} <= {
        p.name for p in root.iterdir()
    }
    sources = {path.relative_to(SOURCE) for path in SOURCE.rglob("*.py")}
    assert {path.relative_to(root) for path in root.rglob("*.py")} == sources
    again = build_wheel(tmp_path, root)
    assert zipfile.ZipFile(again).namelist() == zipfile.ZipFile(wheel).namelist()


def test_its_module_list_is_complete(wheel):
    """`packages` is written by hand: a new folder must not be forgotten."""
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")}
    written = {
        f"offload/{path.relative_to(SOURCE)}"
        for path in SOURCE.rglob("*.py")
        if "tests" not in path.relative_to(SOURCE).parts and path.name != "setup.py"
    }
    assert packed == written


def test_the_version_has_release_notes():
    assert f"## {version()}" in (SOURCE / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("module", OURS)
def test_nothing_else_of_ours_is_there(installed, tmp_path, module):
    done = installed.run("-c", f"import {module}", folder=tmp_path)
    assert "ModuleNotFoundError" in done.stderr


def test_the_readmes_command_brings_what_celery_needs_for_redis(wheel, tmp_path):
    (extras,) = re.findall(r'pip install "./offload\[(.*)\]"', (SOURCE / "README.md").read_text())
    taken = Installed(tmp_path / "env", wheel, *extras.split(","))
    done = taken.run("-c", "import celery, kombu.transport.redis", folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_nothing_but_django_redis_and_a_server_is_needed(installed):
    assert installed.linked <= {
        *("django", "asgiref", "sqlparse", "tzdata", "redis"),
        *("uvicorn", "h11", "click", "typing-extensions", "async-timeout"),
    }


@pytest.mark.parametrize(("wait", "state"), [("30", "done"), ("0.2", "working")])
def test_its_example_runs_there(installed, tmp_path, redis_server, started, wait, state):
    port = free_port()
    # The test process' PYTHONPATH would bring the checkout in: `-I` shuts it out.
    command = (installed.python, "-I", "-m", "uvicorn", "offload.example.slow:application")
    started(
        Process(
            *map(str, command),
            *("--port", str(port), "--log-level", "warning"),
            environment={"REDIS_URL": redis_server.url},
            directory=tmp_path,
        )
    )
    until(lambda: answers_at(port), what="the example")
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"http://127.0.0.1:{port}/slow?wait={wait}", timeout=20) as answer:
        assert answer.read().decode() == f'{{"state": "{state}"}}'


def test_the_hub_starts_there(installed, tmp_path):
    done = installed.run("-m", "offload.hub", "--help", folder=tmp_path)
    assert (done.returncode, "--bind" in done.stdout) == (0, True), done.stderr


def test_a_user_s_type_checker_sees_its_types(installed, tmp_path):
    (tmp_path / "theirs.py").write_text(TYPED)
    (tmp_path / "mypy.ini").write_text("[mypy]\n")  # not this project's settings
    command = [sys.executable, "-m", "mypy", "--python-executable", str(installed.python)]
    done = subprocess.run(
        [*command, "theirs.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert 'theirs.py:6: error: Argument 1 to "release" has incompatible type "int"' in done.stdout
    assert "theirs.py:5" not in done.stdout


DISCOVER = """
import sys, unittest
sys.modules["pytest"] = None
print(unittest.TestLoader().discover("offload", top_level_dir=".").countTestCases())
"""


def test_a_project_that_has_the_folder_needs_no_pytest():
    """`manage.py test` takes all that it finds below the project."""
    command = [sys.executable, "-c", DISCOVER]
    done = subprocess.run(
        command, cwd=SOURCE.parent, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "0\n", done.stderr
