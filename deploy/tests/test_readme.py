"""The README's pieces are there, and its links lead somewhere."""

import re

import pytest

from deploy.plan import ROOT

TEXT = (ROOT / "README.md").read_text()
PIECES = (ROOT / "docs" / "pieces.md").read_text()
PIECE = re.compile(r"^\| [^|]+ \| (?P<files>`[^|]+`) \| (?P<lines>\d+) \|$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)\)")


@pytest.mark.parametrize(
    "piece", list(PIECE.finditer(PIECES)), ids=lambda piece: piece["files"][:40]
)
def test_a_piece_is_there_and_about_as_long_as_it_says(piece):
    files = re.findall(r"`([^`]+)`", piece["files"])
    lines = sum(len((ROOT / name).read_text().splitlines()) for name in files)
    assert 0.7 < int(piece["lines"]) / lines < 1.4


def test_there_are_pieces():
    assert len(PIECE.findall(PIECES)) >= 8


def test_it_is_read_in_two_minutes():
    assert len(TEXT.splitlines()) <= 120


@pytest.mark.parametrize("target", sorted(set(LINK.findall(TEXT))))
def test_a_link_leads_somewhere(target):
    assert (ROOT / target).exists()
