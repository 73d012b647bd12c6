"""The README's pieces are there, and its links lead somewhere."""

import re
import subprocess
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from django.http import HttpRequest, JsonResponse

import offload
from deploy.plan import ROOT

TEXT = (ROOT / "README.md").read_text()
PIECES = (ROOT / "docs" / "pieces.md").read_text()
PIECE = re.compile(r"^\| [^|]+ \| (?P<files>`[^|]+`) \| (?P<lines>[\d,]+) \|$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)\)")


@pytest.mark.parametrize(
    "piece", list(PIECE.finditer(PIECES)), ids=lambda piece: piece["files"][:40]
)
def test_a_piece_is_there_and_about_as_long_as_it_says(piece):
    names = [sorted(ROOT.glob(name)) for name in re.findall(r"`([^`]+)`", piece["files"])]
    assert all(names)
    lines = sum(len(path.read_text().splitlines()) for paths in names for path in paths)
    assert 0.9 < int(piece["lines"].replace(",", "")) / lines < 1.1


def test_there_are_pieces():
    assert len(PIECE.findall(PIECES)) >= 8


def test_the_lines_to_take_call_what_is_there():
    """With the real signatures, and stand-ins for what they call."""
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    run, answered = mock.create_autospec(offload.run), mock.MagicMock()
    task = mock.create_autospec(offload.task, side_effect=lambda model: lambda work: work)
    orders, here = mock.MagicMock(), SimpleNamespace(run=run, task=task)
    orders.objects.create.return_value.pk = 7
    names: dict[str, Any] = {"offload": here, "Order": orders, "requests": answered}
    names["JsonResponse"] = JsonResponse
    exec(code, names)
    assert names["buy"](HttpRequest()) is run.return_value
    assert run.call_args.args[0] is names["buy_label"]
    names["buy_label"](order := SimpleNamespace(label=""))
    assert order.label is answered.post.return_value.json.return_value["label"]


def test_each_picture_is_shown_and_a_clone_stays_small():
    """At most a dozen, and 6 MB of docs with all raw data."""
    listed = ["git", "ls-files", "*.md", "docs"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).exists()]
    text = "".join(path.read_text() for path in files if path.suffix == ".md")
    pictures = [path for path in files if path.suffix in {".png", ".svg"}]
    assert [path.name for path in pictures if f"/{path.name})" not in text] == []
    assert len(pictures) <= 12
    assert sum(path.stat().st_size for path in files if ROOT / "docs" in path.parents) < 6e6


def test_it_is_read_in_two_minutes():
    assert len(TEXT.splitlines()) <= 120


@pytest.mark.parametrize("target", sorted(set(LINK.findall(TEXT))))
def test_a_link_leads_somewhere(target):
    assert (ROOT / target).exists()
