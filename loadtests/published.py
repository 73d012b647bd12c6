"""What has been committed: benches below docs/benchmarks, and the newest of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.plan import ROOT
from loadtests.aggregate import Group, groups

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
        """Return the results that can be compared: of a scenario run twice, those like the last.

        A quick form and a full one of the same scenario have another carrier: no common median.
        """
        like = {
            (name, result["sizing"]): facts["parameters"]
            for result in self.results
            for name, facts in result["scenarios"].items()
        }
        return [
            {**result, "runs": [run for run in result["runs"] if _is_like(result, run, like)]}
            for result in self.results
        ]

    def groups(self) -> list[Group]:
        """Return its runs by scenario, variant, strategy and sizing."""
        return groups(self.parts())


def _is_like(result: Result, run: Mapping[str, Any], like: Mapping[tuple[str, str], Any]) -> bool:
    parameters = result["scenarios"][run["scenario"]]["parameters"]
    return bool(parameters == like[run["scenario"], result["sizing"]])


def benches(root: Path = BENCHMARKS) -> list[Published]:
    """Return all that were committed, the newest last."""
    found = [_read(folder) for folder in sorted(root.iterdir()) if folder.is_dir()]
    return sorted((bench for bench in found if bench.results), key=lambda bench: bench.began)


def _read(folder: Path) -> Published:
    files: Sequence[Path] = sorted(folder.rglob("results.json"))
    results = [json.loads(file.read_text()) for file in files]
    return Published(folder, tuple(sorted(results, key=lambda result: result["began"])))
