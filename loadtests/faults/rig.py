"""A deployment on the bench: started with short times, struck, brought to rest, read."""

from __future__ import annotations

import base64
import json
import random
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.child import Child
from deploy.plan import ROOT
from deploy.stack import Stack
from deploy.stores import PostgresServer
from loadtests.faults.clients import Load, Wish
from loadtests.faults.journals import Database, Journals, Told, read_ledger

# Times short enough that a fault is over within seconds. Latencies in seconds.
ENVIRONMENT = {
    "CARRIER_CALL_DEADLINE": "3",
    "CARRIER_CONNECT_TIMEOUT": "1",
    "CARRIER_PROBE_DEADLINE": "1",
    "CARRIER_BREAKER_OPEN_FOR": "1",
    "CARRIER_BREAKER_RAMP_FOR": "3",
    "TIME_SCALE": "0.1",
    "WAIT_DEFAULT": "30",
    "WORKER_CONCURRENCY": "100",
    "WEB_WORKERS": "2",
    "SIMULATOR_LATENCY_POSTNL": "0.3",
    "SIMULATOR_LATENCY_TORTOISE": "0.3",
    "SIMULATOR_LATENCY_COLIBRI": "0.3",
    "SIMULATOR_LATENCY_LANTERN": "0.3",
    "SIMULATOR_LATENCY_MERIDIAN": "0.3",
}
# The processes that read the settings.
CHANGING = ("web", "worker", "sweeper")
# What a load is mixed of: two that can be asked, one that dedups.
MIX = ("postnl", "colibri", "meridian")


