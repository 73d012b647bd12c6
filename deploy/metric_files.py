"""The files in which a server's processes count (PROMETHEUS_MULTIPROC_DIR), for who reads them."""

from collections.abc import Iterable
from pathlib import Path


def readable(paths: Iterable[Path]) -> list[str]:
    """Return those that can be read now.

    A file that is being made this moment is empty, and `prometheus_client` fails on it with
    struct.error; one that was just removed is nobody's any more.
    """
    return [str(path) for path in paths if _size(path)]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
