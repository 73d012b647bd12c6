"""The transport for threads against real sockets that misbehave."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest.mock import Mock, call

import pytest
from requests.adapters import HTTPAdapter

from carriers import transport, transport_async
from carriers.call import Call
from carriers.outcomes import Answered, NotSent, Unknown
from carriers.tests import certificates, servers
from carriers.tests.transport_cases import (
    CONNECT,
    DEADLINE,
    MISBEHAVIOURS,
    MUCH_LATER,
    UNSENDABLE,
    asking,
    buying,
    closed_port,
    descriptors_left,
    fits,
    is_not_sent,
    steps,
)
from carriers.transport import default_tls, perform
from carriers.watchdog import Watchdog

pytestmark = pytest.mark.integration  # real sockets on loopback
UNDER_GEVENT = "SLOW_CARRIERS_UNDER_GEVENT" in os.environ


def talk(url, *requests_, **options):
    return perform(steps(*requests_), url, options.pop("deadline", DEADLINE), CONNECT, **options)


def talk_async(url, *requests_, **options):
    deadline = options.pop("deadline", DEADLINE)
    call = transport_async.perform(steps(*requests_), url, deadline, CONNECT, **options)
    return asyncio.run(call)


# Under gevent, which has no event loop of asyncio's beside its own, the first alone.
both = pytest.mark.parametrize("talk", [talk, *([] if UNDER_GEVENT else [talk_async])])


@pytest.mark.parametrize(("handler", "allowed", "remark"), MISBEHAVIOURS)
def test_a_purchase_is_judged_by_what_came_back(handler, allowed, remark):
    with servers.serving(handler) as served:
        outcome = talk(served.url, buying())
    assert fits(outcome, allowed), remark
    assert len(served.requests) <= 1, "nothing is ever sent twice"


@pytest.mark.parametrize("handler", [servers.hang, servers.reset_after_reading, servers.garbage])
@both
def test_a_request_that_buys_nothing_leaves_nothing_unknown(talk, handler):
    with servers.serving(handler) as served:
        assert isinstance(talk(served.url, asking()), NotSent)


def test_a_purchase_leaves_in_one_write(monkeypatch):
    """A process may be frozen between two writes, and complete its purchase when it thaws."""
    writes = []

    class Watched(socket.socket):
        def sendall(self, data, *flags):
            writes.append(bytes(data))
            return super().sendall(data, *flags)

    with servers.serving(servers.answering(servers.http(200))) as served:
        monkeypatch.setattr(socket, "socket", Watched)
        talk(served.url, buying(body=b'{"reference": "r1"}'))
    purchases = [data for data in writes if data.startswith(b"POST") or b"r1" in data]
    assert len(purchases) == 1
    assert purchases[0].endswith(b'\r\n\r\n{"reference": "r1"}')


def test_a_failure_before_the_purchase_is_not_sent_and_after_it_unknown():
    answers = servers.answering(servers.http(200), b"HTTP/1.1 nonsense\r\n\r\n")
    with servers.serving(answers) as served:
        assert isinstance(talk(served.url, asking(), buying()), Unknown)
    with servers.serving(answers) as served:
        assert isinstance(talk(served.url, asking(), asking(), buying()), NotSent)
    with servers.serving(answers) as served:
        assert isinstance(talk(served.url, buying(), asking()), Unknown)


def test_a_refused_connection_is_not_sent():
    assert is_not_sent(talk(f"http://127.0.0.1:{closed_port()}", buying()), "unreachable")


@pytest.mark.parametrize("host", ["http://127.0.0.1", "http://localhost", "https://localhost"])
def test_a_process_without_a_descriptor_does_not_blame_the_carrier(host):
    default_tls.cache_clear()  # it reads a file
    with servers.silent() as (_, port), descriptors_left(0):
        outcome = talk(f"{host}:{port}", buying())
    assert is_not_sent(outcome, "no_descriptors")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_nor_does_one_without_a_descriptor_to_keep_the_deadline(scheme):
    with socket.create_server(("127.0.0.1", 0)) as carrier, descriptors_left(1):
        outcome = talk(f"{scheme}://127.0.0.1:{carrier.getsockname()[1]}", buying())
    assert is_not_sent(outcome, "no_descriptors")


def test_a_name_that_does_not_resolve_is_not_sent(monkeypatch):
    def unresolvable(*args, **kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unresolvable)
    assert is_not_sent(talk("http://carrier.invalid", buying()), "unreachable")


def test_a_late_resolver_sends_nothing_after_the_deadline(monkeypatch):
    real = socket.getaddrinfo

    def late(*args, **kwargs):
        time.sleep(0.6)
        return real(*args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", late)
    with servers.serving(servers.answering(servers.http(200))) as served:
        assert isinstance(talk(served.url, buying(), deadline=0.5), NotSent)
        assert served.requests == []


def test_a_connect_that_hangs_is_not_sent():
    with servers.silent() as (_, port):
        started = time.monotonic()
        outcome = perform(steps(buying()), f"http://127.0.0.1:{port}", 5.0, 0.3)
        assert is_not_sent(outcome, "unreachable")
        assert time.monotonic() - started < 3


def test_a_carriers_next_address_is_tried(monkeypatch):
    answering = servers.serving(servers.answering(servers.http(200)))
    with servers.silent() as silent, answering as served:
        stream = socket.AF_INET, socket.SOCK_STREAM, 6, ""
        found = [(*stream, silent), (*stream, ("127.0.0.1", served.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert talk("http://carrier.example:81", buying()) == Answered()


def test_a_far_carrier_of_many_addresses_is_reached(monkeypatch):
    """The feed's time-out of a second, by eight, is less than a round trip."""
    shares = []

    def far(connection, _, seconds, until):
        connection.close()
        shares.append((seconds, until - started))
        if len(shares) < 2:
            raise TimeoutError
        return connection

    stream = socket.AF_INET, socket.SOCK_STREAM, 6, ""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(*stream, ("h", 1))] * 8)
    monkeypatch.setattr(transport, "_connect", far)
    started = time.monotonic()
    transport._dial("feed.example", 443, Call("https://feed.example", started + 5.0, 1.0))
    assert shares == [pytest.approx((0.5, 1.0), abs=0.1)] * 2


