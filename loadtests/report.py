"""stub"""

from __future__ import annotations
from pathlib import Path
from typing import Any


def write_report(results: list[dict[str, Any]], folder: Path) -> Path:
    return folder / "report.html"
