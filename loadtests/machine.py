"""The machine card: what a figure was measured on."""

import os
import platform
import subprocess
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

import psutil

# What shapes the figures; a package that isn't there is left out.
PACKAGES = (
    *("django", "djangorestframework", "celery", "uvicorn", "gunicorn", "gevent", "pyuwsgi"),
    *("cheroot", "bjoern", "psycopg", "redis"),
)
PROGRAMS = {
    "nginx": ("nginx", "-v"),
    "redis-server": ("redis-server", "--version"),
    "postgres": ("psql", "--version"),
}


def card() -> dict[str, Any]:
    """Return processor, memory, system and versions; no name of machine or owner."""
    installed = {each.name.lower() for each in distributions()}
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "commit": _says(("git", "describe", "--always", "--dirty"), here=True),
        "load_before": round(os.getloadavg()[0], 2),
        "packages": {name: version(name) for name in PACKAGES if name in installed},
        "programs": {name: said for name, line in PROGRAMS.items() if (said := _says(line))},
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line for line in file if line.startswith("model name")]
    except OSError:
        return platform.processor()
    return lines[0].partition(":")[2].strip() if lines else platform.machine()


def _says(line: tuple[str, ...], *, here: bool = False) -> str:
    folder = Path(__file__).parent if here else None
    try:
        done = subprocess.run(
            line, cwd=folder, capture_output=True, text=True, timeout=10, check=False
        )
    except OSError:
        return ""
    said = (done.stdout or done.stderr).strip().splitlines()
    return said[0] if said and not done.returncode else ""
