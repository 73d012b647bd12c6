"""A deployment on the bench: started at a scale of times, struck, brought to rest, read."""

import contextlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from deploy.child import Child
from deploy.loopback import ask_json
from deploy.plan import ROOT
from deploy.ports import free_port
from deploy.readiness import wait_until_ready
from deploy.simulator import Simulator
from deploy.stack import Stack
from deploy.stores import PostgresServer
from loadtests.deployment import login
from loadtests.faults.clients import Load, Wish
from loadtests.faults.engines.pgbouncer import PgBouncer
from loadtests.faults.engines.rabbitmq import RabbitServer
from loadtests.faults.engines.sentinel import SentinelServer
from loadtests.faults.journals import Database, Journals, Told, read_events, read_ledger

# All times of a run are the shipped ones by one factor, so that their ratios are the shipped ones:
# a full dose runs at the shipped times, a short one and a control at a tenth.
FULL, SHORT = 1.0, 0.1
# The carriers' latencies at full scale, p50 and p95 in seconds: those of the simulator's catalogue.
LATENCIES = {
    "postnl": (0.02, 0.02),
    "tortoise": (10.0, 10.0),
    "colibri": (0.4, 1.5),
    "lantern": (2.0, 6.0),
    "meridian": (1.5, 5.0),
}
# Seconds, at full scale: a synchronous client's wait (WAIT_DEFAULT), a lease (ANNOUNCEMENT_LEASE),
# the longest settling window of a carrier, and a call's total deadline (CARRIER_CALL_DEADLINE).
WAIT, LEASE, SETTLING, DEADLINE = 55.0, 75.0, 90.0, 30.0
# What the rig has of its own; with "pgbouncer" the application reaches PostgreSQL through one.
DATABASES = ("postgresql", "sqlite", "pgbouncer")
# Beside the stack's own Redis (RabbitMQ), or in its place.
BROKERS: dict[str, type[RabbitServer | SentinelServer]] = {
    "rabbitmq": RabbitServer,
    "sentinel": SentinelServer,
}
# The processes that read the settings.
CHANGING = ("web", "worker", "sweeper")
# What a load is mixed of: two that can be asked, one that dedups.
MIX = ("postnl", "colibri", "meridian")


def environment(scale: float) -> dict[str, str]:
    """Return the environment of a deployment whose times are the shipped ones by `scale`."""
    latencies = {
        f"SIMULATOR_LATENCY_{carrier.upper()}": f"p50:{p50 * scale:.6g},p95:{p95 * scale:.6g}"
        for carrier, (p50, p95) in LATENCIES.items()
    }
    # The shops' endpoint listens on loopback.
    return {**latencies, "TIME_SCALE": f"{scale:g}", "WEBHOOK_ALLOW_PRIVATE": "1"}


