"""F16: clients that send their requests one byte in a while, and never end."""

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.kinds.f08_carrier_black_hole import compared
from loadtests.faults.rig import Rig

# Each healthy wave; small enough for two cores that the lorises share.
HEALTHY = 100
CARRIERS = ("postnl", "colibri")
# Seconds that these take, at full scale. Always the same: of a hundred calls p99 is the longest,
# and two samples of a latency with a long tail differ by more than the lorises could add.
CALL = 0.5
# Seconds after which a control's lorises go, so that its run ends.
CONTROL_LASTS = 8.0
OPENING = b"POST /api/v2/parcels HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000\r\n"


@register
class SlowLoris(Fault):
    """A front reads a request whole before it asks a worker: slow clients keep sockets, no worker.

    Its control has no front: threads that read their clients themselves, and all of them do soon.
    """

    id = "F16"
    title = "slow-loris clients"
    alone = True
    doses = {"short": Dose(200), "full": Dose(1_000)}
    strategy = "nginx-accel"
    # Fewer threads in all than the short dose has lorises.
    controls = {
        "front": Control(
            "healthy p99 during, s", environment={"WEB_THREADS": "40"}, strategy="gunicorn-gthread"
        )
    }
    kept = 0

    def strike(self, rig: Rig) -> None:
        for carrier in CARRIERS:
            rig.simulator.set_latency(carrier, {"fixed": CALL * rig.scale})
        self._healthy(rig, "before")
        stop = threading.Event()
        with ThreadPoolExecutor() as pool:
            lorises = pool.submit(drip, rig.port, self.dose.requests, stop)
            try:
                time.sleep(3)
                if self.control:  # nobody would be answered while they are there
                    threading.Timer(CONTROL_LASTS, stop.set).start()
                self._healthy(rig, "during")
            finally:
                stop.set()
            self.kept = lorises.result()
            rig.note(f"{self.kept} of {self.dose.requests} slow clients were kept")

    def _healthy(self, rig: Rig, prefix: str) -> None:
        wishes = rig.wishes(HEALTHY, synchronous=1.0, carriers=CARRIERS, prefix=prefix)
        rig.send(wishes, at_once=5).join()

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        most = self.dose.requests
        return [
            *compared(journals, "healthy", 1.2),
            Measure("slow clients kept", self.kept, f"half of {most}", self.kept * 2 >= most),
        ]


def drip(port: int, count: int, stop: threading.Event) -> int:
    """Send so many connections a byte a second each; return how many were kept until the end."""
    sockets = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            connection = socket.create_connection(("127.0.0.1", port), timeout=5)
            connection.sendall(OPENING)
            sockets.append(connection)
    kept = sockets
    while not stop.wait(1.0):
        kept = [connection for connection in kept if _takes(connection)]
    for connection in sockets:
        connection.close()
    return len(kept)


def _takes(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"X")
    except OSError:
        return False
    return True
