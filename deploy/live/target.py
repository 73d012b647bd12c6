"""What is watched: one running stack, as its environment describes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from aiohttp import ClientError, ClientSession, ClientTimeout, encode_basic_auth

from deploy.env_file import read_env_file
from deploy.strategy import Strategy, load


@dataclass(frozen=True)
class Target:
    """One stack: its environment, and the processes that belong to it (`roots` and below)."""

    environment: Mapping[str, str]
    roots: Callable[[], list[int]]

    @cached_property
    def strategy(self) -> Strategy:
        return load(self.environment["STRATEGY"])

    @property
    def holds(self) -> bool:
        """Say whether clients are held without a worker."""
        return self.strategy.family == "is held by a front"

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.environment['PORT']}"

    @cached_property
    def _headers(self) -> dict[str, str]:
        accounts = read_env_file(Path(self.environment["ACCOUNTS_FILE"]))
        login = encode_basic_auth(accounts["PUBLIC_KEY"], accounts["SECRET_KEY"])
        return {"Authorization": login}

    async def ask(
        self, session: ClientSession, method: str, path: str, seconds: float, body: object = None
    ) -> int:
        """Ask as the demo account; return the status of an answer that came whole, else 0."""
        try:
            async with session.request(
                method,
                self.base_url + path,
                json=body,
                headers=self._headers,
                timeout=ClientTimeout(total=seconds),
            ) as answer:
                await answer.read()
                return answer.status
        except (ClientError, TimeoutError):
            return 0

    def bulkhead(self, carrier: str) -> int:
        """Return how many calls may be in flight to a carrier."""
        of_all = self.environment.get("CARRIER_BULKHEAD", "400")
        return int(self.environment.get(f"CARRIER_BULKHEAD_{carrier.upper()}", of_all))

    @property
    def slots(self) -> int | None:
        """Return how many requests the workers serve at once; None where nothing bounds them."""
        return self.strategy.slots_in(self.environment)
