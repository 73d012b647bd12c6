"""Several machines: two for the app, two for the stores, a balancer, a witness.

Each is a host with a network of its own. The world outside, that is clients, carriers, the shops'
endpoint and this process, is one more.
"""

import contextlib
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import psycopg
import redis

from deploy.child import Child
from deploy.plan import CONNECTIONS
from deploy.readiness import wait_until_ready
from deploy.stack import Stack
from deploy.stores import PostgresServer, find_redis_server, redis_command
from loadtests.faults.clocks import shifted_by
from loadtests.faults.hosts import START_SECONDS, Host, HostsMissingError, Network, require_hosts
from loadtests.faults.rig import LATENCIES, Rig, environment

CONFIGURATIONS = Path(__file__).parent / "configurations"
FRONT, BACK = "10.29.1", "10.29.2"
OUTSIDE, BALANCER = f"{FRONT}.100", f"{FRONT}.5"
STORES = {"store1": f"{BACK}.21", "store2": f"{BACK}.22"}
WITNESS = f"{BACK}.23"
# Each app host's place in both networks, and how many seconds its clock is before the true one:
# a minute apart. The stores' clocks are right.
APPS, CLOCKS = {"app1": 11, "app2": 12}, {"app1": 30.0, "app2": -30.0}
PROCESSES = ("web", "hub", "worker", "sweeper", "front")
POSTGRESQL, REDIS, SENTINEL, CLIENTS = 5432, 6379, 26379, 8000
SIMULATOR = 9000
DATABASE = "faults"
# The standby's name, by which the primary's commits wait for it.
STANDBY = "store2"


class Primary(PostgresServer):
    """A PostgreSQL that other hosts may use and follow."""

    def __init__(self) -> None:
        super().__init__(port=POSTGRESQL)

    def _command(self, fsync: bool) -> str:
        return f"{super()._command(fsync)} -c listen_addresses=0.0.0.0"

    def _make_cluster(self) -> None:
        super()._make_cluster()
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all,replication all {BACK}.0/24 trust\n")


class Standby(Primary):
    """Follows the other store's."""

    def _command(self, fsync: bool) -> str:
        return f"{super()._command(fsync)} -c cluster_name={STANDBY}"

    def _make_cluster(self) -> None:
        if self.user:
            shutil.chown(self.folder, self.user)
        followed = ("--host", STORES["store1"], "--username", "postgres", "--write-recovery-conf")
        self._run("pg_basebackup", *followed, "--checkpoint", "fast", "--pgdata", str(self.data))


