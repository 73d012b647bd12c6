"""Free ports on loopback."""

import os
import random
import socket
import sys
from itertools import islice

# Below the kernels' own choices for outgoing connections (Linux 32768+, macOS 49152+): a port
# found free there could be taken by any client's connection before our server binds it.
LOWEST, HIGHEST = 20_000, 32_000
# `1/4`: take every fourth port, from the second on. Between looking and binding there are seconds,
# and test processes side by side would now and then choose the same one.
LANE = "PORT_LANE"


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


def free_ports(count: int) -> list[int]:
    """Return that many different free ports, in random order so that parallel runs rarely meet."""
    lane, _, lanes = os.environ.get(LANE, "0/1").partition("/")
    ours = range(LOWEST + int(lane), HIGHEST, int(lanes))
    found = list(islice(filter(is_free, random.sample(ours, len(ours))), count))
    if len(found) < count:
        raise NoFreePortError(f"fewer than {count} free ports between {LOWEST} and {HIGHEST}")
    return found


def free_port() -> int:
    """Return one free port."""
    return free_ports(1)[0]
