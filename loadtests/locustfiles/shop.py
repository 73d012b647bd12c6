"""Scenarios as Locust users: `locust -f loadtests/locustfiles/talk.py --host http://127.0.0.1:8000`.

For Locust's page, and for load from several machines. The same files describe the streams; open
arrivals keep their schedule, and their times count from the intended start, as in our generator.
Faults, reloads and the server's side are `python -m loadtests`' part: they need the deployment in
hand. Keys come from PUBLIC_KEY and SECRET_KEY, or from what `make run` wrote.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gevent
from locust import LoadTestShape, constant, task
from locust.contrib.fasthttp import FastHttpUser

from deploy.env_file import read_env_file
from loadtests import scenario
from loadtests.arrivals import Closed
from loadtests.calls import KINDS, RECEIVER
from loadtests.metrics import LATE_SECONDS
from loadtests.scenario import Scenario, StreamSpec

# What `make run` writes when all is ready.
DEMO = Path(__file__).resolve().parents[2] / ".run" / "demo.env"


def keys() -> tuple[str, str]:
    """Return the account to use."""
    known = read_env_file(DEMO) | dict(os.environ)
    try:
        return known["PUBLIC_KEY"], known["SECRET_KEY"]
    except KeyError:
        raise SystemExit(
            "set PUBLIC_KEY and SECRET_KEY, or start `make run` in another terminal"
        ) from None


def chosen(name: str) -> Scenario:
    """Return the scenario, quick where QUICK is set, with `PARAMETERS="connections=20 cap=30"`."""
    words = (word.split("=", 1) for word in os.environ.get("PARAMETERS", "").split())
    overrides = {key: float(value) for key, value in words}
    whole = {key: int(value) if value == int(value) else value for key, value in overrides.items()}
    return scenario.load(name, quick=bool(os.environ.get("QUICK")), overrides=whole)


def users(found: Scenario) -> dict[str, type[StreamUser]]:
    """Return a user class for each of the app's streams, for a locustfile's namespace.

    A phase's streams begin when the phases before it have had their time.
    """
    classes: list[type[StreamUser]] = []
    begin = 0.0
    for phase in found.phases:
        for spec in phase.streams:
            if spec.target == "app":
                shifted = replace(spec, begin=spec.begin + begin)
                classes.append(_user(shifted, len(classes)))
        begin += phase.cap
    return {user.__name__: user for user in classes}


def _user(spec: StreamSpec, number: int) -> type[StreamUser]:
    name = f"{spec.name.title().replace(' ', '')}{number}"
    common = {
        "spec": spec,
        "network_timeout": spec.time_out,
        "connection_timeout": spec.time_out,
    }
    if isinstance(spec.arrivals, Closed):
        fields = {
            "fixed_count": spec.arrivals.connections,
            "left": iter(range(spec.arrivals.requests)),
        }
        return type(name, (ClosedUser,), common | fields)
    return type(name, (OpenUser,), common | {"fixed_count": 1})


class StreamUser(FastHttpUser):
    """Sends one stream's requests."""

    abstract = True
    spec: StreamSpec
    # Of all users: when none works any more the test is over.
    working: ClassVar[set[int]] = set()
    wait_time = constant(0)
    # An open stream is one user with all its requests in flight.
    concurrency = 20_000

    def on_start(self) -> None:
        """Read what every request needs."""
        self.working.add(id(self))
        self._begin = time.monotonic() + self.spec.begin
        self._login = "Basic " + base64.b64encode(":".join(keys()).encode()).decode()

    def done(self) -> None:
        """Send no more."""
        self.working.discard(id(self))
        self.stop()

    def send(self, intended: float) -> None:
        """Send one request; Locust is told the time since its intended start."""
        began = time.monotonic()
        with self.client.request(*self._request(), **self._options()) as answer:
            late = began - intended
            answer.request_meta["response_time"] += late * 1000
            if late > LATE_SECONDS:
                self.environment.events.user_error.fire(
                    user_instance=self, exception=LateSend(f"{late:.2f} s"), tb=None
                )
            if answer.status_code != 200:
                answer.failure(f"http {answer.status_code}")
            elif self.spec.call == "label" and not answer.json()["parcel"]["label"]:
                answer.failure("no label")

    def _request(self) -> tuple[str, str]:
        wish, path, _ = KINDS[self.spec.call]
        return ("POST" if wish else "GET"), path

    def _options(self) -> dict[str, Any]:
        wish, _, _ = KINDS[self.spec.call]
        parcel = RECEIVER | {"shipment": {"id": self.spec.method}, wish: True}
        body = {"json": {"parcel": parcel}} if wish else {}
        headers = {"Authorization": self._login}
        return {"name": self.spec.name, "headers": headers, "catch_response": True, **body}


class LateSend(RuntimeError):
    """The generator was late: its figures are not the server's."""


class ClosedUser(StreamUser):
    """One connection that sends when its last answer has come."""

    abstract = True
    left: Iterator[int]

    @task
    def ask(self) -> None:
        """Send the next one of those that all connections share."""
        gevent.sleep(max(self._begin - time.monotonic(), 0))
        if next(self.left, None) is None:
            self.done()
        else:
            self.send(time.monotonic())


class OpenUser(StreamUser):
    """Sends by its schedule, whatever the server does."""

    abstract = True

    @task
    def run_schedule(self) -> None:
        """Spawn a greenlet at each intended start."""
        if isinstance(self.spec.arrivals, Closed):
            raise TypeError("a closed stream has no schedule")
        sent = []
        for at in self.spec.arrivals.times():
            gevent.sleep(max(self._begin + at - time.monotonic(), 0))
            sent.append(gevent.spawn(self.send, self._begin + at))
        gevent.joinall(sent)
        self.done()


def shape(found: Scenario) -> type[LoadTestShape]:
    """Return a shape that starts all users at once and ends when all are done, or at the caps."""
    count = sum(user.fixed_count for user in users(found).values())
    cap = sum(phase.cap for phase in found.phases)

    class AllAtOnce(LoadTestShape):
        started = False

        def tick(self) -> tuple[int, float] | None:
            self.started = self.started or bool(StreamUser.working)
            done = self.started and not StreamUser.working
            return None if done or self.get_run_time() > cap else (count, count)

    return AllAtOnce
