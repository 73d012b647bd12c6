"""Locust runs in a process of its own: what it patches stays there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.tests.shop_server import BARE, Shop, running

FILES = sorted(
    path.stem
    for path in (Path(__file__).parents[1] / "locustfiles").glob("*.py")
    if path.stem not in {"__init__", "shop"}
)
ROOT = Path(__file__).parents[2]


def locust(name, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "locust", "-f", f"loadtests/locustfiles/{name}.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "PUBLIC_KEY": "p", "SECRET_KEY": "s", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("name", FILES)
def test_each_file_has_users(name):
    done = locust(name, "--list")
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines() + done.stdout.splitlines()) >= 3


@pytest.mark.integration
def test_talk_sends_what_its_scenario_says():
    parameters = "connections=5 requests=20 carrier_seconds=1 canary_rate=10 cap=60"
    with running(Shop(seconds=0.05)) as shop:
        done = locust(
            "talk",
            "--headless",
            "--host",
            f"http://127.0.0.1:{shop.port}",
            PARAMETERS=parameters,
        )
    assert done.returncode == 0, done.stderr
    assert (shop.creates, shop.reads, shop.most) == (20, 10, 5)


@pytest.mark.integration
def test_an_answer_without_label_fails_the_test():
    parameters = "connections=1 requests=1 carrier_seconds=1 canary_rate=1 cap=60"
    with running(Shop(answer=BARE)) as shop:
        host = f"http://127.0.0.1:{shop.port}"
        done = locust("talk", "--headless", "--host", host, PARAMETERS=parameters)
    assert done.returncode == 1
    assert "no label" in done.stderr + done.stdout
