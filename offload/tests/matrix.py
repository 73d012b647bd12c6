"""The unit tests in environments of their own: `python -m offload.tests.matrix` (needs uv).

What can't be had (a version without a release, no network) is said, and is no failure; at least
one environment must have run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
UV = [sys.executable, "-m", "uv"]
PYTHONS = ["3.11", "3.12", "3.13"]
DJANGOS = ["django~=5.2.0", "django~=6.0.0", "django"]
# The lowest that pyproject.toml promises, and the newest.
REDISES = ["redis==5.0.1", "redis"]
TOOLS = ["djangorestframework", "celery[redis]", "uvicorn", "aiohttp", "psycopg[binary]"]
TOOLS += ["pytest", "pytest-django", "pytest-asyncio", "pytest-timeout"]
# Below it Django 6 has no release: pip would take 5.2 for "django", which is another column.
NEWEST_DJANGO_WANTS = "3.12"


def interpreter_of(python):
    """Return a path: uv finds none of pyenv's, and would download one."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = sorted(root.glob(f"versions/{python}.*/bin/python"))
    return str(found[-1]) if found else shutil.which(f"python{python}") or python


def had(*command, folder=None):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode == 0


def make(folder, python, requirements):
    """Make the environment; False if something in it can't be had."""
    interpreter = folder / "bin" / "python"
    if not had(*UV, "venv", "--quiet", "--clear", "--python", interpreter_of(python), str(folder)):
        return None
    install = [*UV, "pip", "install", "--quiet", "--python", str(interpreter)]
    return interpreter if had(*install, *requirements, *TOOLS) else None


def run(interpreter, copy, arguments):
    # Nothing of the checkout but the package: its own name must be found, and nothing else of ours.
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(copy.parent)}
    command = [str(interpreter), "-m", "pytest", "-q", "-c", str(copy / "tests" / "alone.ini")]
    done = subprocess.run(
        [*command, *arguments, str(copy / "tests")],
        cwd=copy.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=Path, default=Path(".run/offload-matrix"))
    parser.add_argument("--only", default="", help="run what has this in its name")
    options, arguments = parser.parse_known_args()
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "offload"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for python, django, redis in product(PYTHONS, DJANGOS, REDISES):
            name = f"Python {python}, {django}, {redis}"
            if options.only not in name or (django == "django" and python < NEWEST_DJANGO_WANTS):
                continue
            folder = (options.environments / f"{python}-{django}-{redis}").resolve()
            # From Django 6.0, which has tasks of its own, with their worker.
            more = [] if "5.2" in django else ["django-tasks-db"]
            interpreter = make(folder, python, [django, redis, *more])
            if interpreter is None:
                results[name] = "can't be had"
            else:
                wanted = arguments or ["-m", "not integration"]
                code, said = run(interpreter, copy, wanted)
                results[name] = said.strip().splitlines()[-1] if code == 0 else f"FAILED\n{said}"
            sys.stdout.write(f"{name}: {results[name]}\n")
            sys.stdout.flush()
    failed = any(result.startswith("FAILED") for result in results.values())
    ran = any(result != "can't be had" for result in results.values())
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
