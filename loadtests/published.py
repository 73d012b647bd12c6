"""What has been committed: benches below docs/benchmarks, and the newest of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.plan import ROOT
from loadtests.aggregate import Group, comparable, groups

BENCHMARKS = ROOT / "docs" / "benchmarks"

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Published:
    """One folder with raw data; `results` in the order in which they began."""

    folder: Path
    results: tuple[Result, ...]

    @property
    def began(self) -> str:
        """Return when its last part began."""
        return str(self.results[-1]["began"])

    @property
    def report(self) -> str:
        """Return the path of its report from the project's root."""
        return (self.folder / "report.md").relative_to(self.folder.parents[2]).as_posix()

    def parts(self) -> list[Result]:
        """Return the results with the runs that can be compared."""
        return comparable(self.results)

    def groups(self) -> list[Group]:
        """Return its runs by scenario, variant, strategy and sizing."""
        return groups(self.parts())


def benches(root: Path = BENCHMARKS) -> list[Published]:
    """Return all that were committed, the newest last."""
    found = [_read(folder) for folder in sorted(root.iterdir()) if folder.is_dir()]
    return sorted((bench for bench in found if bench.results), key=lambda bench: bench.began)


def _read(folder: Path) -> Published:
    files: Sequence[Path] = sorted(folder.rglob("results.json"))
    results = [json.loads(file.read_text()) for file in files]
    return Published(folder, tuple(sorted(results, key=lambda result: result["began"])))