class SeveralMachines(Rig):
    """The rig of F29. A host that `dies` says nothing any more, as one whose power is cut."""

    address = OUTSIDE

    def _open(self, opened: contextlib.ExitStack) -> None:
        require_hosts()
        if not shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin"):
            raise HostsMissingError("no haproxy; install: apt-get install haproxy")
        folder = Path(self._folder.name)
        self.network = Network(folder / "hosts", ("front", "back", "stores"))
        opened.callback(self.network.close)
        self._make_hosts()
        opened.enter_context(self.hosts["outside"].inside())
        self._start_stores(opened)
        opened.callback(self.receiver.kill)
        self._start_receiver()
        self.stack = self._world(folder).open()
        opened.callback(self.stack.close, graceful=False)
        self.commits_wait_for(STANDBY)
        if not self.wait_until(self._may_fail_over, START_SECONDS):
            raise RuntimeError("the stores have no standby that could take over")
        self.start_apps(*APPS)
        self._start_balancer()
        wait_until_ready(f"GET {self.base_url}/readyz", seconds=START_SECONDS)
        self._meet_accounts(self.stack.env["DATABASE_URL"])

    def _start_balancer(self) -> None:
        host = self.hosts["balancer"]
        # The demo's app takes no other name.
        place, named = "frontend clients\n", "    http-request set-header Host localhost\n"
        text = (CONFIGURATIONS / "balancer.cfg").read_text().replace(place, place + named)
        (host.folder / "balancer.cfg").write_text(text)
        host.run("balancer", f"haproxy -db -f {host.folder / 'balancer.cfg'}")

    @property
    def base_url(self) -> str:
        return f"http://{BALANCER}:{CLIENTS}"

    def _make_hosts(self) -> None:
        self.network.open()
        self.network.join("back", "stores")
        places: dict[str, dict[str, str]] = {
            "outside": {"front": OUTSIDE, "stores": f"{BACK}.100"},
            "balancer": {"front": BALANCER},
            "witness": {"stores": WITNESS},
            **{name: {"stores": address} for name, address in STORES.items()},
            **{
                name: {"front": f"{FRONT}.{number}", "back": f"{BACK}.{number}"}
                for name, number in APPS.items()
            },
        }
        self.hosts: dict[str, Host] = {
            name: self.network.add(name, **{net: f"{at}/24" for net, at in links.items()})
            for name, links in places.items()
        }

    # Stores --------------------------------------------------------------------------------

    def _start_stores(self, opened: contextlib.ExitStack) -> None:
        primary, standby = Primary(), Standby()
        self._redis: dict[str, Child] = {}
        for name, server in (("store1", primary), ("store2", standby)):
            opened.callback(server.close)
            with self.hosts[name].inside():
                server.start()
                if server is primary:
                    server.create_database(DATABASE)
            self.hosts[name].adopt(server.child)
            self.start_redis(name, followed="" if server is primary else "store1")
        for name in (*STORES, "witness"):
            host = self.hosts[name]
            shutil.copy(CONFIGURATIONS / "sentinel.conf", host.folder)
            line = [find_redis_server(), str(host.folder / "sentinel.conf"), "--sentinel"]
            host.run("sentinel", shlex.join(line), ready=f"redis redis://127.0.0.1:{SENTINEL}")

    def start_redis(self, name: str, *, followed: str = "") -> None:
        """Start a store host's Redis, as a replica where there is one to follow."""
        host = self.hosts[name]
        line = redis_command(REDIS, host.folder / "redis", host.folder / "redis.log")
        line += " --bind 0.0.0.0 --protected-mode no"
        line += f" --replicaof {STORES[followed]} {REDIS}" if followed else ""
        self._redis[name] = host.run("redis", line, ready=f"redis redis://127.0.0.1:{REDIS}")

    def kill_redis(self, name: str) -> None:
        self.note(f"SIGKILL Redis of {name}")
        self._redis[name].kill()

    def commits_wait_for(self, standby: str) -> None:
        """Have PostgreSQL's commits wait for that standby; empty: for none."""
        with psycopg.connect(self._store_url("store1"), autocommit=True) as primary:
            primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
            primary.execute("SELECT pg_reload_conf()")

    def _may_fail_over(self) -> bool:
        with psycopg.connect(self._store_url("store1")) as primary:
            states = primary.execute("SELECT sync_state FROM pg_stat_replication").fetchall()
        try:
            agreed = self.sentinel("CKQUORUM", "redis")
            replicas = self.sentinel("REPLICAS", "redis")
        except redis.RedisError:
            return False
        return ("sync",) in states and bool(agreed) and len(replicas) == 1

    def sentinel(self, *question: str) -> list[bytes]:
        """Ask the witness' Sentinel."""
        with redis.Redis(WITNESS, SENTINEL, socket_timeout=5) as client:
            answer: list[bytes] = client.execute_command("SENTINEL", *question)
            return answer

    def redis_master(self) -> str:
        """Return the store host whose Redis is the master, by Sentinel's word."""
        address = self.sentinel("GET-MASTER-ADDR-BY-NAME", "redis")[0].decode()
        return next(name for name, at in STORES.items() if at == address)

    def _store_url(self, name: str) -> str:
        return f"postgresql://postgres@{STORES[name]}:{POSTGRESQL}/postgres"

    def promote(self, name: str) -> None:
        """Make the standby the primary: the operator's part, once the old one is dead."""
        with psycopg.connect(self._store_url(name), autocommit=True) as standby:
            standby.execute("SELECT pg_promote()")

    # App -----------------------------------------------------------------------------------

    def _world(self, folder: Path) -> Stack:
        """Return the carriers outside, with the environment that all app hosts share."""
        places = ",".join(f"{address}:{POSTGRESQL}" for address in STORES.values())
        ports = {
            f"CARRIER_URL_{code.upper()}": f"http://{OUTSIDE}:{port}"
            for port, code in enumerate(LATENCIES, start=SIMULATOR + 1)
        }
        # As in production: clients are told apart by what the balancer says.
        shipped = {
            "APP_HOST": "127.0.0.1",
            "TRUSTED_PROXIES": BALANCER,
            "FRONT_CONNECTIONS_PER_ADDRESS": CONNECTIONS,
        }
        carriers = {"SIMULATOR_URL": f"http://{OUTSIDE}:{SIMULATOR}", **ports}
        return Stack(
            "nginx-accel",
            database=f"postgresql://postgres@{places}/{DATABASE}",
            redis_url=f"redis://127.0.0.1:{REDIS}/0",
            env={**environment(self.scale), **self._env, **carriers, **shipped},
            processes=("simulator",),
            port=CLIENTS,
            run_dir=folder,
        )

    def start_apps(self, *names: str) -> None:
        """Start all of these app hosts as their compositions do, and wait until they serve."""
        started = {name: self._launch_app(self.hosts[name]) for name in names}
        for name, children in started.items():
            for process, child in children.items():
                page = f"GET http://127.0.0.1:{CLIENTS}/readyz"
                written = f"file {child.log.parent / process}.ready"
                question = written if process in ("worker", "sweeper") else page
                self.hosts[name].wait(child, question)
            self.note(f"{name} serves")

    def _launch_app(self, host: Host) -> dict[str, Child]:
        env = {**self.stack.env, **shifted_by(CLOCKS[host.name])}
        host.run("redis", f"haproxy -db -f {CONFIGURATIONS / 'redis.cfg'}", env=env)
        return {process: self._launch(host, process, env) for process in PROCESSES}

    def _launch(self, host: Host, process: str, env: Mapping[str, str]) -> Child:
        """Start a process in a folder of its own, as in a container."""
        folder = host.folder / process
        folder.mkdir(exist_ok=True)
        (folder / f"{process}.ready").unlink(missing_ok=True)
        own = {"RUN_DIR": str(folder), "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics")}
        if process == "front":
            own["BIND_HOST"] = "0.0.0.0"  # noqa: S104 # of the host's own network
        # What ends is started again, as by a container engine: a sweeper ends itself where a round
        # takes over two minutes.
        command = f"while :; do {sys.executable} -m deploy.container run {process}; sleep 1; done"
        command = f"sh -c {shlex.quote(command)}"
        return host.run(f"{process}/{process}", command, env={**env, **own})

    # What is done to them ------------------------------------------------------------------

    def cut(self, name: str, *switches: str) -> None:
        """Cut a host off these networks."""
        self.note(f"{name} is cut off {', '.join(switches)}")
        for switch in switches:
            self.network.cut(name, switch)

    def mend(self, name: str, *switches: str) -> None:
        """Put a host back."""
        self.note(f"{name} is back at {', '.join(switches)}")
        for switch in switches:
            self.network.mend(name, switch)

    def die(self, name: str, *switches: str) -> None:
        """Kill a host: its links first, so that nobody hears how its processes end."""
        self.cut(name, *switches)
        self.note(f"{name} is dead")
        self.hosts[name].kill()
