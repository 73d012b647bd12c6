"""A link with delay and loss: `… -m loadtests.faults.slow_link ONE OTHER SECONDS SHARE READY`.

Between two bridges, Ethernet frame by frame: what is lost TCP sends again, as on a real one. Writes
the file READY when it is there. Kernels with netem do the same (`tc qdisc add … netem`), but many
lack it.
"""

import asyncio
import fcntl
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

# linux/if_tun.h
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
FRAME = 65_536


def port_of(bridge: str) -> int:
    """Make a network interface of this process at a bridge, and return its descriptor."""
    name = f"slow-{bridge}"
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    subprocess.run(["ip", "link", "set", name, "master", bridge, "up"], check=True)
    return descriptor


def forward(source: int, sink: int, *, seconds: float, share: float) -> None:
    """Pass on what comes, each frame after its delay; lose some."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            while frame := os.read(source, FRAME):
                if random.random() >= share:
                    loop.call_later(seconds, os.write, sink, frame)
        except BlockingIOError:
            return

    loop.add_reader(source, read)


async def main(one: str, other: str, seconds: str, share: str, ready: str) -> None:
    """Forward both ways until the process is ended."""
    ports = [port_of(bridge) for bridge in (one, other)]
    for source, sink in (ports, reversed(ports)):
        forward(source, sink, seconds=float(seconds), share=float(share))
    await asyncio.to_thread(Path(ready).write_text, "there\n")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