def test_a_handshake_has_the_time_that_connecting_has_left_to_all_addresses(monkeypatch):
    connection = Mock()
    monkeypatch.setattr(transport, "time", Mock(monotonic=lambda: 5.8))
    transport._connect(connection, ("h", 443), 1.0, until=6.0)
    assert connection.mock_calls[1:2] == [call.connect(("h", 443))]
    given = [each.args[0] for each in connection.settimeout.mock_calls]
    assert given == pytest.approx([1.0, 0.2])


@pytest.mark.parametrize(
    "handler", [servers.trickle_headers, servers.trickle_body, servers.trickle_endless_body]
)
@both
def test_a_trickling_carrier_is_cut_at_the_total_deadline(talk, handler):
    with servers.serving(handler) as served:
        started = time.monotonic()
        outcome = talk(served.url, buying())
        taken = time.monotonic() - started
    assert outcome == Unknown("timeout", "The carrier did not answer in time")
    assert DEADLINE <= taken < MUCH_LATER


def test_without_the_watchdog_a_trickle_goes_on(monkeypatch):
    """The negative control: time-outs per read alone never cut a trickle."""
    monkeypatch.setattr(Watchdog, "watch", lambda *_: _NeverCut())
    ended = threading.Event()
    with servers.serving(servers.trickle_body) as served:

        def call():
            talk(served.url, buying(), deadline=0.5)
            ended.set()

        thread = threading.Thread(target=call)
        thread.start()
        assert not ended.wait(2.0)
    thread.join(10)


class _NeverCut:
    cut = False

    def let_go(self):
        pass


