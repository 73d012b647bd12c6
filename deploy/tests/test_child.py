import os
import signal

import pytest

from deploy.child import Child, direct
from deploy.tests.waiting import alive, group_members, until

pytestmark = pytest.mark.integration

# A leader with a worker of its own; both print when they are there.
FAMILY = (
    "sh -c 'sh -c \"trap : TERM; echo worker; while :; do sleep 0.1; done\" & echo leader; wait'"
)
STUBBORN = "sh -c 'trap \"\" TERM; echo here; while :; do sleep 0.1; done'"


@pytest.fixture
def child_of(tmp_path):
    children = []

    def start(command, **options):
        child = Child("one", command, log=tmp_path / "one.log", **options)
        children.append(child)
        child.start()
        return child

    yield start
    for child in children:
        child.kill()


def printed(child, *words):
    return lambda: all(word in child.log_tail() for word in words)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("redis-server --port $PORT", "exec redis-server --port $PORT"),
        ("exec redis-server", "exec redis-server"),
        ("A=1 B=2 serve", "exec env A=1 B=2 serve"),
        ("serve A=1", "exec serve A=1"),
    ],
)
def test_the_shell_becomes_the_command(command, line):
    assert direct(command) == line


def test_its_pid_is_the_servers_own_not_a_shells(child_of):
    child = child_of('X="a b" python3 -c \'import os; print("pid", os.getpid(), os.environ["X"])\'')
    child.wait(10)
    assert child.log_tail() == f"pid {child.pid} a b"


def test_stopping_takes_workers_that_outlive_their_leader(child_of):
    child = child_of(FAMILY)
    until(printed(child, "leader", "worker"), "both")
    assert child.stop(5) == -signal.SIGTERM
    until(lambda: not group_members(child.pid), "the end of what was killed")


def test_what_ignores_the_request_is_killed(child_of):
    child = child_of(STUBBORN)
    until(printed(child, "here"), "its first line")
    assert child.stop(0.3) == -signal.SIGKILL


def test_a_paused_child_stops_all_the_same(child_of):
    child = child_of("sleep 60")
    child.signal(signal.SIGSTOP)
    assert child.stop(10) == -signal.SIGTERM


def test_it_can_be_started_again_and_the_log_goes_on(child_of):
    child = child_of("sh -c 'echo pid $$'")
    first = child.pid
    child.wait(5)
    child.start()
    child.wait(5)
    assert child.log_tail().splitlines() == [f"pid {first}", f"pid {child.pid}"]


def test_it_is_not_started_twice(child_of):
    child = child_of("sleep 60")
    with pytest.raises(RuntimeError, match="running already"):
        child.start()


def test_its_death_is_explained(child_of):
    child = child_of("sh -c 'exit 7'")
    assert until(child.cause_of_death, "its end") == "one ended with 7"


def test_signals_after_its_end_hit_nobody(child_of):
    child = child_of("true")
    child.wait(5)
    child.signal(signal.SIGKILL)
    child.signal(signal.SIGKILL, leader_only=True)
    assert alive(os.getpid())
