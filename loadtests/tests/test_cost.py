"""What a label costs beside another commit's: the table, and whose processor time it is."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

import psutil
import pytest

from deploy.plan import ROOT
from loadtests import cost
from loadtests.cost import KEPT, TRAFFIC, Cost, Deployment, _is_ours, deployed, table


def test_the_ratio_is_of_the_medians() -> None:
    def runs(*costs: float) -> list[dict[str, Cost]]:
        return [dict.fromkeys(TRAFFIC, Cost(each, 2 * each, 1.0)) for each in costs]

    lines = table({"5392665": runs(10, 40, 20), "this": runs(5, 8, 6)}).splitlines()
    assert lines[0] == "| traffic |  | 5392665 | this | ratio |"
    assert lines[2] == (
        "| paced at 15/s | ms a label | 20.00 (10.00 to 40.00) | 6.00 (5.00 to 8.00) | 0.30 |"
    )
    assert len(lines) == 2 + 3 * len(TRAFFIC)


def test_the_simulated_carriers_are_not_counted() -> None:
    assert _is_ours(psutil.Process(os.getpid()))
    command = [sys.executable, "-c", "print(flush=True); input()", "carriers.simulator"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()  # a process that has just begun may have no command line yet
        assert not _is_ours(psutil.Process(child.pid))
        child.communicate(b"\n")


def test_the_stores_of_a_shell_get_no_simulated_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "DATABASE_URL_FILE", "REDIS_URL", "BROKER_URL_FILE"):
        monkeypatch.setenv(name, "the user's")
    for name in ("PostgresServer", "Deployment", "wait_until_ready"):
        monkeypatch.setattr(cost, name, mock.MagicMock())
    monkeypatch.setattr(subprocess, "Popen", started := mock.Mock())
    with deployed(ROOT, "asgi-hold", 1):
        given = started.call_args.kwargs["env"]
    assert given.keys() - {*KEPT} == {"PYTHONPATH", "DATABASE_URL", "SIMULATOR_LATENCY_POSTNL"}
    assert "the user's" not in given.values()


def test_a_process_that_ends_meanwhile_is_counted_by_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = subprocess.Popen(["sleep", "60"])
    ended, me = psutil.Process(child.pid), psutil.Process()
    child.kill()
    child.wait()
    trees = iter([[me], [ended], [me], []])
    monkeypatch.setattr(cost, "tree", lambda _: next(trees))
    run: Any = SimpleNamespace(pid=0, child=SimpleNamespace(pid=0), run=None)
    run.run = run.cluster = run
    assert Deployment.processor_seconds(run) > 0
    assert next(trees, None) is None
