"""Running the hub: one listening socket, one or several processes, a stop that cuts no client
off."""

import argparse
import asyncio
import contextlib
import math
import multiprocessing
import os
import re
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
)

import uvicorn

from offload.counting import Counts, shared_memory
from offload.hub_app import Hub
from offload.protocol import Answer
from offload.questions import decode_answers, encode_question, sign_question
from offload.redis_clients import sync_client
from offload.sentinel import BY_SENTINEL
from offload.tickets import SECRET_LENGTH
from offload.waiting import MAX_HOLDS, MAX_HOLDS_PER_ACCOUNT, Waiters

# The kernel cuts this to net.core.somaxconn; a burst of holds arrives faster than it is accepted.
BACKLOG = 4096
# Seconds: longer than the 60 that nginx keeps an idle upstream connection, so that nginx and not
# the hub closes it; otherwise a hold reaches a closing connection and is a 502.
KEEP_ALIVE = 75
# Seconds for the late answers to leave at the end; they are small and ready.
DRAIN_TIMEOUT = 10
# Seconds before a process that died is restarted: a crash at the start must not use a whole core.
RESTART_PAUSE = 1.0
# Where the system names no limit, as macOS, which refuses to set it to none: twice MAX_HOLDS.
DESCRIPTORS = 20_000
# Seconds per socket operation of a question; the total is bounded by doubts.ASK_TIMEOUT.
SOCKET_TIMEOUT = 2.0
ENDING = (signal.SIGTERM, signal.SIGINT)


class AskApp:
    """Ask at `url`, signed with `secret`; a doubts.Resolve."""

    def __init__(self, url: str, secret: str) -> None:
        self._url = url
        self._secret = secret
        # No proxy of the environment, which must not see internal addresses, and no redirect, which
        # would turn the POST into a GET, whose signature would be wrong.
        self._opener = OpenerDirector()
        for handler in (HTTPHandler, HTTPSHandler, HTTPErrorProcessor, HTTPDefaultErrorHandler):
            self._opener.add_handler(handler())

    async def __call__(self, hold_ids: list[str], *, final_only: bool) -> dict[str, Answer]:
        body = encode_question(hold_ids, final_only=final_only)
        return decode_answers(await asyncio.to_thread(self._post, body))

    def _post(self, body: bytes) -> bytes:
        headers = {
            "Content-Type": "application/json",
            "Authorization": sign_question(self._secret, body, now=time.time()),
        }
        request = Request(self._url, body, headers)  # noqa: S310 # its scheme is http_url's
        try:
            with self._opener.open(request, timeout=SOCKET_TIMEOUT) as response:
                answers: bytes = response.read()
        except OSError as error:  # urllib's own, too: without the address it says nothing
            raise ConnectionError(f"{self._url}: {error}") from error
        return answers


class HubServer(uvicorn.Server):
    """Ends also when the process that forked it was killed, and when stopped while it starts."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Not before: the exit that `main` raises would be swallowed where it comes in a callback of
        # the garbage collector's, and this process would go on for ever.
        with super().capture_signals():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            yield

    async def on_tick(self, counter: int) -> bool:
        parent = multiprocessing.parent_process()
        if parent is not None and os.getppid() != parent.pid and not self.should_exit:
            signal.raise_signal(signal.SIGTERM)
        return await super().on_tick(counter)


def main() -> None:
    """Run the hub until SIGTERM or SIGINT."""
    options = parse(sys.argv[1:], os.environ)
    raise_descriptor_limit()
    for number in ENDING:  # uvicorn raises it again at its end; for a drained hub this is no error
        signal.signal(number, lambda *_: sys.exit())
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until somebody waits for them
    listening = listen(options)
    if options.workers > 1:
        supervise(listening, options)
    serve(listening, options, Counts())


def parse(arguments: list[str], environment: Mapping[str, str]) -> argparse.Namespace:
    """Read the command line; each option's default comes from the environment."""
    parser = argparse.ArgumentParser(
        prog="offload.hub", description="Holds clients until their answer comes."
    )
    get = environment.get
    bind = get("HUB_BIND", "127.0.0.1:8100")
    parser.add_argument("--bind", type=address, default=bind, help="host:port")
    parser.add_argument("--workers", type=count, default=get("HUB_WORKERS", "1"))
    store = _secret(environment, "OFFLOAD_STORE") or _secret(environment, "REDIS_URL")
    parser.add_argument(
        *("--store", "--redis"),
        dest="store",
        default=store or "redis://127.0.0.1:6379/0",
        help="redis://… or postgresql://…; OFFLOAD_STORE, else REDIS_URL",
    )
    parser.add_argument("--resolve-url", type=http_url, default=get("OFFLOAD_RESOLVE_URL", ""))
    limits = {"max-holds": MAX_HOLDS, "max-holds-per-account": MAX_HOLDS_PER_ACCOUNT}
    for name, limit in limits.items():
        variable = "OFFLOAD_" + name.replace("-", "_").upper()
        default = get(variable, str(limit))
        parser.add_argument(f"--{name}", type=count, default=default, help="per process")
    parser.add_argument(
        "--drain-seconds",
        type=seconds,
        default=get("OFFLOAD_DRAIN_SECONDS", "0"),
        help="seconds to wait for answers after the stop signal; then clients get late answers",
    )
    parser.add_argument("--fd", type=int, help="an inherited listening socket, instead of --bind")
    options = parser.parse_args(arguments)
    try:
        if not options.store.startswith("postgresql://"):
            sync_client(options.store)
        elif not re.fullmatch(r"postgresql://([^/@]*@)?[^@?]*(\?\w+=.*)?", options.store):
            raise ValueError  # libpq would name a piece of the password as the host
    except ValueError:  # whose words may show a piece of the password
        parser.error(
            "--store, OFFLOAD_STORE or REDIS_URL is not like redis://:password@host:6379/0, "
            f"{BY_SENTINEL}://:password@host:26379/name/0 or postgresql://user:password@host/name "
            "(in a password, %2F is /, %40 @, %23 # and %3F ?)"
        )
    options.secret = _secret(environment, "OFFLOAD_SECRET")
    former = _secret(environment, "OFFLOAD_SECRET_FALLBACKS")
    options.secret_fallbacks = tuple(former.replace(",", " ").split())
    if any(len(each) < SECRET_LENGTH for each in (options.secret, *options.secret_fallbacks)):
        parser.error(
            f"set OFFLOAD_SECRET, and each of OFFLOAD_SECRET_FALLBACKS, to {SECRET_LENGTH} "
            "characters or more, as in the app"
        )
    return options


