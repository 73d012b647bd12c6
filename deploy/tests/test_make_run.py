"""Black box: `make run` as a person has it, down to pasting what it prints."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from deploy.env_file import read_env_file
from deploy.plan import ROOT
from deploy.tests.fixtures import absent
from deploy.tests.waiting import alive, descendants, end, get, until

pytestmark = pytest.mark.deployment

# Over the start of everything on a busy machine, and pip's look at a lock that hasn't changed.
START_SECONDS = 150
KEYS = {"BASE_URL", "PUBLIC_KEY", "SECRET_KEY", "PUBLIC_KEY_2", "SECRET_KEY_2"}
KEYS |= {"SIMULATOR_URL", "LIVE_URL"}


class Run:
    """One `make run` in a session of its own, as a terminal would have it."""

    def __init__(self, folder, *arguments, **environment):
        self.run_dir = folder / "run"
        self.output = folder / "output"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in {"DATABASE_URL", "REDIS_URL", "CI", "MAKEFLAGS", "MAKELEVEL"}
        } | environment
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                ["make", "run", f"RUN_DIR={self.run_dir}", *arguments],
                cwd=ROOT,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # As a terminal starts it; of a shell's background job all descendants ignore it.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 # no threads
                text=True,
            )

    @property
    def printed(self):
        return self.output.read_text()

    def demo(self):
        """Wait for demo.env and return it."""

        def look():
            assert self.process.poll() is None, self.printed
            return read_env_file(self.run_dir / "demo.env")

        return until(look, f"demo.env\n{self.printed}", START_SECONDS)

    def requests(self):
        """Return the two printed requests, exactly as they stand there."""
        until(lambda: "by polling" in self.printed, "the welcome")
        lines = self.printed.splitlines()
        return [line for line in lines if line.startswith(("curl ", "id=$(curl "))]

    def children(self):
        return descendants(self.process.pid)

    def ctrl_c(self):
        """Do what the terminal does: SIGINT to the whole foreground group, make included."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(60)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("a person's run"))
    try:
        yield run
    finally:
        end(run.process)


def paste(line, shell, folder):
    return subprocess.run(
        [shell, "-c", line],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_all_is_ready_when_demo_env_is_there(run):
    demo = run.demo()
    assert set(demo) == KEYS
    assert get(f"{demo['BASE_URL']}/readyz")
    assert get(f"{demo['SIMULATOR_URL']}/healthz")
    assert (run.run_dir / "worker.ready").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("which", [0, 1], ids=["synchronous", "asynchronous"])
def test_each_printed_line_yields_a_label(run, tmp_path, shell, which):
    if not shutil.which(shell):
        absent(shell, f"apt-get install {shell}")
    run.demo()
    target = run.run_dir / f"label-{'a' if which else ''}sync.pdf"
    target.unlink(missing_ok=True)
    pasted = paste(run.requests()[which], shell, tmp_path)
    assert pasted.returncode == 0, pasted
    assert target.read_bytes().startswith(b"%PDF-"), pasted
    assert list(tmp_path.iterdir()) == []  # nothing comes into being outside the run directory


def test_no_colours_where_there_is_no_terminal(run):
    run.demo()
    assert "\033" not in run.printed


def test_a_second_start_refuses_and_says_how(run):
    run.demo()
    second = subprocess.run(
        [sys.executable, "-m", "deploy.run", "--run-dir", str(run.run_dir)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 2
    assert "is in use by process" in second.stderr
    assert "make run RUN_DIR=" in second.stderr
    assert (run.run_dir / "demo.env").exists()  # the first one's


def test_a_killed_worker_comes_back(run):
    run.demo()
    ready = run.run_dir / "worker.ready"
    pid = int(ready.read_text())
    os.kill(pid, signal.SIGKILL)

    def another():
        """While none is ready there is no such file: nobody takes the dead one for the new."""
        return ready.exists() and int(ready.read_text() or pid) != pid

    until(another, "the new worker", 60)
    assert "worker was killed by SIGKILL; starting it again" in run.printed


def test_ctrl_c_leaves_nothing(run):
    demo = run.demo()
    children = run.children()
    assert len(children) >= 6  # launcher, redis, web and its two processes, worker, …
    # An open live page has a stream of events, which has no end of its own.
    with urllib.request.urlopen(f"{demo['LIVE_URL']}/events", timeout=30) as stream:
        stream.readline()
        run.ctrl_c()
    until(lambda: not any(alive(pid) for pid in children), "the end of all")
    assert run.process.returncode != 0  # make's own, by the signal
    assert run.printed.rstrip().endswith("Stopped.")
    assert "Traceback" not in run.printed
    assert not (run.run_dir / "demo.env").exists()
    with pytest.raises(OSError, match="refused"):
        get(demo["BASE_URL"])


@pytest.fixture
def one_more(tmp_path):
    started = []

    def start(*arguments, **environment):
        started.append(Run(tmp_path, *arguments, **environment))
        return started[-1]

    yield start
    for run in started:
        end(run.process)


def test_a_launcher_that_is_killed_leaves_nothing(one_more):
    run = one_more()
    run.demo()
    children = run.children()
    launcher = int((run.run_dir / "lock").read_text())
    os.kill(launcher, signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in children), "the end of all")


def test_a_taken_port_that_was_asked_for_is_an_error(one_more):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        run = one_more(f"PORT={port}")
        assert run.process.wait(START_SECONDS) == 2
    assert f"port {port} is taken" in run.printed
    assert "make run PORT=" in run.printed


def test_a_demo_env_of_yesterday_is_gone_at_once(one_more, tmp_path):
    (tmp_path / "run").mkdir()
    stale = tmp_path / "run" / "demo.env"
    stale.write_text("BASE_URL=http://127.0.0.1:1\n")
    run = one_more()
    until(lambda: read_env_file(stale).get("BASE_URL") != "http://127.0.0.1:1", "its end")
    assert run.demo()["BASE_URL"] != "http://127.0.0.1:1"


def test_given_stores_are_used_instead_of_our_own(one_more, postgresql, redis_server):
    url = postgresql.create_database("make_run")
    run = one_more(DATABASE_URL=url, REDIS_URL=redis_server.url)
    run.demo()
    until(lambda: f"database     {url}" in run.printed, "the welcome")
    pasted = paste(run.requests()[0], "bash", run.run_dir)
    assert pasted.returncode == 0, pasted
    assert not (run.run_dir / "db.sqlite3").exists()
    assert not (run.run_dir / "redis.log").exists()
