"""RabbitMQ instead of Redis, by its address alone."""

import os
import shutil
import subprocess

import pytest

from deploy.child import Child
from deploy.ports import free_ports
from deploy.readiness import wait_until_ready
from deploy.stack import Stack
from deploy.tests.test_backup import Shop
from deploy.tests.waiting import until

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(300)]

INSTALL = "apt-get install rabbitmq-server  |  brew install rabbitmq"


@pytest.fixture
def rabbitmq(tmp_path):
    """Return the address of a RabbitMQ of the test's own."""
    # Debian's command on PATH is a wrapper that changes to a user who may not enter our folder.
    places = ["/usr/lib/rabbitmq/bin", os.environ["PATH"], "/usr/sbin", "/opt/homebrew/sbin"]
    program = shutil.which("rabbitmq-server", path=os.pathsep.join(places))
    if program is None:
        pytest.skip(f"rabbitmq-server is not installed here; {INSTALL}")
    port, distribution, mapper = free_ports(3)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "RABBITMQ_NODENAME": f"test{port}@localhost",
        "RABBITMQ_NODE_PORT": str(port),
        "ERL_EPMD_PORT": str(mapper),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_BASE": str(tmp_path),
        "RABBITMQ_MNESIA_BASE": str(tmp_path / "mnesia"),
        "RABBITMQ_LOG_BASE": str(tmp_path / "log"),
        "RABBITMQ_PID_FILE": str(tmp_path / "pid"),
    }
    child = Child("rabbitmq", program, log=tmp_path / "rabbitmq.log", env=environment)
    child.start()
    try:
        wait_until_ready(f"port 127.0.0.1:{port}", seconds=60, given_up=child.cause_of_death)
        yield f"amqp://guest:guest@127.0.0.1:{port}//"
    finally:
        child.stop(20)
        # Erlang's port mapper is started by it as a daemon, and would stay.
        end = ["epmd", "-port", str(mapper), "-kill"]
        subprocess.run(end, env=environment, capture_output=True, check=False)


def test_announcements_go_through_rabbitmq(rabbitmq):
    """The sweeper is not started: without the broker nothing would be announced."""
    env = {"BROKER_URL": rabbitmq, "WEB_WORKERS": "1", "WORKER_CONCURRENCY": "20"}
    processes = ["redis", "web", "worker", "simulator"]
    with Stack("asgi-hold", env=env, processes=processes) as stack:
        shop = Shop(stack).use(stack.public_key, stack.secret_key)
        parcel = shop.create(request_label_async=True, shipment={"id": 8})
        until(lambda: shop.has_label(parcel), "the label")
