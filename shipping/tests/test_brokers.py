"""What follows from a broker's address."""

import ssl
from typing import Any

import pytest
import redis
from celery import Celery

from offload.sentinel import watched
from shipping import brokers

SENTINELS = "redis+sentinel://:a%40b@one:26380,two/shop/2"


def test_redis_has_time_outs_and_plain_queues() -> None:
    broker = brokers.of("redis://:secret@host:6380/1")
    assert broker.url == "redis://:secret@host:6380/1"
    assert broker.transport_options["socket_timeout"] == brokers.TIMEOUT
    assert broker.queue_arguments == {}


@pytest.mark.parametrize("scheme", ["amqp", "amqps"])
def test_rabbitmq_confirms_and_keeps(scheme: str) -> None:
    broker = brokers.of(f"{scheme}://guest:guest@host:5672//")
    assert broker.transport_options["confirm_publish"] is True
    assert broker.queue_arguments == {"x-queue-type": "quorum"}


@pytest.mark.parametrize(
    ("chosen", "asked"),
    [
        ("", {"ssl_cert_reqs": ssl.CERT_REQUIRED}),
        ("?ssl_ca_certs=/a", {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_ca_certs": "/a"}),
        ("?ssl_cert_reqs=none", {"ssl_cert_reqs": ssl.CERT_NONE}),
    ],
)
def test_a_redis_by_tls_shows_its_certificate(chosen: str, asked: Any) -> None:
    """As to our other clients: the password is for nobody else."""
    broker = brokers.of(f"rediss://:secret@host:6380/1{chosen}")
    assert Celery(broker=broker.url).connection().ssl == asked


@pytest.mark.parametrize(
    ("scheme", "asked"), [("amqp", False), ("amqps", {"server_hostname": "host"})]
)
def test_a_rabbitmq_by_tls_is_the_host_of_its_address(
    scheme: str, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqp.Connection.connect", lambda _: None)
    broker = brokers.of(f"{scheme}://guest:guest@host:5671//")
    celery = Celery(broker=broker.url)
    celery.conf.broker_transport_options = broker.transport_options
    assert celery.connection().transport.establish_connection().ssl == asked


def test_sentinels_are_asked_for_the_name() -> None:
    broker = brokers.of(SENTINELS)
    assert broker.transport_options["master_name"] == "shop"
    connection = Celery(broker=broker.url).connection()
    assert connection.alt == ["sentinel://:a%40b@one:26380/2", "sentinel://:a%40b@two:26379/2"]
    assert (connection.password, connection.virtual_host) == ("a@b", "2")


def test_an_address_by_sentinel_is_read() -> None:
    place = watched(SENTINELS)
    assert place is not None
    assert place.sentinels == [("one", 26380), ("two", 26379)]
    assert (place.name, place.login) == ("shop", {"password": "a@b", "db": 2})
    assert watched("redis://one:6379/0") is None


@pytest.mark.parametrize("url", ["redis+sentinel://one:26379", "redis+sentinel:///shop/0"])
def test_an_address_that_lacks_a_part_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not redis"):
        watched(url)


@pytest.mark.integration
def test_a_message_under_way_is_not_stored_again(redis_server: Any) -> None:
    """A worker that dies with it costs the sweeper's wait, not the hour until it is sent again."""
    broker = brokers.of(redis_server.url)
    store = redis.Redis.from_url(redis_server.url)
    app = Celery(broker=broker.url, set_as_current=False)
    app.conf.broker_transport_options = broker.transport_options
    with app.connection() as connection:
        queue = connection.SimpleQueue("under-way")
        before = set(store.scan_iter())
        queue.put("ring")
        message = queue.get(timeout=10)
        assert set(store.scan_iter()) == before
        message.ack()
        queue.close()