def count(text: str) -> int:
    """Return a whole number over 0; argparse names this function where it is none."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is under its minimum of 1")
    return int(text)


def seconds(text: str) -> float:
    """Return a finite length of time."""
    if not 0 <= float(text) < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not 0 or more seconds")
    return float(text)


def address(text: str) -> str:
    """Return host:port with a port that there is."""
    _, colon, port = text.rpartition(":")
    if not colon or not 0 <= int(port) < 65_536:
        raise ValueError
    return text


def http_url(text: str) -> str:
    """Return the address of a page, or an empty text."""
    parts = urlsplit(text)
    if text and not (parts.scheme in ("http", "https") and parts.hostname and parts.port != 0):
        raise ValueError
    return text


def _secret(environment: Mapping[str, str], name: str) -> str:
    # Never an argument: all users can read those in the process list.
    path = environment.get(f"{name}_FILE")
    return Path(path).read_text().strip() if path else environment.get(name, "")


def raise_descriptor_limit() -> None:
    """Allow as many descriptors as the machine lets us: each hold is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # macOS caps it lower than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen(options: argparse.Namespace) -> socket.socket:
    """Return the listening socket: the inherited one, or a new one at host:port."""
    if options.fd is not None:
        return socket.socket(fileno=options.fd)
    host, _, port = options.bind.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, int(port)), family=family, backlog=BACKLOG)


def serve(listening: socket.socket, options: argparse.Namespace, counts: Counts) -> None:
    """Serve in this process until a signal, then drain."""
    waiters = Waiters(
        options.store,
        resolve=AskApp(options.resolve_url, options.secret) if options.resolve_url else None,
        counts=counts,
        max_holds=options.max_holds,
        max_holds_per_account=options.max_holds_per_account,
    )
    hub = Hub(
        waiters,
        secret=options.secret,
        secret_fallbacks=options.secret_fallbacks,
        drain_seconds=options.drain_seconds,
    )
    config = uvicorn.Config(
        hub,
        lifespan="on",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=math.ceil(options.drain_seconds) + DRAIN_TIMEOUT,
    )
    HubServer(config).run(sockets=[listening])


def supervise(listening: socket.socket, options: argparse.Namespace) -> NoReturn:
    """Keep `workers` processes on the socket; at a signal end them, and then this one."""
    counts = shared_memory(options.workers)

    def work(slot: int) -> None:
        # A terminal's Ctrl-C reaches the parent alone. Twice would cut the late answers short.
        os.setpgid(0, 0)
        serve(listening, options, Counts(counts, slot))

    def start(slot: int) -> multiprocessing.process.BaseProcess:
        # A fork has the socket and the memory.
        child = multiprocessing.get_context("fork").Process(target=work, args=[slot], daemon=True)
        child.start()
        return child

    # Only in the pauses a signal ends this process. A child gets it when it has begun: one that
    # comes during the fork would be forgotten, as Python clears there what it has not yet handled.
    children = [start(slot) for slot in range(options.workers)]
    try:
        while True:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            time.sleep(RESTART_PAUSE)
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
            for slot, child in enumerate(children):
                if not child.is_alive():
                    children[slot] = start(slot)
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        # Our copy would keep the port open, and connections in its queue without an owner.
        listening.close()
        for child in children:
            child.terminate()
        for child in children:
            child.join()


if __name__ == "__main__":
    main()
