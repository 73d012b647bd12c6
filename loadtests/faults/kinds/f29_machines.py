"""F29: several machines, of which one dies, is cut off, answers slowly, or fails over."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import cast

import aiohttp

from loadtests.faults.clients import Load, Wish
from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals, Told
from loadtests.faults.machines import SeveralMachines
from loadtests.faults.rig import Rig

# Clients at once, and the seconds that each lets pass before a request: ten a second are what two
# cores carry beside twenty-five processes.
CLIENTS, PAUSE = 16, 1.0
# Seconds between two tries of a client, and how many it makes: over any failover.
AGAIN, TRIES = 1.0, 90
# Seconds of load before a strike.
BEFORE = 3.0
# Seconds, whatever the scale, that store2 is cut off before store1 dies. Less than Sentinel's five.
LAGGING = 3.0
# Half of it each way, and the share of packets lost.
ROUND_TRIP, LOSS = 0.05, 0.01
# Seconds, whatever the scale, for Sentinel: five until it calls a master dead, then a vote.
FAILED_OVER = 60.0
# Parcels stored without the standby, of which a control must find some gone.
ENOUGH = 5
GONE = "parcels that were acknowledged and are gone"


class Insistent(Load):
    """Clients that repeat, under the same Idempotency-Key, until they have been told a parcel."""

    async def _send(self, session: aiohttp.ClientSession, wish: Wish) -> Told:
        await asyncio.sleep(PAUSE)
        for _ in range(TRIES):
            told = await super()._send(session, wish)
            if told.parcels:
                break
            await asyncio.sleep(AGAIN)
        return told


@register
class Machines(Fault):
    """Nothing that a client was told is lost with a machine, and nothing is bought twice.

    The app hosts' clocks are a minute apart all the time.
    """

    id = "F29"
    title = "several machines"
    may_refuse = 0.1
    strategy = "nginx-accel"
    own_engines = True
    rig = SeveralMachines
    # `seconds`: how long each fault lasts. A failover takes fifteen in the short dose, too: sixteen
    # clients ask again each second, and these requests must be a tenth of all.
    doses = {"short": Dose(1_500, 5, seconds=6), "full": Dose(2_000, 5, seconds=40)}
    controls = {"synchronous_standby": Control(GONE, environment={})}
    alone = True
    redis = 0.0

    def strike(self, rig: Rig) -> None:
        machines = cast("SeveralMachines", rig)
        self.steps: dict[str, Load] = {}
        if not self.control:
            self._during(machines, "an app host dies", self._app_dies)
            self._during(machines, "an app host is cut off the stores", self._app_is_cut_off)
            self._during(machines, "50 ms and 1 % loss before the stores", self._slow)
            self._during(machines, "Redis' master dies", self._redis_fails_over)
        self._during(machines, "PostgreSQL's host dies", self._postgresql_fails_over)

    def _during(
        self, rig: SeveralMachines, name: str, strike: Callable[[SeveralMachines], None]
    ) -> None:
        """Strike under load, and wait for the last client."""
        rig.note(name)
        share = self.dose.requests // self.dose.strikes
        wishes = [
            replace(wish, headers={"Idempotency-Key": wish.intent})
            for wish in rig.wishes(share, synchronous=0.5, prefix=f"{len(self.steps)}-")
        ]
        load = self.steps[name] = rig.send(wishes, at_once=CLIENTS, clients=Insistent)
        time.sleep(BEFORE)
        strike(rig)
        load.join()

    def _app_dies(self, rig: SeveralMachines) -> None:
        rig.die("app1", "front", "back")
        time.sleep(self.dose.seconds)
        rig.mend("app1", "front", "back")
        rig.start_apps("app1")

    def _app_is_cut_off(self, rig: SeveralMachines) -> None:
        rig.cut("app2", "back")
        time.sleep(self.dose.seconds)
        rig.mend("app2", "back")

    def _slow(self, rig: SeveralMachines) -> None:
        with rig.network.slow("back", "stores", delay=ROUND_TRIP / 2, loss=LOSS):
            rig.note("the link to the stores is slow and lossy")
            time.sleep(self.dose.seconds)
        rig.note("the link to the stores is as it was")

    def _redis_fails_over(self, rig: SeveralMachines) -> None:
        old = rig.redis_master()
        begun = time.monotonic()
        rig.kill_redis(old)
        rig.wait_until(lambda: rig.redis_master() != old, 2 * FAILED_OVER)
        self.redis = time.monotonic() - begun
        rig.note(f"Sentinel made {rig.redis_master()} the master")
        time.sleep(max(0.0, begun + self.dose.seconds - time.monotonic()))
        rig.start_redis(old, followed=rig.redis_master())

    def _postgresql_fails_over(self, rig: SeveralMachines) -> None:
        """Have the standby lag, as behind a failing switch, before the primary's host dies."""
        if self.control:
            rig.commits_wait_for("")
        rig.cut("store2", "stores")
        before = len(rig.told)
        time.sleep(LAGGING)
        if self.control:  # a busy machine may not have stored anything yet
            rig.wait_until(lambda: _stored(rig.told[before:]) >= ENOUGH, FAILED_OVER)
        rig.die("store1", "stores")
        rig.mend("store2", "stores")
        rig.promote("store2")
        rig.note("store2's PostgreSQL is the primary")
        time.sleep(self.dose.seconds)

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        rows = {(parcel.id, parcel.intent) for parcel in journals.parcels}
        told = {each.intent: each for each in journals.told if each.parcels}
        gone = sum((each.parcels[0]["id"], intent) not in rows for intent, each in told.items())
        wanted = len({each.intent for each in journals.told})
        labels = sum(row.state == "announced" for row in journals.announcements)
        return [
            Measure(GONE, gone, "0", not gone),
            Measure("clients that gave up", wanted - len(told), "0", wanted == len(told)),
            Measure("labels", labels, str(wanted), labels == wanted),
            Measure("seconds until Redis had another master", round(self.redis, 1),
                    f"{FAILED_OVER:g}", self.redis <= FAILED_OVER),
            *(each for name, load in self.steps.items() for each in costs(name, load.told)),
        ]  # fmt: skip


def _stored(told: list[Told]) -> int:
    return sum(bool(each.parcels) for each in told)


def costs(name: str, told: list[Told]) -> list[Measure]:
    """Return what a step has cost its clients."""
    kinds = Counter(_kind(each) for each in told)
    said = ", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items()))
    first: dict[str, float] = {}
    waits, ends = [], []
    for each in told:
        begun = first.setdefault(each.intent, each.sent_at)
        if each.parcels and each.answered_at:
            ends.append(each.answered_at)
            waits.append(each.answered_at - begun)
    silence = max((after - before for before, after in pairwise(sorted(ends))), default=0.0)
    return [
        Measure(f"{name}: answers", said, "-", True),
        Measure(f"{name}: seconds without an answer to anybody", round(silence, 1), "-", True),
        Measure(f"{name}: a client's longest wait", round(max(waits, default=0.0), 1), "-", True),
    ]


def _kind(told: Told) -> str:
    if not told.acknowledged:
        return str(told.status or "none")
    if not told.parcels:
        return f"{told.status}, empty"
    return f"{told.status}, label" if told.parcels[0]["tracking_number"] else f"{told.status}"
