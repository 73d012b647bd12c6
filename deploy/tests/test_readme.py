"""The README says what is there."""

import re

import pytest

from deploy import readme
from deploy import strategy as strategies
from deploy.plan import ROOT

TEXT = readme.README.read_text()
PIECE = re.compile(r"^\| [^|]+ \| (?P<files>`[^|]+`) \| (?P<lines>\d+) \|$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)\)")


def test_the_strategies_are_those_in_the_folders():
    """Red? `make results`."""
    assert readme.written(TEXT) == TEXT
    assert all(f"[{name}](" in TEXT for name in strategies.names())


def test_a_list_that_is_out_of_date_is_seen():
    stale = TEXT.replace("[asgi-hold](deploy/strategies/asgi-hold), ", "")
    assert readme.written(stale) == TEXT != stale


@pytest.mark.parametrize("piece", list(PIECE.finditer(TEXT)), ids=lambda piece: piece["files"][:40])
def test_a_piece_is_there_and_about_as_long_as_it_says(piece):
    files = re.findall(r"`([^`]+)`", piece["files"])
    lines = sum(len((ROOT / name).read_text().splitlines()) for name in files)
    assert 0.7 < int(piece["lines"]) / lines < 1.4


def test_there_are_pieces():
    assert len(PIECE.findall(TEXT)) >= 8


@pytest.mark.parametrize("target", sorted(set(LINK.findall(TEXT))))
def test_a_link_leads_somewhere(target):
    assert (ROOT / target).exists()
