import io
import os
import signal
import threading

import pytest

from deploy import supervisor as supervisors
from deploy.plan import ROOT, PlannedProcess
from deploy.supervisor import Service, Supervisor, Terminal
from deploy.tests.waiting import alive, group_members, until

STAYS = "sh -c 'echo started $$; exec sleep 60'"
STUBBORN = "sh -c 'trap \"\" TERM; echo started $$; while :; do sleep 0.1; done'"


def planned(name, command, *, backing=False):
    return PlannedProcess(name, command, "", signal.SIGTERM, backing)


class Run:
    """A supervisor whose loop runs in the main thread, driven from a second one."""

    def __init__(self, *processes, stop_seconds=20.0):
        self.output = io.StringIO()
        self.supervisor = Supervisor(Terminal(self.output), stop_seconds=stop_seconds)
        for process in processes:
            self.supervisor.add(process, os.environ, ROOT)

    def loop(self, *steps, ending=signal.SIGINT):
        """Run the steps in a thread, then Ctrl-C; a step that fails fails the test."""
        failures = []

        def drive():
            try:
                for step in steps:
                    step()
            except BaseException as failure:
                failures.append(failure)
            os.kill(os.getpid(), ending)

        driver = threading.Thread(target=drive)
        driver.start()
        self.supervisor.loop()
        driver.join()
        if failures:
            raise failures[0]

    def pids(self, name):
        lines = [line for line in self.output.getvalue().splitlines() if f" {name} " in line]
        return [int(line.split()[-1]) for line in lines if "started" in line]

    def wait_for(self, name, count=1):
        until(lambda: len(self.pids(name)) >= count, f"start {count} of {name}")

    def said(self, text):
        return until(lambda: text in self.output.getvalue(), text)


@pytest.mark.integration
def test_ctrl_c_ends_all_of_them_and_says_130():
    run = Run(planned("web", STAYS), planned("redis", STAYS, backing=True))
    run.loop(lambda: run.wait_for("web"), lambda: run.wait_for("redis"))
    assert run.supervisor.returncode == 130
    assert not alive(run.pids("web")[0])
    assert not alive(run.pids("redis")[0])


@pytest.mark.integration
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_other_signals_end_them_too(number, code):
    run = Run(planned("web", STAYS))
    run.loop(lambda: run.wait_for("web"), ending=number)
    assert run.supervisor.returncode == code


@pytest.mark.integration
def test_a_killed_process_is_started_again():
    run = Run(planned("web", STAYS), planned("worker", STAYS))
    run.loop(
        lambda: run.wait_for("web"),
        lambda: run.wait_for("worker"),
        lambda: os.kill(run.pids("web")[0], signal.SIGKILL),
        lambda: run.said("web was killed by SIGKILL; starting it again in 0.5 s"),
        lambda: run.wait_for("web", 2),
    )
    assert len(run.pids("worker")) == 1
    assert run.supervisor.returncode == 130


@pytest.mark.integration
def test_the_end_of_a_leader_takes_its_workers():
    """Orphaned workers would hold its pipe open, and keep its port from the new one."""
    family = "sh -c 'sleep 61 & echo started $$; exec sleep 60'"
    run = Run(planned("web", family))

    def both_there():
        until(lambda: len(group_members(run.pids("web")[0])) == 2, "leader and worker")

    run.loop(
        lambda: run.wait_for("web"),
        both_there,
        lambda: os.kill(run.pids("web")[0], signal.SIGKILL),
        lambda: run.wait_for("web", 2),
    )
    assert group_members(run.pids("web")[0]) == []


@pytest.mark.integration
def test_what_keeps_dying_ends_all(monkeypatch):
    monkeypatch.setattr(supervisors, "FIRST_PAUSE_SECONDS", 0.01)
    run = Run(planned("web", "sh -c 'echo no config; exit 3'"), planned("worker", STAYS))
    run.supervisor.loop()
    assert run.supervisor.returncode == 1
    assert run.output.getvalue().count("no config") == 5
    run.said("web ended with 3: the 5th time within 30 s. Giving up")
    assert not alive(run.pids("worker")[0])


def on_term(action):
    return f"sh -c 'trap \"{action}; exit\" TERM; echo started $$; while :; do sleep 0.1; done'"


@pytest.mark.integration
def test_what_others_need_ends_last():
    store = planned("redis", on_term("echo store ended"), backing=True)
    run = Run(store, planned("web", on_term("sleep 0.5; echo web ended")))
    run.loop(lambda: run.wait_for("web"), lambda: run.wait_for("redis"))
    output = run.output.getvalue()
    assert output.index("web ended") < output.index("store ended")


@pytest.mark.integration
def test_what_ignores_the_request_is_killed_after_its_time():
    run = Run(planned("web", STUBBORN), stop_seconds=0.3)
    run.loop(lambda: run.wait_for("web"))
    assert not alive(run.pids("web")[0])


@pytest.mark.integration
def test_a_second_ctrl_c_kills_at_once():
    run = Run(planned("web", STUBBORN), stop_seconds=3600)
    run.loop(
        lambda: run.wait_for("web"),
        lambda: os.kill(os.getpid(), signal.SIGINT),
        lambda: run.said("stopping"),
    )
    assert not alive(run.pids("web")[0])


@pytest.mark.integration
def test_any_thread_may_end_it_with_a_reason():
    run = Run(planned("web", STAYS))
    threading.Timer(0.1, run.supervisor.fail, ["worker is not ready"]).start()
    run.supervisor.loop()
    assert run.supervisor.returncode == 1
    assert "system" in run.output.getvalue()
    assert "worker is not ready" in run.output.getvalue()


class Closed(io.StringIO):
    """A terminal whose window was closed after the first line."""

    def write(self, text):
        if "started" in self.getvalue():
            raise OSError("Input/output error")
        return super().write(text)


@pytest.mark.integration
def test_a_closed_terminal_ends_it_in_order():
    run = Run(planned("web", "sh -c 'echo started $$; while :; do echo more; sleep 0.1; done'"))
    run.output = run.supervisor._printer.output = Closed()
    run.supervisor.loop()
    assert run.supervisor.returncode == 129
    assert not alive(int(run.output.getvalue().split()[-1]))
    run.supervisor._printer.output.close()


@pytest.mark.parametrize(
    ("times", "given_up", "remark"),
    [
        ([0, 1, 2, 3], False, "four are allowed"),
        ([0, 1, 2, 3, 29], True, "five within the window are not"),
        ([0, 1, 2, 3, 31], False, "the first has left the window"),
        ([0, 60, 120, 180, 240, 300], False, "one a minute goes on for ever"),
    ],
)
def test_when_it_gives_up(times, given_up, remark):
    service = Service(planned("web", "true"), relay=None)
    verdicts = [service.died(now) for now in times]
    assert any(verdicts) is given_up, remark


def test_pauses_grow():
    service = Service(planned("web", "true"), relay=None)
    pauses = []
    for now in (0, 1, 2, 3):
        service.died(now)
        pauses.append(service.pause)
    assert pauses == [0.5, 1, 2, 4]