class Rig:
    """One deployment, its clients, and the schedule of what was done to it."""

    # Where the shops' endpoint listens.
    address = "127.0.0.1"

    def __init__(
        self,
        *,
        database: str,
        seed: int,
        strategy: str = "asgi-hold",
        env: Mapping[str, str] | None = None,
        scale: float = SHORT,
        broker: str = "",
    ) -> None:
        self.scale = scale
        self.rng = random.Random(seed)
        self.seed = seed
        self._folder = tempfile.TemporaryDirectory(prefix="faults-")
        self.receiver = self._make_receiver()
        self.database_kind = database
        self.postgresql: PostgresServer | None = None
        self.broker_kind = broker
        self.broker = BROKERS[broker]() if broker else None
        self._strategy, self._env = strategy, dict(env or {})
        self.prefix = ""
        self.loads: list[Load] = []
        self.more_told: list[Told] = []
        self.schedule: list[tuple[float, str]] = []
        self._extra: list[Child] = []
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            opened.callback(self._folder.cleanup)
            self._open(opened)
            self.closing = opened.pop_all()
        return self

    def _open(self, opened: contextlib.ExitStack) -> None:
        if self.database_kind != "sqlite":
            self.postgresql = PostgresServer()
            opened.callback(self.postgresql.close)
            self.postgresql.start()
        if self.broker:
            opened.callback(self.broker.close)
            self.broker.start()
        opened.callback(self.receiver.kill)
        self._start_receiver()
        by_sentinel = isinstance(self.broker, SentinelServer)
        broker = {"BROKER_URL": self.broker.url} if self.broker and not by_sentinel else {}
        url = self.postgresql.create_database("faults") if self.postgresql else "sqlite"
        database = url
        if self.database_kind == "pgbouncer":
            database = opened.enter_context(PgBouncer(self.cluster)).url_of("faults")
        self.stack = Stack(
            self._strategy,
            database=database,
            redis_url=self.broker.url if self.broker and by_sentinel else "",
            env=environment(self.scale) | broker | self._env,
            run_dir=Path(self._folder.name),
        ).open()
        opened.callback(self.stack.close, graceful=False)
        self._meet_accounts(url if self.postgresql else self.stack.env["DATABASE_URL"])

    def _meet_accounts(self, url: str) -> None:
        self.database = Database(url)
        self.simulator = Simulator(self.stack.env, seconds=10)
        self.logins = [login(self.stack, number) for number in (1, 2)]
        self.publics = [each.partition(":")[0] for each in self.logins]
        for account in range(len(self.logins)):
            self.ask("/api/v2/webhooks", {"webhook": {"url": self.webhook_url}}, account=account)

    def __exit__(self, *_: object) -> None:
        for child in self._extra:
            child.kill()
        self.closing.close()

    def _make_receiver(self) -> Child:
        """Make the shops' webhook endpoint, a process of its own: the load must not delay it."""
        folder, port = Path(self._folder.name), free_port()
        self.webhook_url = f"http://{self.address}:{port}/"
        self._seen = folder / "webhooks.jsonl"
        command = (
            f"{sys.executable} -m loadtests.faults.receiver {self.address} {port} {self._seen}"
        )
        return Child("receiver", command, log=folder / "receiver.log", cwd=ROOT)

    def _start_receiver(self) -> None:
        self.receiver.start()
        question = f"GET {self.webhook_url}"
        wait_until_ready(question, seconds=20, given_up=self.receiver.cause_of_death)

    def begin(self, prefix: str, changes: Mapping[str, str], seed: int) -> None:
        """Begin another run on the same deployment; its journals will tell of this run alone.

        Processes that run are started anew only where their environment differs.
        """
        self.prefix, self.seed, self.rng = prefix, seed, random.Random(seed)
        self.loads, self.schedule, self._started = [], [], time.monotonic()
        self.more_told = []
        self.simulator.reset()
        if changes != self._env:
            self._env = dict(changes)
            for name in CHANGING:
                self.stack.kill(name)
            self.stack.change_environment({**environment(self.scale), **changes})
        self.stack.start()  # also what the run before has stopped
        self.note("ready")

    def note(self, what: str) -> None:
        """Write into the schedule what is being done."""
        self.schedule.append((round(time.monotonic() - self._started, 2), what))

    @property
    def base_url(self) -> str:
        """Return the address that clients use, without `/api/v2`."""
        return self.stack.base_url

    @property
    def port(self) -> int:
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

    def send(
        self, wishes: Sequence[Wish], *, at_once: int = 50, clients: type[Load] = Load
    ) -> Load:
        """Begin to send them; `join` the load to wait for the last answer."""
        load = clients(self.base_url, self.logins, wishes, at_once=at_once)
        self.loads.append(load)
        load.start()
        return load

    @property
    def told(self) -> list[Told]:
        """Return all that the clients have been told so far, and what a fault asked by itself."""
        return [told for load in self.loads for told in load.told] + self.more_told

    # Carriers ------------------------------------------------------------------------------

    def simulated(self, carrier: str) -> dict[str, int]:
        """Return the simulator's figures of a carrier: its calls by kind, and those in flight."""
        return next(each for each in self.simulator.carriers() if each["code"] == carrier)

    def fault(self, carrier: str, kind: str, **parameters: Any) -> None:
        """Have a carrier misbehave."""
        self.note(f"{carrier}: {kind} {parameters}")
        self.simulator.fault(carrier, kind, parameters)

    def heal(self) -> None:
        self.note("carriers healed")
        self.simulator.heal()

    def ask(self, path: str, payload: Any = None, *, account: int = 0) -> Any:
        """GET from the API, or POST a payload to it."""
        return ask_json(self.base_url + path, payload, login=self.logins[account], seconds=10)

    # Processes -----------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """Kill a process and all its workers, and start it again."""
        self.note(f"SIGKILL {name}")
        self.stack.kill(name)
        self.stack.start(name)

    def kill_broker(self) -> None:
        """Kill what messages go through, and have it or its replica in its place again."""
        if self.broker is None:
            return self.kill("redis")
        self.note(f"SIGKILL {self.broker_kind}")
        return self.broker.crash()

    @property
    def broker_url(self) -> str:
        """Return where messages are sent to now."""
        if isinstance(self.broker, SentinelServer):
            return self.broker.url_of(self.broker.primary)
        return self.broker.url if self.broker else self.stack.env["REDIS_URL"]

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
            env={**self.stack.env, **environment(self.scale), **self._env, **(env or {})},
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

    def wait_for_work(self, load: Load) -> None:
        """Wait until ten announcements are under way, or the load has ended."""
        self.wait_until(
            lambda: self.database.unfinished() > 10 or not load.is_alive(), 10, every=0.05
        )

    def keep_logs(self, name: str) -> None:
        """Copy the processes' logs out of the folder that goes with this run."""
        kept = Path(tempfile.mkdtemp(prefix=f"faults-{name}-logs-"))
        folder = self.stack.plan.run_dir
        for log in folder.rglob("*.log"):
            shutil.copy(log, kept / "-".join(log.relative_to(folder).parts))
        print(f"the logs are in {kept}", file=sys.stderr)

    def rest(self, seconds: float) -> bool:
        """Wait until nothing is left to do by itself; False if there still is."""
        return self.wait_until(lambda: self.database.outstanding() == 0, seconds)

    def journals(self) -> Journals:
        """Read them all, as far as they are about this run."""
        journals = Journals(
            told=self.told,
            parcels=self.database.parcels(),
            announcements=self.database.announcements(),
            ledger=read_ledger(Path(self.stack.env["SIMULATOR_LEDGER"])),
            accounts=self.database.accounts(self.publics),
            attempts=self.database.attempts(),
            spares=self.database.spares(),
            outbox=self.database.outbox(),
            # Before what the receiver saw: it saw first what counts as delivered.
            deliveries=self.database.deliveries(),
            events=read_events(self._seen),
        )
        return journals.of(self.prefix)
