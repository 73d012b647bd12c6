"""What Celery must be told of a broker, which follows from the broker's address."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from offload.sentinel import watched

# Seconds. Without both, publishing at a broker that takes connections and is silent waits for ever.
CONNECT_TIMEOUT = 2
TIMEOUT = 5


@dataclass(frozen=True, slots=True)
class Broker:
    """Celery's settings for one kind of broker."""

    url: str
    transport_options: dict[str, Any] = field(default_factory=dict)
    queue_arguments: dict[str, str] = field(default_factory=dict)


def of(url: str) -> Broker:
    """Return what Celery needs for the broker at this address."""
    if url.startswith(("amqp://", "amqps://")):
        return _rabbitmq(url)
    if url.startswith("rediss://"):
        address, _, chosen = url.partition("?")
        # Kombu's own default is none. Of two the last one counts, so that an address may choose.
        url = f"{address}?ssl_cert_reqs=required&{chosen}"
    options = {
        # Else each message is stored a second time until it is acknowledged, for a worker that dies
        # meanwhile: it would be sent again after an hour. The sweeper does that within seconds.
        "ack_emulation": False,
        "socket_timeout": TIMEOUT,
        "socket_connect_timeout": CONNECT_TIMEOUT,
        "health_check_interval": 10,
    }
    place = watched(url)
    if place is None:
        return Broker(url, options)
    password = quote(place.login.get("password", ""), safe="")
    user = quote(place.login.get("username", ""), safe="")
    login = f"{user}:{password}@" if password else ""
    urls = [
        f"sentinel://{login}{host}:{port}/{place.login['db']}" for host, port in place.sentinels
    ]
    asking = {name: options[name] for name in ("socket_timeout", "socket_connect_timeout")}
    return Broker(";".join(urls), {**options, "master_name": place.name, "sentinel_kwargs": asking})


def _rabbitmq(url: str) -> Broker:
    """Return quorum queues, and publishing that waits until most of the nodes have the message.

    What was published before a node's end is there after it, also on another node.
    """
    options: dict[str, Any] = {"confirm_publish": True}
    options |= {"read_timeout": TIMEOUT, "write_timeout": TIMEOUT}
    if url.startswith("amqps://"):  # without the name any host's certificate would do
        options["ssl"] = {"server_hostname": urlsplit(url).hostname}
    return Broker(url, options, {"x-queue-type": "quorum"})
