"""docs/dialect.md says of each of the vendor's endpoints what is true."""

import re
from pathlib import Path

import pytest

from parcels.openapi.document import PREFIX, document

PAGE = Path(__file__).parents[3] / "docs" / "dialect.md"
ROW = re.compile(r"^\| `(GET|POST|PUT|PATCH|DELETE) /(\S+)` \| (\w+) \| (.*?) ?\|$", re.MULTILINE)


def plain(path: str) -> str:
    """Return a path with every parameter by the same name."""
    return re.sub(r"\{\w+\}", "{}", path)


ROWS = ROW.findall(PAGE.read_text())
OURS = {
    (method.upper(), plain(path))
    for path, operations in document()["paths"].items()
    for method in operations
}
# Ours beyond the dialect: the API guide and the document have them.
ADDED = ("webhooks", "parcels/{}/attempts")


@pytest.mark.parametrize(("method", "path", "verdict", "how"), ROWS)
def test_a_verdict_is_true(method: str, path: str, verdict: str, how: str) -> None:
    assert verdict in {"same", "differs", "absent"}
    assert ((method, plain(PREFIX + path)) in OURS) == (verdict != "absent")
    assert how or verdict == "same"


def test_no_route_is_forgotten() -> None:
    told = {(method, plain(PREFIX + path)) for method, path, *_ in ROWS}
    added = tuple(PREFIX + path for path in ADDED)
    assert {row for row in OURS - told if not row[1].startswith(added)} == set()
    assert len(ROWS) > 50
