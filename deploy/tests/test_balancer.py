"""The balancer that docs/scaling.md presents, before the front of an app host."""

import re
import shutil
import subprocess
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection

import pytest

from deploy.child import Child
from deploy.plan import ROOT
from deploy.ports import free_port
from deploy.readiness import wait_until_ready
from deploy.tests.fixtures import absent
from deploy.tests.test_front import PLAIN, App, contained, error_of
from deploy.tests.waiting import until

pytestmark = pytest.mark.integration

CONFIGURATIONS = ROOT / "loadtests" / "faults" / "configurations"
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin") or ""
HELD = 2


@pytest.fixture(autouse=True)
def installed():
    if not HAPROXY:
        absent("haproxy", "apt-get install haproxy")


@pytest.fixture
def app():
    app = App()
    yield app
    with suppress(OSError):
        app.close()


@contextmanager
def balanced(folder, front):
    """Run it with one app host and without health checks, and yield its port."""
    port = free_port()
    text = (CONFIGURATIONS / "balancer.cfg").read_text()
    text = re.sub(r"bind .*", f"bind 127.0.0.1:{port}", text)
    text = re.sub(r"server app1 .*", f"server app1 127.0.0.1:{front}", text)
    text = re.sub(r".*(server app2|default-server check) .*", "", text)
    (folder / "balancer.cfg").write_text(text)
    child = Child(
        "balancer", f"{HAPROXY} -db -f {folder}/balancer.cfg", log=folder / "balancer.log"
    )
    child.start()
    try:
        wait_until_ready(f"port 127.0.0.1:{port}", seconds=60, given_up=child.cause_of_death)
        yield port
    finally:
        child.stop(20)


def send(port, address, **headers):
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection = HTTPConnection("127.0.0.1", port, timeout=30, source_address=(address, 0))
    connection.request("GET", "/api/v2/parcels", headers=given)
    return connection


@pytest.mark.parametrize("file", ["balancer.cfg", "redis.cfg"])
def test_haproxy_takes_it(file):
    line = [HAPROXY, "-c", "-f", str(CONFIGURATIONS / file)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_client_has_its_own_connections_and_its_own_word_counts_for_nothing(tmp_path, app):
    given = {"TRUSTED_PROXIES": "127.0.0.1", "FRONT_CONNECTIONS_PER_ADDRESS": str(HELD)}
    with contained(PLAIN, tmp_path, app, **given) as front, balanced(tmp_path, front) as port:
        app.status = None
        for address in ("127.0.0.2", "127.0.0.3"):
            app.clients += [send(port, address) for _ in range(HELD)]
        until(lambda: len(app.taken) == 2 * HELD, "the app has them", 20)
        with closing(send(port, "127.0.0.2", X_Forwarded_For="192.0.2.9")) as client:
            answer = client.getresponse()
            assert error_of((answer.status, answer.headers, answer.read())) == 429


def test_it_says_itself_how_a_client_came(tmp_path, app):
    with (
        contained(PLAIN, tmp_path, app, TRUSTED_PROXIES="127.0.0.1") as front,
        balanced(tmp_path, front) as port,
        closing(send(port, "127.0.0.2", X_Forwarded_Proto="https")) as client,
    ):
        assert client.getresponse().status == 200
    assert b"X-Forwarded-For: 127.0.0.2\r\n" in app.heads[-1]
    assert b"X-Forwarded-Proto: http\r\n" in app.heads[-1]