class Rig:
    """One deployment, its clients, and the schedule of what was done to it."""

    def __init__(
        self,
        *,
        database: str,
        seed: int,
        strategy: str = "asgi-hold",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self._folder = tempfile.TemporaryDirectory(prefix="faults-")
        self.database_kind = database
        self.postgresql = PostgresServer() if database == "postgresql" else None
        self._strategy, self._env = strategy, dict(env or {})
        self.prefix = ""
        self.loads: list[Load] = []
        self.more_told: list[Told] = []
        self.schedule: list[tuple[float, str]] = []
        self._extra: list[Child] = []
        self._started = time.monotonic()

    def __enter__(self) -> Rig:
        try:
            if self.postgresql:
                self.postgresql.start()
            self.stack = Stack(
                self._strategy,
                database=self.postgresql.create_database("faults") if self.postgresql else "sqlite",
                env=ENVIRONMENT | self._env,
                run_dir=Path(self._folder.name),
            ).open()
        except BaseException:
            self._tidy()
            raise
        self.database = Database(self.stack.env["DATABASE_URL"])
        keys = self.stack.accounts
        self.publics = [keys["PUBLIC_KEY"], keys["PUBLIC_KEY_2"]]
        secrets = [keys["SECRET_KEY"], keys["SECRET_KEY_2"]]
        self.logins = [f"{public}:{secret}" for public, secret in zip(self.publics, secrets)]  # noqa: B905
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for child in self._extra:
                child.kill()
            self.stack.close(graceful=False)
        finally:
            self._tidy()

    def _tidy(self) -> None:
        if self.postgresql:
            self.postgresql.close()
        self._folder.cleanup()

    def begin(self, prefix: str, environment: Mapping[str, str], seed: int) -> None:
        """Begin another run on the same deployment; its journals will tell of this run alone.

        Processes are started anew only where their environment differs.
        """
        self.prefix, self.seed, self.rng = prefix, seed, random.Random(seed)
        self.loads, self.schedule, self._started = [], [], time.monotonic()
        self.more_told = []
        self.simulator("POST", "/reset")
        if environment != self._env:
            self._env = dict(environment)
            for name in CHANGING:
                self.stack.kill(name)
            self.stack.change_environment({**ENVIRONMENT, **environment})
            self.stack.start(*CHANGING)
        self.note("ready")

    def note(self, what: str) -> None:
        """Write into the schedule what is being done."""
        self.schedule.append((round(time.monotonic() - self._started, 2), what))

    @staticmethod
    def clock() -> float:
        """Return seconds that only go forward."""
        return time.monotonic()

    @property
    def port(self) -> int:
        """Return the port that clients use."""
        return int(self.stack.env["PORT"])

    @property
    def cluster(self) -> PostgresServer:
        """Return the PostgreSQL under the deployment."""
        if self.postgresql is None:
            raise RuntimeError("this deployment has no PostgreSQL")
        return self.postgresql

    # Clients -------------------------------------------------------------------------------

    def wishes(
        self,
        count: int,
        *,
        synchronous: float = 0.0,
        carriers: Sequence[str] = MIX,
        fields: Mapping[str, Any] | None = None,
        prefix: str = "w",
    ) -> list[Wish]:
        """Make wishes of both accounts; `synchronous` is their share of them."""
        return [
            Wish(
                f"{self.prefix}{prefix}-{number}",
                account=number % 2,
                carrier=carriers[number % len(carriers)],
                synchronous=self.rng.random() < synchronous,
                fields=fields or {},
            )
            for number in range(count)
        ]

    def send(self, wishes: Sequence[Wish], *, at_once: int = 50) -> Load:
        """Begin to send them; `join` the load to wait for the last answer."""
        load = Load(self.stack.base_url, self.logins, wishes, at_once=at_once)
        self.loads.append(load)
        load.start()
        return load

    @property
    def told(self) -> list[Told]:
        """Return all that the clients have been told so far, and what a fault asked by itself."""
        return [told for load in self.loads for told in load.told] + self.more_told

    # Carriers ------------------------------------------------------------------------------

    def simulator(self, method: str, path: str, payload: Any = None) -> Any:
        """Call the simulator's control API."""
        request = urllib.request.Request(  # noqa: S310 # our own loopback
            self.stack.env["SIMULATOR_URL"] + path,
            method=method,
            data=None if payload is None else json.dumps(payload).encode(),
        )
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
            return json.loads(response.read() or b"null")

    def fault(self, carrier: str, kind: str, **parameters: Any) -> None:
        """Have a carrier misbehave."""
        self.note(f"{carrier}: {kind} {parameters}")
        self.simulator("PUT", f"/carriers/{carrier}/faults/{kind}", parameters)

    def heal(self) -> None:
        """End all of the carriers' faults."""
        self.note("carriers healed")
        self.simulator("DELETE", "/faults")

    def ask(self, path: str) -> Any:
        """GET from the API as the first account."""
        login = base64.b64encode(self.logins[0].encode()).decode()
        request = urllib.request.Request(  # noqa: S310 # our own loopback
            self.stack.base_url + path, headers={"Authorization": f"Basic {login}"}
        )
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
            return json.loads(response.read())

    # Processes -----------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """Kill a process and all its workers, and start it again."""
        self.note(f"SIGKILL {name}")
        self.stack.kill(name)
        self.stack.start(name)

    def revive(self, name: str) -> bool:
        """Start a process again if it has ended; tell whether it had."""
        if self.stack.running(name):
            return False
        self.note(f"{name} had died; started again")
        self.stack.start(name)
        return True

    def one_more(self, name: str, *, env: Mapping[str, str] | None = None) -> Child:
        """Start one more of a kind of process, with changes to its environment."""
        command = next(each.command for each in self.stack.plan.processes if each.name == name)
        child = Child(
            f"{name}-{len(self._extra) + 2}",
            command,
            log=self.stack.plan.run_dir / f"{name}-{len(self._extra) + 2}.log",
            env={**self.stack.env, **ENVIRONMENT, **self._env, **(env or {})},
            cwd=ROOT,
        )
        self._extra.append(child)
        child.start()
        self.note(f"one more {name} {dict(env or {})}")
        return child

    # Rest ----------------------------------------------------------------------------------

    def wait_until(self, true: Callable[[], bool], seconds: float, every: float = 0.25) -> bool:
        """Poll until something is true; False when the time is over."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                return False
            time.sleep(every)
        return True

    def finish_loads(self) -> None:
        """Wait for every client's answer."""
        for load in self.loads:
            load.join(timeout=600)

    def rest(self, seconds: float) -> float:
        """Wait until no announcement has anything left to do; return how long that took."""
        begun = time.monotonic()
        self.wait_until(lambda: self.database.unfinished() == 0, seconds)
        return time.monotonic() - begun

    def journals(self) -> Journals:
        """Read all three, as far as they are about this run."""
        journals = Journals(
            told=self.told,
            parcels=self.database.parcels(),
            announcements=self.database.announcements(),
            ledger=read_ledger(Path(self.stack.env["SIMULATOR_LEDGER"])),
            accounts=self.database.accounts(self.publics),
        )
        return journals.of(self.prefix)
