"""What the pages name is there: code, settings, links, and what a command needs before it."""

import ast
import re
from pathlib import Path

import pytest

import offload
from offload import conf
from offload.tests.matrix import NEWEST_DJANGO_WANTS

FOLDER = Path(__file__).resolve().parents[1]
PAGES = [FOLDER / "README.md", FOLDER / "SECURITY.md", *sorted((FOLDER / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)\)")


def blocks(page, kind):
    return [body for found, body in FENCE.findall(page.read_text()) if found == kind]


def of_offload(code):
    """Return the dotted names below `offload` that the code takes."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("offload"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "offload":
            yield f"offload.{node.attr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_its_code_takes_is_there(page):
    for code in blocks(page, "python"):
        for name in of_offload(code):
            module, _, attribute = name.rpartition(".")
            there = hasattr(__import__(module, fromlist=["x"]), attribute)
            assert there or (FOLDER / f"{attribute}.py").exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_links_lead_somewhere_in_the_package(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).resolve().is_relative_to(FOLDER), target
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", ["docs/postgresql.md", "example/postgresql_alone.py"])
def test_what_needs_django_6_says_which_python_that_needs(page):
    text = " ".join((FOLDER / page).read_text().split())
    assert f"Django 6.0 (Python {NEWEST_DJANGO_WANTS})" in text


def test_every_setting_has_its_row():
    table = (FOLDER / "README.md").read_text().partition("## Settings")[2]
    names = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`([A-Z_]+)`", "".join(names))) == conf.NAMES


def test_every_public_name_is_explained():
    text = "".join(page.read_text() for page in PAGES)
    assert not [name for name in offload.__all__ if name not in text]


def test_uvicorn_is_installed_before_it_is_called():
    first, *rest = blocks(FOLDER / "README.md", "console")
    assert "[hub" in first
    assert any("uvicorn" in each for each in rest)


def test_every_front_has_a_page():
    table = (FOLDER / "README.md").read_text().partition("## Fronts")[2].partition("\n\n`manage")[0]
    rows = [line for line in table.splitlines() if line.startswith("| [")]
    assert len(rows) == 5
    assert all("](docs/" in row for row in rows)
