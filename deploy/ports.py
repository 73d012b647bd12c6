"""Free ports on loopback."""

import fcntl
import os
import random
import socket
import sys
import tempfile
from collections import deque
from itertools import islice

# Below the kernels' own choices for outgoing connections (Linux 32768+, macOS 49152+): a port
# found free there could be taken by any client's connection before our server binds it.
LOWEST, HIGHEST = 20_000, 32_000
# Between looking and binding there are seconds, on a busy machine a minute. So a process locks what
# it takes, by the port's byte in a file that all share: so many at most, until it ends.
KEPT = 2_000
_taken: deque[int] = deque()
_LOCKS = os.open(f"{tempfile.gettempdir()}/ports-of-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600)


class NoFreePortError(RuntimeError):
    """No free port was found."""


def is_free(port: int) -> bool:
    """Say whether a server could bind the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set it, too: a port in TIME_WAIT is free for them, one with a listener is not.
        # macOS would let it pass beside a listener on all addresses.
        if sys.platform == "linux":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def take(port: int) -> bool:
    """Keep a port from all other processes of ours; say whether it is free."""
    try:
        fcntl.lockf(_LOCKS, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _taken.append(port)
    if len(_taken) > KEPT:
        fcntl.lockf(_LOCKS, fcntl.LOCK_UN, 1, _taken.popleft())
    return is_free(port)


def free_ports(count: int) -> list[int]:
    """Return that many different free ports."""
    anywhere = random.sample(range(LOWEST, HIGHEST), HIGHEST - LOWEST)
    found = list(islice((port for port in anywhere if port not in _taken and take(port)), count))
    if len(found) < count:
        raise NoFreePortError(f"fewer than {count} free ports between {LOWEST} and {HIGHEST}")
    return found


def free_port() -> int:
    return free_ports(1)[0]
