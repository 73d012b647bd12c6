"""Raw data of benches: written, read, and the newest that is committed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.plan import ROOT
from loadtests.aggregate import Group, comparable, groups

BENCHMARKS = ROOT / "docs" / "benchmarks"
# Compressed: a look at each server in each second is ten times as large as text.
NAME = "results.json.gz"

Result = Mapping[str, Any]


def write(folder: Path, results: Result) -> None:
    """Write a bench's raw data: whole or not at all; the same data make the same file."""
    text = json.dumps(results, separators=(",", ":"))
    draft = folder / f"{NAME}.new"
    draft.write_bytes(gzip.compress(text.encode(), mtime=0))
    draft.replace(folder / NAME)


def read(path: Path) -> Result:
    """Read raw data, compressed or not."""
    data = path.read_bytes()
    found: Result = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


@dataclass(frozen=True, slots=True)
class Published:
    """One folder with raw data; `results` in the order in which they began."""

    folder: Path
    results: tuple[Result, ...]

    @property
    def began(self) -> str:
        """Return when its last part began."""
        return str(self.results[-1]["began"])

    def parts(self) -> list[Result]:
        """Return the results with the runs that can be compared."""
        return comparable(self.results)

    def groups(self) -> list[Group]:
        """Return its runs by scenario, variant and strategy."""
        return groups(self.parts())


def newest(root: Path = BENCHMARKS) -> Published | None:
    """Return the committed bench that began last; None where nothing has been measured."""
    folders = [folder for folder in sorted(root.iterdir()) if folder.is_dir()]
    found = [Published(folder, _results(folder)) for folder in folders]
    return max((bench for bench in found if bench.results), key=lambda one: one.began, default=None)


def _results(folder: Path) -> tuple[Result, ...]:
    every = [read(file) for file in sorted(folder.rglob(NAME))]
    return tuple(sorted(every, key=lambda result: str(result["began"])))