def test_nothing_is_sent_without_a_thread_that_keeps_the_deadline(monkeypatch):
    """A process may be at its limit of threads for a moment: the next call starts it."""
    start = threading.Thread.start
    refused: list[threading.Thread] = []

    def once_full(thread):
        if thread.name == "carrier-deadlines" and not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr("carriers.transport.WATCHDOG", Watchdog())
    monkeypatch.setattr(threading.Thread, "start", once_full)
    with servers.serving(servers.trickle_body) as served:
        assert is_not_sent(talk(served.url, buying()), "no_thread")
        assert fits(talk(served.url, buying()), {"timeout"})
        assert len(served.requests) == 1


@both
def test_one_deadline_covers_all_steps(talk):
    def slow(connection, served):
        servers.read_request(connection, served)
        time.sleep(0.4)
        connection.sendall(servers.http(200))

    with servers.serving(slow) as served:
        outcome = talk(served.url, *[asking(f"/{n}") for n in range(9)], deadline=1.0)
        assert isinstance(outcome, NotSent)
        assert len(served.requests) <= 3


def test_a_body_stuck_on_its_way_is_cut_and_unknown(monkeypatch):
    real = transport._dial

    def just_in_time(*args):
        connection = real(*args)
        connection.settimeout(0.001)
        return connection

    monkeypatch.setattr(transport, "_dial", just_in_time)
    with servers.serving(servers.not_reading) as served:
        started = time.monotonic()
        outcome = talk(served.url, buying(body=b"x" * 20_000_000))
        assert fits(outcome, {"timeout", "reset"})
        # urllib3 gives a send that stands still the time of a connect.
        assert CONNECT <= time.monotonic() - started < MUCH_LATER


def test_tls_works_and_is_cut_at_the_deadline_too(tmp_path):
    server, client = certificates.contexts(tmp_path)
    with servers.serving(servers.answering(servers.http(200, b"{}")), server) as served:
        assert talk(served.url, buying(), tls=client) == Answered()
    with servers.serving(servers.trickle_body, server) as served:
        started = time.monotonic()
        assert fits(talk(served.url, buying(), tls=client), {"timeout"})
        assert DEADLINE <= time.monotonic() - started < MUCH_LATER


def test_failing_tls_is_not_sent(tmp_path):
    server, client = certificates.contexts(tmp_path)
    with servers.serving(servers.answering(servers.http(200)), server) as served:
        assert is_not_sent(talk(served.url, buying()), "tls"), "an untrusted certificate"
        wrong_name = served.url.replace("localhost", "127.0.0.1")
        assert is_not_sent(talk(wrong_name, buying(), tls=client), "tls"), "another's certificate"
        assert served.requests == []
    with servers.serving(servers.garbage) as served:
        url = served.url.replace("http:", "https:")
        assert is_not_sent(talk(url, buying()), "tls"), "plain HTTP where TLS was expected"
    with servers.serving(servers.hang_in_handshake) as served:
        url = served.url.replace("http:", "https:")
        assert isinstance(talk(url, buying()), NotSent), "a handshake that never ends"


@both
def test_the_guard_is_asked_at_the_first_byte_of_a_purchase_only(talk):
    with servers.serving(servers.answering(servers.http(200))) as served:
        outcome = talk(served.url, asking(), buying(), acts_until=time.monotonic())
        assert is_not_sent(outcome, "send_forbidden")
        assert len(served.requests) == 1


@both
def test_what_http_cannot_carry_is_not_sent(talk):
    request = buying()
    for value in UNSENDABLE:
        bad = type(request)("POST", "/", {"Authorization": value}, b"", acts=True)
        with servers.serving(servers.answering(servers.http(200))) as served:
            outcome = talk(served.url, bad)
            assert is_not_sent(outcome, "unbuildable")
            assert value.strip() not in outcome.detail, "it may be a secret"
            assert served.requests == []


def test_what_only_the_library_refuses_is_not_repeated():
    bad = type(buying())("POST", "/", {"X-Bad name\n": "s3cret"}, b"", acts=True)
    outcome = talk("http://127.0.0.1:1", bad)
    assert outcome == NotSent("unbuildable", "InvalidHeader")


