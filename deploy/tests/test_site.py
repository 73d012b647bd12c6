"""The pages: built strictly, links followed, nothing loaded from elsewhere."""

import importlib
import re
import subprocess
import sys

import pytest

from deploy import strategy as strategies
from deploy.live.tests.browser import INSTALL, browser, missing
from deploy.plan import ROOT
from deploy.tests.fixtures import absent

# A file of the pages, in no package.
hooks = importlib.import_module("docs.hooks")
LOADED = re.compile(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"(https?:)?//")


def build(folder, *options):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(
        [*command, "--site-dir", str(folder), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.html")}


def test_each_strategy_has_a_page(pages):
    index = pages["strategies/index.html"]
    for name in strategies.names():
        assert f"strategies/{name}.html" in pages
        assert f'href="{name}.html"' in index


def test_the_tour_shows_the_code_as_it_is(pages):
    stops = hooks.EXCERPT.findall((ROOT / "docs" / "tour.md").read_text())
    assert len(stops) == 19
    assert all(int(count) <= 12 for _, _, count in stops)
    assert "{{" not in pages["tour.html"]
    assert "noqa" not in pages["tour.html"]
    assert pages["tour.html"].count("<pre><code") == len(stops)
    assert "with transaction.atomic():\n    row = idempotency.take(" in pages["tour.html"]


@pytest.mark.parametrize("first", ["no such line", "def "])
def test_an_excerpt_is_one_place(first):
    with pytest.raises(ValueError, match="lines begin with"):
        hooks.excerpt("docs/hooks.py", first, 3)


def test_a_diagram_is_a_picture_and_no_source(pages):
    for name in strategies.names():
        assert pages[f"strategies/{name}.html"].count("<svg") == 1, name
    assert [name for name, text in pages.items() if "sequenceDiagram" in text] == []


def test_the_pages_stand_in_five_groups(pages):
    groups = re.findall(r'nav-link dropdown-toggle[ "][^>]*>([^<]+)<', pages["index.html"])
    assert [group.strip() for group in groups if group.strip()] == [
        "Start",
        "Choose",
        "The API",
        "Operate",
        "Build",
    ]


def test_a_report_s_tables_are_folded_and_its_pictures_are_not(pages):
    reports = {name: text for name, text in pages.items() if name.endswith("report.html")}
    assert len(reports) >= 2
    for name, text in reports.items():
        folds = re.findall(r"<details>.*?</details>", text, re.DOTALL)
        assert len(folds) >= 3, name
        assert "<table>" in "".join(folds)
        assert "<img" not in "".join(folds)


@pytest.mark.deployment
@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_all_without_widening_the_page(folder, dark):
    if program := missing():
        absent(program, INSTALL)
    with browser(390, 844, dark=dark) as driver:
        for page in ("operations", "strategies/asgi-hold", "which-one", "faults/report"):
            driver.get(f"file://{folder}/{page}.html")
            assert driver.execute_script("return document.documentElement.scrollWidth") == 390, page
            ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
            lightness = sum(map(int, re.findall(r"\d+", ground)[:3]))
            assert (lightness < 200) is dark, ground


@pytest.mark.deployment
def test_the_theme_s_scripts_run_and_its_switch_for_dark_works(folder):
    if program := missing():
        absent(program, INSTALL)
    with browser() as driver:
        for page in ("index", "adr/0001-pyuwsgi"):
            driver.get(f"file://{folder}/{page}.html")
            chosen = driver.execute_script("""
                document.querySelector("[data-bs-theme-value=dark]").click();
                return document.documentElement.dataset.bsTheme;
            """)
            assert chosen == "dark", page
            # The search's worker wants a server.
            said = [entry["message"] for entry in driver.get_log("browser")]
            assert [words for words in said if "worker.js" not in words] == [], page
            driver.execute_script("localStorage.clear()")


def test_each_decision_is_listed(pages):
    for path in (ROOT / "docs" / "adr").glob("*.md"):
        assert f'href="{path.stem}.html"' in pages["adr/index.html"]


def test_nothing_is_loaded_from_elsewhere(pages):
    assert LOADED.search('<script src="https://cdn.example/x.js">')
    assert [name for name, text in pages.items() if LOADED.search(text)] == []


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("[a](../docs/api.md#errors)", "[a](../api.md#errors)"),
        ("[a](strategies/asgi-hold)", "[a](../strategies/asgi-hold.md)"),
        ("[a](plan.py)", "a (`deploy/plan.py`)"),
        ("[a](https://example.com/)", "[a](https://example.com/)"),
        ("[a](nowhere.md)", "[a](nowhere.md)"),
    ],
)
def test_links_are_followed_from_where_they_stand(written, read, caplog):
    pages = {path.resolve(): address for address, path in hooks.borrowed().items()}
    pages[ROOT / "docs" / "api.md"] = "api.md"
    (match,) = hooks.LINK.finditer(written)
    assert hooks._followed(match, ROOT / "deploy", "x/y.md", pages) == read
    assert bool(caplog.records) is ("nowhere" in written)
