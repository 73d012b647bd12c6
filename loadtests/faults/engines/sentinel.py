"""Redis by Sentinel: a primary, a replica, and three that agree on which is which."""

import shlex
import time
from collections.abc import Callable

import redis

from deploy.child import Child
from deploy.ports import free_ports
from deploy.readiness import NotReadyError
from deploy.stores import START_SECONDS, Server, find_redis_server, redis_command

NAME, PASSWORD = "shop", "of-both"
SENTINELS, QUORUM = 3, 2
# Milliseconds of silence until a Sentinel believes that the primary is gone; 30 s are the default,
# of which a test would learn nothing.
DOWN_AFTER = 1000
CONFIGURATION = """port {port}
bind 127.0.0.1
dir {folder}
sentinel monitor {name} 127.0.0.1 {primary} {quorum}
sentinel auth-pass {name} {password}
sentinel down-after-milliseconds {name} {down_after}
sentinel failover-timeout {name} 5000
"""


class SentinelServer(Server):
    """Two Redis and their Sentinels; `child` is the Redis that was the primary at first."""

    def __init__(self) -> None:
        super().__init__()
        replica, *watching = free_ports(1 + SENTINELS)
        self.ports = (self.port, replica)
        self.watching = watching
        self.redis = {port: self._redis(port) for port in self.ports}
        self.child = self.redis[self.port]
        self.sentinels = [self._sentinel(port) for port in watching]

    def _redis(self, port: int) -> Child:
        log = self.folder / f"redis-{port}.log"
        line = redis_command(port, self.folder / str(port), log, PASSWORD)
        # Either may become the other's replica; the pause is for replicas that come together.
        line += f" --masterauth {PASSWORD} --repl-diskless-sync-delay 0"
        return Child(f"redis-{port}", line, log=log)

    def _sentinel(self, port: int) -> Child:
        file = self.folder / f"sentinel-{port}.conf"
        file.write_text(
            CONFIGURATION.format(
                port=port,
                folder=self.folder,
                name=NAME,
                primary=self.port,
                quorum=QUORUM,
                password=PASSWORD,
                down_after=DOWN_AFTER,
            )
        )
        line = shlex.join([find_redis_server(), str(file), "--sentinel"])
        return Child(f"sentinel-{port}", line, log=self.folder / f"sentinel-{port}.log")

    @property
    def url(self) -> str:
        """Return the address under which the primary is found, whichever it is."""
        sentinels = ",".join(f"127.0.0.1:{port}" for port in self.watching)
        return f"redis+sentinel://:{PASSWORD}@{sentinels}/{NAME}/0"

    def url_of(self, port: int) -> str:
        """Return one Redis' own address."""
        return f"redis://:{PASSWORD}@127.0.0.1:{port}/0"

    @property
    def primary(self) -> int:
        """Return the port of the Redis that the first Sentinel believes to be the primary."""
        with redis.Redis(port=self.watching[0], decode_responses=True) as sentinel:
            return int(sentinel.sentinel_get_master_addr_by_name(NAME)[1])

    def start(self) -> None:
        """Start them all, and wait until they know of each other."""
        for port in self.ports:
            self.start_redis(port)
        for port, child in zip(self.watching, self.sentinels, strict=True):
            child.start()
            child.wait_ready(f"redis redis://127.0.0.1:{port}/0", START_SECONDS)
        self._wait_for(self._complete, "the Sentinels don't know of each other")

    def start_redis(self, port: int) -> None:
        """Start one Redis, as the replica of the other one if that runs."""
        self.redis[port].start()
        self.redis[port].wait_ready(f"redis {self.url_of(port)}", START_SECONDS)
        other = sum(self.ports) - port
        if self.redis[other].running:
            with redis.Redis.from_url(self.url_of(port)) as client:
                client.replicaof("127.0.0.1", other)

    def _wait_for(self, true: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + START_SECONDS
        while not true():
            if time.monotonic() > end:
                raise NotReadyError(f"{what}\n{self.child.log_tail()}")
            time.sleep(0.1)

    def _complete(self) -> bool:
        """Tell whether each Sentinel knows the others and a replica that could be promoted."""
        states = []
        for port in self.watching:
            with redis.Redis(port=port, decode_responses=True) as sentinel:
                states.append(sentinel.sentinel_master(NAME))
        return (
            all(
                state["num-other-sentinels"] == SENTINELS - 1 and state["num-slaves"] == 1
                for state in states
            )
            and self._replicates()
        )

    def _replicates(self) -> bool:
        with redis.Redis.from_url(self.url_of(self.ports[1])) as client:
            return client.info("replication").get("master_link_status") == "up"

    def crash(self) -> None:
        """Kill the primary; when the other one is it, start the killed one as its replica."""
        lost = self.primary
        self.redis[lost].kill()
        self._wait_for(lambda: self.primary != lost, "no replica was promoted")
        self.start_redis(lost)

    def close(self) -> None:
        """Kill them all and remove the folder."""
        for child in [*self.sentinels, *self.redis.values()]:
            child.kill()
        super().close()
