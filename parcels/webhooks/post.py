"""POST to an address that a shop has chosen: guarded, bounded, and nothing of the answer kept.

`http.client` on a socket that we have connected ourselves: the name is resolved once, the address
that was checked is the one that is connected to. No redirects, no proxies, no cookies, no retries.
"""

import functools
import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass

import certifi

from carriers.transport import FinalAnswer
from carriers.watchdog import WATCHDOG
from parcels.webhooks.addresses import NotAllowed, Policy, Target, resolve, target

USER_AGENT = "slow-carriers-webhooks/0.1"
# Seconds to connect to one address: a host behind a slow link takes one, a dropped SYN is sent
# again after one and three.
CONNECT_TIMEOUT = 4.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The status, or a short reason why there is none; `duration` in seconds."""

    status: int | None
    error: str
    duration: float

    @property
    def taken(self) -> bool:
        """Tell whether the receiver has taken it: any 2xx."""
        return self.status is not None and 200 <= self.status < 300


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    policy: Policy,
    deadline: float,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Send the body and return the status; an error is an answer, too.

    `deadline` is seconds for everything but the resolver, which nothing can cut. `tls` replaces
    the trust in the public authorities.
    """
    started = time.monotonic()
    try:
        where = target(url, policy)
        status = _post(where, body, headers, policy=policy, deadline=deadline, tls=tls)
        return Answer(status, "", time.monotonic() - started)
    except NotAllowed as error:
        reason = str(error)
    except TimeoutError:
        reason = "time-out"
    except ssl.SSLError:
        reason = "TLS failed"
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = type(error).__name__
    return Answer(None, reason, time.monotonic() - started)


def _post(
    where: Target,
    body: bytes,
    headers: Mapping[str, str],
    *,
    policy: Policy,
    deadline: float,
    tls: ssl.SSLContext | None,
) -> int:
    ends_at = time.monotonic() + deadline
    plain = _dial(where, policy, ends_at)
    watch = WATCHDOG.watch(plain, ends_at)
    connection = http.client.HTTPConnection(where.host, where.port)
    connection.response_class = FinalAnswer
    try:
        connection.sock = plain
        if where.scheme == "https":
            connection.sock = (tls or _trust()).wrap_socket(plain, server_hostname=where.host)
        ours = {
            "Host": where.authority,
            "User-Agent": USER_AGENT,
            "Content-Type": "application/json",
            "Connection": "close",
        }
        connection.request("POST", where.path, body, {**ours, **headers})
        status = connection.getresponse().status
        if watch.cut:  # a cut in the headers looks like their end
            raise TimeoutError
        return status
    except (OSError, http.client.HTTPException):
        if watch.cut:
            raise TimeoutError from None
        raise
    finally:
        watch.let_go()
        connection.close()
        plain.close()


@functools.cache
def _trust() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certifi.where())


def _dial(where: Target, policy: Policy, ends_at: float) -> socket.socket:
    """Connect to the first of the checked addresses that answers."""
    trouble: OSError = TimeoutError()
    for family, address in resolve(where.host, where.port, policy):
        left = min(CONNECT_TIMEOUT, ends_at - time.monotonic())
        if left <= 0:
            break
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(left)
            connection.connect(address)
            connection.settimeout(max(ends_at - time.monotonic(), 0.001))
            return connection
        except OSError as error:
            connection.close()
            trouble = error
    raise trouble
