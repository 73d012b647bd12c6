"""Write the page's tables: `make results`, from folders and the newest bench.

A table stands between two comments, `<!-- comparison -->` and `<!-- /comparison -->`. Conclusions
are written by hand: a test holds each figure in them against the table.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from deploy.plan import ROOT
from loadtests.cautions import cautions
from loadtests.comparison import DOUBT, comparison, footnotes, needs
from loadtests.results import Published, newest
from loadtests.tables import Table, markdown

# From the project's root, which is UP from there.
PAGE, UP = "docs/which-one.md", "../"
PART = re.compile(
    r"(?P<begin><!-- (?P<name>comparison|cautions|needs) -->\n)"
    r".*?(?P<end><!-- /(?P=name) -->)",
    re.DOTALL,
)


def write_page() -> bool:
    """Write all its tables; say whether it has changed."""
    before = (ROOT / PAGE).read_text()
    after = written(before, newest())
    (ROOT / PAGE).write_text(after)
    return after != before


def written(text: str, bench: Published | None) -> str:
    """Return the page's text with its tables as folders and bench have them now."""

    def part(match: re.Match[str]) -> str:
        lines = PARTS[match["name"]](bench)
        # Blank lines: a table right after a comment is none to MkDocs.
        return match["begin"] + "\n".join(["", *lines, "", ""]) + match["end"]

    return PART.sub(part, text)


def _comparison(bench: Published | None) -> Iterator[str]:
    if bench is None:
        yield "Nothing has been measured yet: `make bench`."
        return
    yield from _linked(comparison(bench.groups()))
    yield ""
    commits = dict.fromkeys(part["machine"].get("commit") or "unknown" for part in bench.results)
    yield (
        f"Median (lowest to highest) of the valid runs, {bench.began}; [report and raw data]"
        f"({UP}docs/benchmarks/{bench.folder.name}/report.md), commit {', '.join(commits)}, "
        f"{bench.results[-1]['machine']['cores']} cores."
    )


def _cautions(bench: Published | None) -> Iterator[str]:
    if bench is not None:
        yield from (f"- {said}" for said in cautions(bench.results, bench.groups()))
        if whys := footnotes(bench.groups()):
            yield f"-{DOUBT}: no valid run. {'. '.join(whys)}."


def _linked(table: Table) -> Iterator[str]:
    """Yield the lines of a table whose strategies lead to their folders."""
    rows = ((f"[{name}]({UP}deploy/strategies/{name})", *cells) for name, *cells in table.rows)
    yield from markdown(replace(table, rows=tuple(rows)), "---|")


PARTS: Mapping[str, Callable[[Published | None], Iterator[str]]] = {
    "comparison": _comparison,
    "cautions": _cautions,
    "needs": lambda bench: _linked(needs()),
}
