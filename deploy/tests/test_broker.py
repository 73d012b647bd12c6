"""RabbitMQ as the broker, a Redis for guards and another for answers: by settings alone."""

import signal
import time
from typing import Any

import pytest
import redis
from celery import Celery

from deploy.stack import Stack
from deploy.stores import StoreMissingError
from deploy.tests.fixtures import absent
from deploy.tests.redis_server import RedisServer
from deploy.tests.test_backup import Shop
from deploy.tests.waiting import until
from loadtests.faults.engines.rabbitmq import RABBITMQ_INSTALL, RabbitServer

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(300)]

# Seconds: the time-out of RabbitMQ's confirm (parcels.services.wake), and a busy machine.
ONE_TIME_OUT = 2.0 + 2.0


@pytest.fixture(scope="module")
def rabbitmq():
    try:
        server = RabbitServer()
    except StoreMissingError:
        absent("rabbitmq-server", RABBITMQ_INSTALL)
    with server:
        yield server


@pytest.fixture(scope="module")
def redis_servers():
    with RedisServer() as guards, RedisServer() as answers:
        yield {"GUARDS_URL": guards.url, "OFFLOAD_STORE": answers.url}


@pytest.fixture(scope="module")
def stack(rabbitmq, redis_servers):
    """The sweeper is not started: without the broker nothing would be announced."""
    few = {"WEB_WORKERS": "1", "WORKER_CONCURRENCY": "20", "THROTTLE_WRITE": "none"}
    with Stack(
        "asgi-hold",
        redis_url="redis://127.0.0.1:1/0",  # nobody is there
        env={**few, **redis_servers, "BROKER_URL": rabbitmq.url},
        processes=["web", "worker", "simulator"],
    ) as stack:
        yield stack


@pytest.fixture
def shop(stack):
    return Shop(stack).use(stack.public_key, stack.secret_key)


def seconds_to_create(shop):
    began = time.monotonic()
    shop.create(request_label_async=True, shipment={"id": 8})
    return round(time.monotonic() - began, 2)


def test_announcements_go_through_rabbitmq(shop):
    parcel = shop.create(request_label_async=True, shipment={"id": 8})
    until(lambda: shop.has_label(parcel), "the label")


def test_guards_and_answers_have_a_redis_each(shop, redis_servers):
    assert shop.create(request_label=True, shipment={"id": 8})["status"]["id"] == 1000
    kinds = {name: kinds_of_keys(url) for name, url in redis_servers.items()}
    assert kinds == {"GUARDS_URL": {"carriers"}, "OFFLOAD_STORE": {"offload"}}


def test_its_queues_are_quorum_queues(stack, rabbitmq):
    """RabbitMQ refuses to declare one that is there as another kind."""
    with Celery(broker=rabbitmq.url).connection() as connection:
        channel: Any = connection.channel()
        with pytest.raises(connection.channel_errors, match="quorum"):
            channel.queue_declare("announce.postnl", durable=True, auto_delete=False)


def test_a_silent_rabbitmq_costs_one_time_out(stack, shop, rabbitmq):
    shop.create(request_label_async=True, shipment={"id": 8})  # a connection stands
    rabbitmq.child.signal(signal.SIGSTOP)
    try:
        first, *others = [seconds_to_create(shop) for _ in range(4)]
    finally:
        rabbitmq.child.signal(signal.SIGCONT)
    assert first < ONE_TIME_OUT
    assert "no wake-up for announce" in stack.log("web")  # it was not taken for sent
    assert max(others) < ONE_TIME_OUT / 2
    until_a_label(shop)


def until_a_label(shop):
    """Wait until messages are sent again: the first ones are left to the sweeper."""
    later = []

    def one_more():
        later.append(shop.create(request_label_async=True, shipment={"id": 8}))
        return any(shop.has_label(parcel) for parcel in later)

    until(one_more, "a label after the broker's return")


def kinds_of_keys(url):
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return {key.partition(":")[0].partition(".")[0] for key in client.scan_iter()}


def test_a_redis_that_takes_no_writes_for_a_while_ends_no_worker():
    """As one whose disk is full, or that is a replica since a switch to another."""
    few = {"WEB_WORKERS": "1", "WORKER_CONCURRENCY": "20"}
    parts = ["redis", "web", "worker", "simulator"]
    with Stack("asgi-hold", env=few, processes=parts) as stack:
        shop = Shop(stack).use(stack.public_key, stack.secret_key)
        with redis.Redis.from_url(stack.env["REDIS_URL"]) as server:
            server.execute_command("REPLICAOF", "127.0.0.1", "1")
            until(lambda: "ReadOnlyError" in stack.log("worker"), "the worker's question")
            server.execute_command("REPLICAOF", "NO", "ONE")
        until_a_label(shop)
        assert stack.running("worker")
        assert "DeprecationWarning" not in stack.log("worker")
