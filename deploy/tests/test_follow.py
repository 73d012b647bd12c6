"""What processes write is printed: whole lines, with their process, none twice and none lost."""

import io
import os
import signal

import pytest

from deploy import follow
from deploy.follow import Follower


@pytest.fixture
def output():
    return io.StringIO()


@pytest.fixture
def follower(tmp_path, output):
    return Follower(tmp_path, lambda: ["web", "worker"], output, colour=False)


def lines(output):
    return [line.partition(" ")[2] for line in output.getvalue().splitlines()]


def test_lines_are_printed_with_their_process_and_once(follower, output, tmp_path):
    follower._look()
    (tmp_path / "web.log").write_text("one\ntwo\n")
    follower._look()
    follower._look()
    assert lines(output) == ["web        | one", "web        | two"]


def test_half_a_line_waits_for_its_end(follower, output, tmp_path):
    log = tmp_path / "worker.log"
    log.write_bytes("fünf".encode()[:2])
    follower._look()
    assert lines(output) == []
    log.write_bytes("fünf\n".encode())
    follower._look()
    assert lines(output) == ["worker     | fünf"]


def test_a_file_that_is_no_process_is_not_printed(follower, output, tmp_path):
    (tmp_path / "redis.log").write_text("not ours\n")
    follower._look()
    assert lines(output) == []


def test_what_was_written_last_is_printed_at_the_end(follower, output, tmp_path):
    with follower:
        (tmp_path / "web.log").write_text("bye\n")
    assert lines(output) == ["web        | bye"]


def test_a_long_log_is_emptied_and_followed_on(follower, output, tmp_path, monkeypatch):
    monkeypatch.setattr(follow, "LONGEST_LOG", 10)
    with (tmp_path / "web.log").open("a") as log:
        log.write("over ten bytes\n")
        log.flush()
        follower._look()
        assert os.path.getsize(log.name) == 0
        log.write("more\n")
        log.flush()
        follower._look()
    assert lines(output) == ["web        | over ten bytes", "web        | more"]


def test_colours_are_for_terminals(tmp_path, output):
    Follower(tmp_path, list, output, colour=True).say("hello")
    assert "\033[" in output.getvalue()
    assert output.getvalue().endswith("\033[0mhello\n")


class Closed(io.StringIO):
    def write(self, text):
        raise OSError("Input/output error")


def test_a_closed_terminal_asks_for_the_end_once(tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    follower = Follower(tmp_path, list, Closed(), colour=False)
    follower.say("one")
    follower.say("two")
    assert sent == [(os.getpid(), signal.SIGHUP)]
