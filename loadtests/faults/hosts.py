"""Hosts on one machine: network namespaces with addresses, links and processes of their own.

Linux and root. The namespaces have no names on this machine: they are gone when their processes
are, however we end, and nothing in the machine's own network is touched.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deploy.child import Child
from deploy.plan import ROOT
from deploy.readiness import NotReadyError

NAMESPACES = ("net", "uts")
# An answer takes milliseconds: `ip` asks the kernel.
SECONDS = 10.0
# What a host's processes may take to start, on two cores that carry all hosts.
START_SECONDS = 90.0


class HostsMissingError(RuntimeError):
    """There can be no hosts here; the message says why."""


def require_hosts() -> None:
    """Make a link between two namespaces; HostsMissingError where that can't be had."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise HostsMissingError("hosts are network namespaces: they need Linux and root")
    line = "unshare --net --uts ip link add one type veth peer name two"
    try:
        done = subprocess.run(
            line.split(), capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except OSError as error:
        raise HostsMissingError(f"{error}; install: apt-get install iproute2") from None
    if done.returncode:
        raise HostsMissingError(f"no network namespaces here: {done.stderr.strip()}")


class Host:
    """A name, addresses, and processes that die together."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        self._children: list[Child] = []
        # A network lives as long as a process in it.
        self._anchor = Child(
            name, "unshare --net --uts sleep infinity", log=self.folder / "anchor.log"
        )

    @property
    def pid(self) -> int:
        """Return the process whose network this is."""
        return self._anchor.pid

    def start(self) -> None:
        """Make it, with nothing but a loopback."""
        self._anchor.start()
        end = time.monotonic() + SECONDS
        while _namespace(self.pid) == _namespace(os.getpid()):
            if time.monotonic() > end or not self._anchor.running:
                raise NotReadyError(f"{self.name}: {self._anchor.log_tail()}")
            time.sleep(0.01)
        with self.inside():
            socket.sethostname(self.name)
            ip("link set lo up")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Have this thread be on the host, and with it all processes and threads it starts."""
        with ExitStack() as opened:
            for kind in NAMESPACES:
                own = opened.enter_context(open(f"/proc/thread-self/ns/{kind}"))
                opened.callback(_enter, own.fileno())
                with open(f"/proc/{self.pid}/ns/{kind}") as other:
                    _enter(other.fileno())
            yield

    def run(
        self, name: str, command: str, *, env: Mapping[str, str] | None = None, ready: str = ""
    ) -> Child:
        """Start a process; with a question (deploy.readiness) wait until it is answered."""
        log = self.folder / f"{name}.log"
        child = Child(f"{self.name}/{name}", command, log=log, env=env, cwd=ROOT)
        with self.inside():
            child.start()
        self._children.append(child)
        if ready:
            self.wait(child, ready)
        return child

    def wait(self, child: Child, question: str) -> None:
        """Wait until a process answers; NotReadyError has the end of its log."""
        with self.inside():
            child.wait_ready(question, START_SECONDS)

    def adopt(self, child: Child) -> None:
        """Have a process that was started inside die with the host."""
        self._children.append(child)

    def kill(self) -> None:
        """Kill all its processes at once; its network stays."""
        for child in self._children:
            child.signal(signal.SIGKILL)
        for child in self._children:
            child.kill()
        self._children.clear()

    def close(self) -> None:
        """End it, and its network."""
        self.kill()
        self._anchor.kill()


class Network:
    """Hosts at switches. A switch is a bridge; a host's link to it is named after it.

    All bridges are on one host more, so that cutting a link takes nothing from the host but its
    answers: its own interface and routes stay, as with a cable pulled out at the other end.
    """

    def __init__(self, folder: Path, switches: tuple[str, ...]) -> None:
        self._folder = folder
        self._switches = switches
        self._bridges = Host("switches", folder)
        self._hosts: list[Host] = []

    def open(self) -> None:
        """Make the switches; `close` also what was begun."""
        self._bridges.start()
        with self._bridges.inside():
            for switch in self._switches:
                ip(f"link add {switch} type bridge")
                ip(f"link set {switch} up")

    def close(self) -> None:
        """End all hosts."""
        for host in [*self._hosts, self._bridges]:
            host.close()

    def add(self, name: str, **addresses: str) -> Host:
        """Make a host with an address, with its prefix's length, at each of some switches."""
        host = Host(name, self._folder)
        self._hosts.append(host)
        host.start()
        for switch, address in addresses.items():
            port = f"{name}-{switch}"
            with self._bridges.inside():
                ip(f"link add {port} type veth peer name {switch} netns {host.pid}")
                ip(f"link set {port} master {switch} up")
            with host.inside():
                ip(f"address add {address} dev {switch}")
                ip(f"link set {switch} up")
        return host

    def join(self, one: str, other: str) -> None:
        """Put a cable between two switches."""
        with self._bridges.inside():
            ip(f"link add {one}-{other} type veth peer name {other}-{one}")
            ip(f"link set {one}-{other} master {one} up")
            ip(f"link set {other}-{one} master {other} up")

    def cut(self, host: str, switch: str) -> None:
        """Cut a host, or another switch, off a switch: nobody is told, packets are lost."""
        with self._bridges.inside():
            ip(f"link set {host}-{switch} down")

    def mend(self, host: str, switch: str) -> None:
        """Undo a cut."""
        with self._bridges.inside():
            ip(f"link set {host}-{switch} up")

    @contextmanager
    def slow(self, one: str, other: str, *, delay: float, loss: float) -> Iterator[None]:
        """Put a slow link in the place of the cable between two switches.

        `delay`: seconds each way; `loss`: the share of packets. Of our own, as few kernels have
        netem (`tc`): see slow_link.
        """
        self.cut(one, other)
        ready = self._folder / "slow_link.ready"
        ready.unlink(missing_ok=True)
        module = "loadtests.faults.slow_link"
        command = f"{sys.executable} -m {module} {one} {other} {delay} {loss} {ready}"
        child = self._bridges.run("slow_link", command)
        try:
            with self._bridges.inside():
                self._bridges.wait(child, f"file {ready}")
            yield
        finally:
            child.kill()
            self.mend(one, other)


def ip(command: str) -> None:
    """Run iproute2's `ip` where this thread is; RuntimeError with its words."""
    line = ["ip", *command.split()]
    done = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(line)}: {done.stderr.strip()}")


def _namespace(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/net")


def _enter(namespace: int) -> None:
    """Call setns(2), which Python has from 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, 0):
        raise OSError(ctypes.get_errno(), "setns")
