"""An environment that has only the built wheel and what its metadata asks for.

Nothing is downloaded: what the wheel requires is linked in from the environment that runs the
tests, by following the requirements. A requirement that is missing in `pyproject.toml` is missing
there, too.
"""

import os
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SOURCE = Path(__file__).resolve().parents[1]
NAME = "django-offload-hold"


def build_wheel(folder, source=SOURCE):
    """Build from a copy, without the network."""
    copy = folder / "source"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    temporary = folder / "temporary"
    temporary.mkdir()
    arguments = ("--no-deps", "--no-build-isolation", "--wheel-dir", folder / "dist", copy)
    pip("wheel", *arguments, TMPDIR=str(temporary))
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def build_sdist(folder):
    """Build from a copy: it has the tests, and all else but what this checkout ignores."""
    copy = folder / "copy"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys; from setuptools import build_meta as it; it.build_sdist(sys.argv[1])"
    command = [sys.executable, "-c", code, str(folder / "sdist")]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    (archive,) = (folder / "sdist").glob("*.tar.gz")
    return archive


def pip(*arguments, **environment):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    environment = os.environ | {"PIP_NO_INDEX": "1", "PIP_NO_INPUT": "1"} | environment
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Installed:
    """The wheel in an empty virtual environment, with some of its extras."""

    def __init__(self, folder, wheel, *extras):
        self.folder = folder
        venv.create(folder, symlinks=True, with_pip=False)
        self.python = folder / "bin" / "python"
        pip("--python", self.python, "install", "--no-deps", wheel)
        (self.packages,) = folder.glob("lib/python*/site-packages")
        own = metadata.Distribution.at(next(self.packages.glob("django_offload_hold-*.dist-info")))
        self.linked = set()
        self._link_all(own.requires, extras=set(extras))

    def _link_all(self, requirements, extras=frozenset()):
        for requirement in map(Requirement, requirements or ()):
            if wanted(requirement, extras):
                self._link(requirement)

    def _link(self, requirement):
        name = canonicalize_name(requirement.name)
        there = metadata.distribution(name)
        assert there.version in requirement.specifier, f"{name} {there.version} is too old"
        if name not in self.linked:
            self.linked.add(name)
            for top in {file.parts[0] for file in there.files or ()} - {"..", "__pycache__"}:
                (self.packages / top).symlink_to(Path(str(there.locate_file(top))))
            self._link_all(there.requires)
        if requirement.extras:  # of what is there, another requirement may ask for more
            self._link_all(there.requires, requirement.extras)

    def run(self, *arguments, folder, **environment):
        """Run its Python in that folder, with nothing of this process' environment but PATH."""
        return subprocess.run(
            [str(self.python), *map(str, arguments)],
            cwd=folder,
            env={"PATH": os.environ["PATH"], **environment},
            capture_output=True,
            text=True,
            check=False,
        )


def wanted(requirement, extras):
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in extras or {""})
