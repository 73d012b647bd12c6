"""A Docker engine of the tests' own, and the images that the composition names.

For root a daemon runs here with its own data, socket and process id (deploy/setup.sh installs it on
Debian); others use an engine that already answers. Base images are the official ones where they can
be pulled; else the same names are given to images made of Debian's packages, in an engine of our
own only.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import certifi

from deploy.child import Child
from deploy.plan import ROOT
from deploy.tests.waiting import until

IMAGES = Path(__file__).parent / "images"
# What deploy/base/Dockerfile and docker-compose.yml name.
PYTHON = "python:3.11-slim-bookworm"
STORES = {"postgres:15-bookworm": "postgres", "redis:7.2-bookworm": "redis"}
# The Dockerfile's PYTHON with this machine's ways to packages in it (pip's index, certificates).
BASE = "compose-test-python"
APPLICATION = "slow-carriers"
PATH = f"/usr/bin:/usr/sbin:{os.environ['PATH']}"
# Kept from run to run, so that images are made once; without it all goes at the end.
KEEP = "COMPOSE_TEST_ROOT"
# What a daemon does first: it mounts, and it makes networks. With the kernel's numbers.
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
# As in the official images: a package needs neither its own fsync nor its pages.
DPKG = "force-unsafe-io\npath-exclude=/usr/share/doc/*\npath-exclude=/usr/share/man/*\n"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


class EngineMissingError(RuntimeError):
    """No engine can run here; the message says why."""


def which(program: str) -> str | None:
    return shutil.which(program, path=PATH)


def lacking(status: str) -> list[str]:
    """Return the capabilities that a process lacks for a daemon, by its /proc/<pid>/status."""
    held = int(re.findall(r"^CapEff:\s*(\w+)", status, re.MULTILINE)[0], 16)
    return [name for name, number in CAPABILITIES.items() if not held >> number & 1]


def why_no_daemon() -> str:
    """Return why no daemon of our own can run; empty when nothing is known against it."""
    if os.geteuid() != 0:
        return "no engine answers, and one of our own needs root"
    programs = ("dockerd", "docker", "docker-compose", "iptables")
    if missing := [name for name in programs if not which(name)]:
        return f"{', '.join(missing)}: make setup"
    if missing := lacking(Path("/proc/self/status").read_text()):
        return f"this container has no {', '.join(missing)}: run it with --privileged"
    return ""


class Engine:
    """`with Engine() as engine:`; then `engine.docker("ps")`."""

    def __init__(self) -> None:
        self.own: Child | None = None
        self.kept = KEEP in os.environ
        # Sockets' names are short: not below pytest's own folder.
        self.folder = Path(os.environ.get(KEEP) or tempfile.mkdtemp(prefix="compose-test-"))
        self.seconds: dict[str, float] = {}
        self.environment = {**os.environ, "PATH": PATH, "DOCKER_BUILDKIT": "0"}

    def __enter__(self) -> "Engine":
        self.folder.mkdir(exist_ok=True)
        try:
            self._start()
            self._timed("base images", self._base_images)
            self._timed("application's image", self._application)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.own is not None:
            self.own.stop(60)
            # The daemon leaves some mounted: a network namespace after a build with the machine's.
            for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
                if (place := line.split()[1]).startswith(f"{self.folder}/"):
                    self.run("umount", place, check=False)
        if not self.kept:
            shutil.rmtree(self.folder, ignore_errors=True)

    def docker(self, *arguments: str, check: bool = True, **settings) -> str:
        """Run the client; return what it printed."""
        return self.run("docker", *arguments, check=check, **settings).stdout

    def run(self, *command: str, check: bool = True, env=(), **settings):
        """Run a program against this engine."""
        done = subprocess.run(
            command,
            env={**self.environment, **dict(env)},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **settings,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{shlex.join(command)}: {done.returncode}\n{done.stdout[-4000:]}")
        return done

    def _timed(self, name: str, work) -> None:
        start = time.monotonic()
        work()
        self.seconds[name] = time.monotonic() - start

    def _start(self) -> None:
        if os.geteuid() != 0 and which("docker") and self._answers():
            return
        if reason := why_no_daemon():
            raise EngineMissingError(reason)
        socket = self.folder / "socket"
        self.environment["DOCKER_HOST"] = f"unix://{socket}"
        options = {
            "data-root": self.folder / "data",
            "exec-root": self.folder / "exec",
            "pidfile": self.folder / "pid",
            "host": f"unix://{socket}",
            # Nothing is routed: services meet on a bridge, clients come by the published port.
            "bridge": "none",
            "ip-forward": "false",
        }
        words = ["dockerd", *(f"--{name}={value}" for name, value in options.items())]
        self.own = Child(
            "dockerd", shlex.join(words), log=self.folder / "log", env=self.environment
        )
        self.own.start()
        until(lambda: self._answers() or self._ended(), "the engine", 60)

    def _answers(self) -> bool:
        return self.run("docker", "info", check=False).returncode == 0

    def _ended(self) -> bool:
        if self.own is not None and not self.own.running:
            raise EngineMissingError(f"dockerd does not run here:\n{self.own.log_tail(5)}")
        return False

    def has(self, image: str) -> bool:
        return bool(self.docker("images", "--quiet", image))

    def _base_images(self) -> None:
        for image in (PYTHON, *STORES):
            if not self.has(image) and self.run("docker", "pull", image, check=False).returncode:
                if self.own is None:
                    raise EngineMissingError(f"{image} can't be pulled, and the engine isn't ours")
                self._from_debian(image)
        if self.has(BASE):
            return
        with tempfile.TemporaryDirectory() as name:
            _ways_to_packages(Path(name))
            self.docker("build", "--tag", BASE, "--file", str(IMAGES / "base"), name)

    def _from_debian(self, image: str) -> None:
        """Make what we need of an official image: the same programs, and its entry point's way."""
        if image != PYTHON:
            self.docker("build", "--network=host", "--tag", image, str(IMAGES / STORES[image]))
            return
        if not which("debootstrap"):
            raise EngineMissingError("no registry can be reached; without one: make setup")
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            root = Path(name) / "root"
            rules = root / "etc/dpkg/dpkg.cfg.d"
            rules.mkdir(parents=True)
            (rules / "image").write_text(DPKG)
            packages = "--include=ca-certificates,python3-dev,python3-venv"
            self.run("debootstrap", "--variant=minbase", packages, "bookworm", str(root))
            shutil.rmtree(root / "var/cache/apt/archives")
            (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
            tar = self.folder / "python.tar"
            self.run("tar", "--create", f"--file={tar}", f"--directory={root}", ".")
            self.docker("import", str(tar), PYTHON)
            tar.unlink()

    def _application(self) -> None:
        """Build the documented image, and a second one to update to."""
        file = "deploy/base/Dockerfile"
        base = f"--build-arg=PYTHON={BASE}"
        self.docker("build", "--network=host", base, "-f", file, "-t", f"{APPLICATION}:1", ".")
        second = f"FROM {APPLICATION}:1\nENV SECOND=1\n"
        self.docker("build", "--tag", f"{APPLICATION}:2", "-", input=second)


def _ways_to_packages(folder: Path) -> None:
    """Write what this machine needs to reach apt's and pip's packages: it is nobody else's."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    lines = ["[global]"]
    for line in listed.splitlines():
        place, _, value = line.partition("=")
        option, value = place.rpartition(".")[2], value.strip("'\"")
        if not (option == "find-links" and not Path(value).is_dir()):
            lines.append(f"{option} = {value}")
    (folder / "pip.conf").write_text("\n".join(dict.fromkeys(lines)) + "\n")
    settings = ""
    if shutil.which("apt-config"):
        settings = subprocess.check_output(["apt-config", "dump"], text=True)
    found = [line for line in settings.splitlines() if "::proxy" in line.lower()]
    (folder / "apt.conf").write_text("\n".join([*found, ""]))
    ours = Path(f"/{CERTIFICATES}")
    shutil.copy(ours if ours.exists() else certifi.where(), folder / "ca-certificates.crt")