@both
def test_proxies_of_the_environment_are_ignored(talk, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    with servers.serving(servers.answering(servers.http(200))) as served:
        assert talk(served.url, buying()) == Answered()


def test_no_connection_is_used_twice():
    ports = []

    def keep_alive(connection, served):
        while not served.stop.is_set():
            before = len(served.requests)
            servers.read_request(connection, served)
            if len(served.requests) == before:
                return
            ports.append(connection.getpeername()[1])
            connection.sendall(servers.http(200))

    with servers.serving(keep_alive) as served:
        assert talk(served.url, buying(), asking()) == Answered()
    assert len(set(ports)) == 2


def test_no_time_out_is_none(monkeypatch):
    seen = []
    real = HTTPAdapter.send

    def spy(adapter, request, **kwargs):
        seen.append(kwargs["timeout"])
        return real(adapter, request, **kwargs)

    monkeypatch.setattr(HTTPAdapter, "send", spy)
    with servers.serving(servers.answering(servers.http(200))) as served:
        talk(served.url, asking(), buying())
    assert len(seen) == 2
    assert all(0 < value <= DEADLINE for pair in seen for value in pair)


@pytest.mark.parametrize("request_of", [asking, buying])
@pytest.mark.parametrize("deadline", [0, -1])
def test_a_call_without_time_is_not_begun(deadline, request_of):
    with servers.serving(servers.answering(servers.http(200))) as served:
        outcome = perform(steps(request_of()), served.url, deadline, 1)
    assert isinstance(outcome, NotSent)
    assert not served.requests


@pytest.mark.parametrize(("deadline", "connect"), [(None, 1), (1, None)])
def test_a_call_without_an_end_fails(deadline, connect):
    with pytest.raises(TypeError):
        perform(steps(buying()), "http://127.0.0.1:1", deadline, connect)


def test_no_descriptor_is_left_behind():
    with servers.serving(servers.answering(servers.http(200))) as served:
        talk(served.url, buying())
        before = len(os.listdir("/dev/fd"))
        for _ in range(20):
            talk(served.url, buying())
            talk(f"http://127.0.0.1:{closed_port()}", buying())
        assert len(os.listdir("/dev/fd")) <= before + 2


def test_the_watchdog_works_in_a_forked_child():
    """Servers fork after import; the parent's watchdog thread does not come along."""
    with servers.serving(servers.answering(servers.http(200))) as served:
        talk(served.url, asking())  # starts the thread in this process
    program = (
        "import os, sys\n"
        "from carriers.tests import servers, test_transport as t\n"
        "with servers.serving(servers.answering(servers.http(200))) as served:\n"
        "    t.talk(served.url, t.asking())\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    with servers.serving(servers.trickle_body) as served:\n"
        "        ok = t.fits(t.talk(served.url, t.buying()), {'timeout'})\n"
        "    os._exit(0 if ok else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], timeout=60, check=False
    )
    assert done.returncode == 0


@pytest.mark.deployment
@pytest.mark.skipif(UNDER_GEVENT, reason="this is that run")
def test_all_of_this_holds_under_gevent(tmp_path):
    # A configuration of its own: no Django, and warnings of the patching are not errors.
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  integration: as here\n")
    arguments = [
        *(__file__, "-q", "-c", str(tmp_path / "pytest.ini"), "-k", "not forked_child"),
        *("-p", "no:cacheprovider", "-p", "no:django", "-p", "no:asyncio"),
    ]
    program = (
        "from gevent import monkey; monkey.patch_all()\n"
        f"import sys, pytest; sys.exit(pytest.main({arguments!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "SLOW_CARRIERS_UNDER_GEVENT": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout


def test_a_server_here_reads_no_further_than_its_client_wrote():
    """Else its thread would use a core until the tests end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc")
        ours.close()
        served = servers.Served()
        reader = threading.Thread(target=servers.read_request, args=(theirs, served), daemon=True)
        reader.start()
        reader.join(5)
        assert not reader.is_alive()
        assert served.requests == []
