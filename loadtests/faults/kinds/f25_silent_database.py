"""F25: a database that answers nothing, over a network that drops packets without a reset."""

import time
from urllib.parse import urlsplit

from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.proxy import SilentProxy
from loadtests.faults.rig import Rig

# Seconds after the network's return until worker and sweeper work, whatever the scale.
WORKING = 30.0
WORKER = "seconds until the worker announces again"
SWEEPER = "seconds until the sweeper ends a round again"
# What is announced afterwards, to see whether the worker works.
AFTERWARDS = 20
# No limit to a statement, at the server or at the client.
NO_LIMIT = {"DATABASE_STATEMENT_TIMEOUT": "0"}


@register
class SilentDatabase(Fault):
    """Each question to the database has an end, on our side.

    Connections from before the silence never answer again: a firewall has forgotten them.
    """

    id = "F25"
    title = "a database that answers nothing"
    may_refuse = 0.2
    own_engines = True
    # Seconds at full scale.
    doses = {"short": Dose(200, seconds=120), "full": Dose(1_000, seconds=120)}
    controls = {"statement_timeout": Control(SWEEPER, environment=NO_LIMIT)}
    worker = sweeper = 0.0

    def strike(self, rig: Rig) -> None:
        proxy = SilentProxy(rig.cluster.port)
        self._move_behind(rig, proxy.start())
        rig.closing.callback(proxy.close)
        # A control's clients wait for nothing, each for all of its patience: all of them at once.
        count = AFTERWARDS if self.control else self.dose.requests
        load = rig.send(rig.wishes(count, synchronous=0.2), at_once=20)
        rig.wait_for_work(load)
        rig.note("network: silent")
        proxy.silence()
        time.sleep(self.dose.seconds * rig.scale)
        rig.note("network: back, without the connections from before")
        proxy.speak()
        self._wait_for_work(rig)
        load.join()

    def _move_behind(self, rig: Rig, port: int) -> None:
        """Start web, worker and sweeper anew, with the proxy between them and the database."""
        url = urlsplit(rig.stack.env["DATABASE_URL"])
        moved = url._replace(netloc=f"{url.username}@127.0.0.1:{port}").geturl()
        without = NO_LIMIT if self.control else {}
        rig.begin(rig.prefix, {**without, "DATABASE_URL": moved}, rig.seed)

    def _wait_for_work(self, rig: Rig) -> None:
        back, mark = time.time(), rig.database.ask("SELECT clock_timestamp()")[0][0]
        ready = rig.stack.plan.run_dir / "sweeper.ready"

        def over() -> bool:
            now = time.time() - back
            if not self.sweeper and ready.exists() and ready.stat().st_mtime > back:
                self.sweeper = now
            if not self.worker and _claimed_since(rig, mark):
                self.worker = now
            return bool(self.sweeper and self.worker)

        rig.send(rig.wishes(AFTERWARDS, prefix="after"), at_once=AFTERWARDS)
        rig.wait_until(over, 2 * WORKING)

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        return [
            Measure(
                name,
                round(seconds, 1) if seconds else "never",
                f"{WORKING:g}",
                0 < seconds <= WORKING,
            )
            for name, seconds in ((WORKER, self.worker), (SWEEPER, self.sweeper))
        ]


def _claimed_since(rig: Rig, mark: object) -> bool:
    latest = rig.database.ask("SELECT max(claimed_at) FROM parcels_announcement")[0][0]
    return latest is not None and latest > mark  # none: it was silent before the first claim
