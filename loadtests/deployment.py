"""One strategy, running, in the surroundings that all have: stores, settings, workers."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from deploy.loopback import ask, ask_json
from deploy.simulator import Simulator
from deploy.stack import Stack
from deploy.stores import PostgresServer
from loadtests.calls import RECEIVER
from loadtests.scenario import Scenario

# The same for every strategy, whatever stands in the caller's environment.
EQUAL = {"HUB_WORKERS": "1", "WORKER_CONCURRENCY": "500", "DATABASE_POOL": "16"}
# Connections that the kernel takes in by itself: nobody ever accepts one.
BACKLOG = 4096


class ContractError(RuntimeError):
    """A deployment doesn't do what it is for: measuring it would mean nothing."""


@contextmanager
def deployed(
    strategy: str, scenario: Scenario, postgresql: PostgresServer, sizes: Mapping[str, str]
) -> Iterator[tuple[Stack, str]]:
    """Start a strategy with an empty database and check it; yields it and the database's address.

    `sizes` wins over the scenario's environment, which wins over EQUAL.
    """
    url = postgresql.create_database("bench")
    environment = EQUAL | dict(scenario.environment) | dict(sizes)
    with Stack(strategy, database=url, env=environment) as stack:
        simulator = Simulator(stack.env)
        check_contract(stack)
        for carrier, latency in scenario.carriers.items():
            simulator.set_latency(carrier, latency)
        yield stack, url


def login(stack: Stack, account: int = 1) -> str:
    """Return `public:secret` of one of the two accounts, which have no rate limits."""
    suffix = "" if account == 1 else f"_{account}"
    return f"{stack.accounts[f'PUBLIC_KEY{suffix}']}:{stack.accounts[f'SECRET_KEY{suffix}']}"


@contextmanager
def hanging(base_url: str, login: str, count: int) -> Iterator[None]:
    """Register so many webhooks for an account whose receiver never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as server:
        for number in range(count):
            url = f"http://127.0.0.1:{server.getsockname()[1]}/{number}"
            ask_json(f"{base_url}/api/v2/webhooks", {"webhook": {"url": url}}, login=login)
        yield


def check_contract(stack: Stack) -> None:
    """Buy one label in one request and fetch it: the free test method, answered within seconds."""
    body = {"parcel": RECEIVER | {"shipment": {"id": 8}, "request_label": True}}
    status, answer = ask(f"{stack.base_url}/api/v2/parcels", body, login=login(stack))
    if status != 200:
        raise ContractError(f"a create with label answered {status}: {answer[:200]!r}")
    try:
        label = json.loads(answer)["parcel"]["label"]
    except (ValueError, KeyError, TypeError):
        raise ContractError(f"a create with label answered {answer[:200]!r}") from None
    if not label:
        raise ContractError(f"a create with label came back without it: {answer[:200]!r}")
    status, document = ask(label["label_printer"], login=login(stack))
    if status != 200 or not document.startswith(b"%PDF-"):
        raise ContractError(f"the label is no PDF: {status} {document[:40]!r}")


def reload(stack: Stack, what: str) -> str:
    """Reload the app or the front as the strategy says; return what was done, or why not."""
    how = stack.strategy.reload.get(what)
    if how is None:
        why = stack.strategy.cannot.get(f"reload-{what}", "there is none")
        return f"no reload of the {what}: {why}"
    stack.reload(what)
    return how
