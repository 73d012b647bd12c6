"""How large each strategy is made, so that they can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field

from deploy.stack import Stack
from deploy.stores import PostgresServer
from loadtests.collector import SERVING
from loadtests.processes import Processes

WORKERS_KIND, MEMORY_KIND = "workers", "memory"
KINDS = (WORKERS_KIND, MEMORY_KIND, "own")
# The published base case: five processes.
WORKERS = 5
# MB for all that serves clients (web, front, hub): about what five plain processes take.
MEMORY = 600.0
# Nobody deploys more on a machine of this size; it bounds the strategies whose processes are small.
MOST_WORKERS = 16
# The two sizes from which a strategy's price per process is taken.
_FEW, _MORE = 1, 3


@dataclass(slots=True)
class Sizing:
    """`workers`: as many web processes for each. `memory`: as many as fit. `own`: as it comes."""

    kind: str = "workers"
    workers: int = WORKERS
    memory: float = MEMORY
    fitted: dict[str, int] = field(default_factory=dict)

    def of(self, strategy: str, postgresql: PostgresServer) -> dict[str, str]:
        """Return the environment that sizes a strategy; for `memory` it is measured once."""
        if self.kind == "own":
            return {}
        if self.kind == WORKERS_KIND:
            return {"WEB_WORKERS": str(self.workers)}
        if strategy not in self.fitted:
            few, more = (idle_memory(strategy, count, postgresql) for count in (_FEW, _MORE))
            self.fitted[strategy] = workers_for(self.memory, few, more)
        return {"WEB_WORKERS": str(self.fitted[strategy])}

    def describe(self) -> str:
        """Return the rule in words."""
        return {
            "own": "each strategy as its folder has it",
            "workers": f"{self.workers} web processes for each that takes a number of them",
            "memory": f"as many web processes as fit into {self.memory:.0f} MB with front and hub",
        }[self.kind]


def workers_for(budget: float, with_few: float, with_more: float) -> int:
    """Return how many processes fit into a budget in MB, by what 1 and 3 of them take idle."""
    each = (with_more - with_few) / (_MORE - _FEW)
    if each < 1:  # a server that has one process whatever it is told
        return 1
    return min(max(_FEW + int((budget - with_few) / each), 1), MOST_WORKERS)


def idle_memory(strategy: str, workers: int, postgresql: PostgresServer) -> float:
    """Start a strategy with so many web processes and return its serving memory in MB."""
    url = postgresql.create_database("sizing")
    with Stack(strategy, database=url, env={"WEB_WORKERS": str(workers)}) as stack:
        leaders = {name: stack.pid(name) for name in stack.names if name in SERVING}
        return sum(Processes(leaders).memory().values())
