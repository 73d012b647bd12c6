import errno
import os
import signal
import socket
from contextlib import nullcontext
from unittest import mock

import pytest

from deploy import demo, run
from deploy.ports import free_port
from deploy.run import PortTakenError, choose_port, main
from deploy.run_dir import RunDirInUseError
from deploy.strategy import StrategyError, names


@pytest.fixture
def taken():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_wanted_port_is_taken_or_refused(taken):
    free = free_port()
    assert choose_port(free) == free
    with pytest.raises(PortTakenError, match=f"port {taken} is taken"):
        choose_port(taken)


def test_a_port_that_only_root_may_use_is_not_just_called_taken(monkeypatch):
    monkeypatch.setattr(socket.socket, "bind", mock.Mock(side_effect=PermissionError))
    monkeypatch.setattr(run, "free_port", lambda: 20_000)
    with pytest.raises(PortTakenError, match="port 80 is taken, or open to root only"):
        choose_port(80)


@pytest.mark.parametrize("port", ["0", "65536", "99999", "-1", "http"])
def test_a_port_that_is_none_is_refused(capsys, port):
    with pytest.raises(SystemExit) as ended:
        main([f"--port={port}"])
    assert ended.value.code == 2
    assert f"{port!r} is not a port: 1 to 65535" in capsys.readouterr().err


def test_the_preferred_port_if_it_is_free(monkeypatch, capsys):
    monkeypatch.setattr(run, "PREFERRED_PORT", free_port())
    assert choose_port(None) == run.PREFERRED_PORT
    assert capsys.readouterr().out == ""


def test_another_one_if_not_and_that_is_said(monkeypatch, capsys, taken):
    monkeypatch.setattr(run, "PREFERRED_PORT", taken)
    chosen = choose_port(None)
    assert chosen != taken
    assert capsys.readouterr().out == f"Port {taken} is taken: using {chosen}.\n"


def test_an_unknown_strategy_is_refused_with_the_known_ones(capsys, tmp_path):
    assert main(["--strategy", "magic", "--run-dir", str(tmp_path / "run")]) == 2
    assert "there are: asgi-hold" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_run_directory_that_takes_no_files_is_named(capsys, monkeypatch, tmp_path, number):
    """The disk is full, or an earlier run was root's."""
    error = OSError(number, os.strerror(number))
    monkeypatch.setattr(run, "claimed", mock.Mock(side_effect=error))
    monkeypatch.setattr(run.signal, "signal", lambda *_: None)  # pytest's stay
    assert main(["--run-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"{tmp_path} can't be written to: {error.strerror}\n"


@pytest.fixture
def stack(monkeypatch):
    """What makes the stack, and refuses to."""
    monkeypatch.setattr(run, "claimed", nullcontext)
    monkeypatch.setattr(run, "end_by_signals", lambda: None)  # pytest's stay
    monkeypatch.setattr(run, "choose_port", lambda _: 1)
    monkeypatch.setattr(run, "Stack", mock.Mock(side_effect=StrategyError("no")))
    return run.Stack


def test_the_stores_of_a_shell_may_be_named_by_files(stack, monkeypatch, tmp_path):
    """As the app has them, a file before a name; the live page and manage.py see addresses only."""
    for name in ("DATABASE_URL", "REDIS_URL", "GUARDS_URL", "BROKER_URL", "OFFLOAD_STORE"):
        (tmp_path / name).write_text(f"{name.lower()}\n")
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))
    monkeypatch.setenv("GUARDS_URL", "by name")
    assert main(["--run-dir", str(tmp_path)]) == 2
    said = stack.call_args.kwargs
    assert (said["database"], said["redis_url"]) == ("database_url", "redis_url")
    given = said["inherited"]
    names = ("GUARDS_URL", "BROKER_URL", "OFFLOAD_STORE")
    assert [given[name] for name in names] == ["guards_url", "broker_url", "offload_store"]
    assert not [name for name in names if f"{name}_FILE" in given]


def test_a_file_of_a_store_that_can_t_be_read_is_named(stack, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("DATABASE_URL_FILE", str(tmp_path))
    assert main(["--run-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"DATABASE_URL_FILE={str(tmp_path)!r} can't be read\n"
    assert not stack.called


def test_a_run_under_nohup_stays_deaf_to_a_closed_terminal(monkeypatch, tmp_path):
    before = {signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_IGN}
    heard = []
    monkeypatch.setattr(run.signal, "getsignal", before.get)
    monkeypatch.setattr(run.signal, "signal", lambda number, _: heard.append(number))
    monkeypatch.setattr(run, "claimed", mock.Mock(side_effect=RunDirInUseError))
    assert main(["--run-dir", str(tmp_path)]) == 2
    assert heard == [signal.SIGTERM]


def test_a_demo_ends_in_order_with_its_terminal(monkeypatch):
    """Else its folder, with a database and secrets, stays below the system's temporary one."""
    heard = []
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)
    monkeypatch.setattr(signal, "signal", lambda number, _: heard.append(number))
    monkeypatch.setattr(demo, "load_available", lambda name: None)
    monkeypatch.setattr(demo, "Demo", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        demo.main([])
    assert heard == [signal.SIGTERM, signal.SIGHUP]


def test_a_strategy_that_lacks_something_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(run.strategies, "why_unavailable", lambda strategy: "nginx not found")
    assert main(["--strategy", "asgi-hold"]) == 2
    assert capsys.readouterr().err == "asgi-hold: nginx not found\n"


def test_the_list_has_every_strategy(capsys):
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == names()
