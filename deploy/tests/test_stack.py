import os
import signal

import pytest

from deploy.readiness import NotReadyError
from deploy.stack import Stack
from deploy.strategy import StrategyError
from deploy.tests.tiny import tiny_strategy
from deploy.tests.waiting import alive, get, until

pytestmark = pytest.mark.integration

WEB = "web: python {folder}/web.py\n"
WORKER = "worker: sh -c 'echo $$ > $RUN_DIR/worker.ready; echo working; exec sleep 60'\n"
BROKEN = "worker: sh -c 'echo no such broker; exit 4'\n"
SILENT = "worker: sh -c 'echo waiting for nothing; exec sleep 60'\n"


@pytest.fixture
def stack_of(tmp_path):
    def make(procfile, **options):
        strategy = tiny_strategy(tmp_path, procfile)
        options = {"run_dir": tmp_path / "run", "commands": (), **options}
        return Stack(strategy, **options)

    return make


@pytest.fixture
def stack(stack_of):
    with stack_of(WEB + WORKER) as stack:
        yield stack


def test_all_processes_run_when_it_is_open(stack):
    assert stack.names == ["redis", "web", "worker"]
    assert get(stack.base_url) == str(stack.pid("web"))
    assert stack.log("worker") == "working\n"


def test_a_killed_process_is_dead_until_it_is_started(stack):
    before = stack.pid("web")
    stack.kill("web")
    assert not alive(before)
    assert stack.running("worker")
    stack.start("web")
    assert get(stack.base_url) == str(stack.pid("web")) != str(before)


def test_a_restarted_process_is_waited_for_anew(stack):
    """The old process's readiness must not count for the new one."""
    ready = stack.plan.run_dir / "worker.ready"
    ready.write_text("stale")
    stack.restart("worker")
    assert ready.read_text().strip() == str(stack.pid("worker"))


def test_a_paused_process_goes_on_where_it_was(stack):
    pid = stack.pid("web")
    stack.pause("web")
    with pytest.raises(OSError, match="timed out"):
        get(stack.base_url, seconds=0.5)
    stack.resume("web")
    assert get(stack.base_url) == str(pid)


def test_signals_can_be_sent_by_name(stack):
    stack.kill("worker", signal.SIGTERM)
    until(lambda: not stack.running("worker"), "its end")


def test_nothing_is_left_after_the_end(stack_of):
    with stack_of(WEB + WORKER) as stack:
        pids = [stack.pid(name) for name in stack.names]
        assert all(alive(pid) for pid in pids)
    assert not any(alive(pid) for pid in pids)
    assert (stack.plan.run_dir / "web.log").exists()  # given, so it stays


def test_nothing_is_left_after_an_exception(stack_of):
    pids: list[int] = []

    def fail_in_the_middle():
        with stack_of(WEB + WORKER) as stack:
            pids.extend(stack.pid(name) for name in stack.names)
            stack.pause("web")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle()
    assert len(pids) == 3
    assert not any(alive(pid) for pid in pids)


def test_a_folder_of_its_own_goes_with_it(stack_of):
    with stack_of(WEB, run_dir=None) as stack:
        assert stack.plan.run_dir.exists()
    assert not stack.plan.run_dir.exists()


def test_a_folder_of_its_own_goes_where_nothing_could_be_planned(stack_of, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(StrategyError, match="WORKERS"):
        stack_of(WEB, run_dir=None, env={"WORKERS": "0"}).open()
    assert not list(tmp_path.glob("stack-*"))


def test_a_process_that_dies_shows_its_log_and_nothing_is_left(stack_of):
    stack = stack_of(WEB + BROKEN)
    with pytest.raises(NotReadyError, match=r"(?s)worker ended with 4.*no such broker"):
        stack.open()
    assert not any(alive(stack.pid(name)) for name in stack.names)


def test_a_process_that_never_gets_ready_shows_its_log(stack_of):
    stack = stack_of(WEB + SILENT, ready_seconds=1)
    with pytest.raises(NotReadyError, match=r"(?s)worker: not ready after 1 s.*for nothing"):
        stack.open()
    assert not any(alive(stack.pid(name)) for name in stack.names)


def test_only_the_chosen_processes_are_started(stack_of):
    with stack_of(WEB + BROKEN, processes=["web"]) as stack:
        assert stack.names == ["web"]
    other = Stack(stack.strategy, processes=["front"], commands=())
    with pytest.raises(KeyError, match="no process"):
        other.open()


def test_the_test_runs_environment_stays_outside(stack_of, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://somebody/else")
    monkeypatch.setenv("WORKER_CONCURRENCY", "1")
    with stack_of(WEB, env={"WEB_WORKERS": "3"}) as stack:
        assert stack.env["DATABASE_URL"].startswith("sqlite:///")
        assert stack.env["WORKER_CONCURRENCY"] != "1"
        assert stack.env["WEB_WORKERS"] == "3"
        environ = f"/proc/{stack.pid('web')}/environ"
        if os.path.exists(environ):
            with open(environ) as file:
                assert "WEB_WORKERS=3" in file.read().split("\0")


def test_a_given_redis_is_used(stack_of, redis_server):
    with stack_of(WEB, redis_url=redis_server.url) as stack:
        assert "redis" not in stack.names
        assert stack.env["REDIS_URL"] == redis_server.url


def test_a_cluster_of_its_own(stack_of, postgresql):
    with stack_of(WEB, database="postgresql") as stack:
        assert stack.postgresql.url_of("stack") == stack.env["DATABASE_URL"]
        pid = stack.postgresql.child.pid
        assert pid != postgresql.child.pid
    assert not alive(pid)
