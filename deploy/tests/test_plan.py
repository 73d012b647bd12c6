import contextlib
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock
from urllib.parse import urlsplit

import pytest

from deploy import plan as plan_module
from deploy.live.collector import Watch
from deploy.live.target import Target
from deploy.plan import ROOT, make_plan
from deploy.ports import LOWEST, is_free
from deploy.prepare import PrepareError, prepare
from deploy.processes import Processes
from deploy.rows import SQLite
from deploy.strategy import StrategyError, load, names
from deploy.tests.tiny import tiny_strategy
from deploy.tests.waiting import alive, until

PROCFILE = "web: web $PORT\nfront: front\nworker: worker\nsimulator: simulator\n"
REDIS = "redis://127.0.0.1:1/0"


@pytest.fixture
def strategy(tmp_path):
    toml = '[readiness]\nfront = "port 127.0.0.1:${EXTRA_PORT}"\n[stop]\nfront = "QUIT"\n'
    extra = '[environment]\nWEB_THREADS = "7"\nADDRESS = "at ${EXTRA_PORT}"\n'
    return tiny_strategy(tmp_path, PROCFILE, 'ports = ["EXTRA_PORT"]\n' + toml + extra)


@pytest.fixture
def plan(strategy, tmp_path):
    return make_plan(strategy, run_dir=tmp_path / "run", redis_url=REDIS, inherited={})


def test_what_a_shell_said_of_this_run_is_its_own(strategy, tmp_path):
    """`make run PORT=8100` puts PORT into the environment: another shell still has to be told."""
    said = {"PORT": "8100", "DATABASE_URL": "sqlite:///x", "WEB_WORKERS": "3", "EDITOR": "vi"}
    said |= {"GUARDS_URL": "redis://127.0.0.1:1/0", "CARRIER_BREAKER_MIN_CALLS": "3"}
    said |= {"BROKER_URL_FILE": "/run/secrets/broker"}
    plan = make_plan(strategy, run_dir=tmp_path / "run", port=8100, redis_url=REDIS,
                     database_url=said["DATABASE_URL"], inherited=said)  # fmt: skip
    assert plan.own.items() >= {name: said[name] for name in said if name != "EDITOR"}.items()
    assert "EDITOR" in plan.environment
    assert "EDITOR" not in plan.own


def question(plan, name):
    return next(planned.readiness for planned in plan.processes if planned.name == name)


@pytest.mark.parametrize("name", names())
def test_each_strategy_can_be_planned(name, tmp_path):
    plan = make_plan(load(name), run_dir=tmp_path, redis_url=REDIS)
    assert plan.environment["OFFLOAD_BACKEND"] == load(name).backend


def test_every_process_is_asked_in_its_own_way(plan):
    port, run_dir = plan.environment["PORT"], plan.run_dir
    assert question(plan, "web") == f"GET http://127.0.0.1:{port}/readyz"
    assert question(plan, "worker") == f"file {run_dir}/worker.ready"
    assert question(plan, "simulator") == f"GET {plan.environment['SIMULATOR_URL']}/healthz"
    assert question(plan, "front") == f"port 127.0.0.1:{plan.environment['EXTRA_PORT']}"


def test_a_question_that_asks_nothing_is_refused(tmp_path):
    strategy = tiny_strategy(tmp_path, "web: true\n", '[readiness]\nweb = "hope"\n')
    with pytest.raises(StrategyError, match="'hope' asks nothing"):
        make_plan(strategy, run_dir=tmp_path, redis_url=REDIS)


def test_stop_signals_are_the_strategys(plan):
    signals = {planned.name: planned.stop_signal for planned in plan.processes}
    assert (signals["front"], signals["web"]) == (signal.SIGQUIT, signal.SIGTERM)


def test_an_embedded_redis_comes_first_unless_one_is_given(strategy, plan, tmp_path):
    assert "redis" not in [planned.name for planned in plan.processes]
    embedded = make_plan(strategy, run_dir=tmp_path / "run")
    assert embedded.processes[0].name == "redis"
    assert embedded.environment["REDIS_URL"] in embedded.processes[0].readiness


def test_an_embedded_redis_has_a_password_of_this_run(strategy, tmp_path):
    plan, again = (make_plan(strategy, run_dir=tmp_path / "run") for _ in range(2))
    password = urlsplit(again.environment["REDIS_URL"]).password
    assert password != urlsplit(plan.environment["REDIS_URL"]).password
    file = tmp_path / "run" / "redis" / "redis.conf"
    assert file.read_text() == f"requirepass {password}\n"
    assert file.stat().st_mode & 0o077 == 0
    # All users of the machine can read command lines.
    assert str(file) in again.processes[0].command
    assert str(password) not in again.processes[0].command


def test_the_database_is_sqlite_unless_one_is_given(strategy, plan, tmp_path):
    assert plan.environment["DATABASE_URL"] == f"sqlite:///{plan.run_dir}/db.sqlite3"
    given = make_plan(strategy, run_dir=tmp_path, redis_url=REDIS, database_url="postgresql://x/y")
    assert given.environment["DATABASE_URL"] == "postgresql://x/y"


def test_a_folder_may_have_any_name(strategy, tmp_path):
    """A # would end the path there: all would work on a file beside the folder."""
    folder = tmp_path / "c# 100%25"
    plan = make_plan(strategy, run_dir=folder, redis_url=REDIS, inherited={})
    code = "from shipping.settings import DATABASES as d; print(d['default']['NAME'])"
    for given in (plan.environment, {"DEBUG": "1", "RUN_DIR": str(folder)}):
        done = subprocess.run([sys.executable, "-c", code], env=given, cwd=ROOT,
                              capture_output=True, text=True, check=True)  # fmt: skip
        assert done.stdout == f"{folder}/db.sqlite3\n"
    (folder / "db.sqlite3").touch()
    watch = Watch(mock.Mock(), Target(plan.environment, list))
    assert watch._file == folder / "db.sqlite3"
    assert isinstance(watch._database, SQLite)
    sqlite3.connect(watch._database._uri, uri=True).close()


def test_ports_never_meet(plan):
    names = ["PORT", "APP_PORT", "EXTRA_PORT", "SIMULATOR_URL", "HUB_BIND", "CARRIER_URL_POSTNL"]
    assert len({plan.environment[name].rpartition(":")[2] for name in names}) == len(names)


def test_the_live_page_is_beside_the_app_where_a_person_chose_the_port(strategy, tmp_path):
    port = next(one for one in range(LOWEST - 2, 1024, -2) if is_free(one) and is_free(one + 1))
    plan = make_plan(strategy, run_dir=tmp_path, redis_url=REDIS, port=port)
    assert plan.environment["LIVE_PORT"] == str(port + 1)
    with socket.create_server(("127.0.0.1", port + 1)):
        again = make_plan(strategy, run_dir=tmp_path, redis_url=REDIS, port=port)
    assert int(again.environment["LIVE_PORT"]) >= LOWEST


def test_the_callers_environment_wins_over_defaults_and_loses_against_overrides(strategy, tmp_path):
    plan = make_plan(
        strategy,
        run_dir=tmp_path,
        redis_url=REDIS,
        inherited={"WEB_THREADS": "9", "DEBUG": "1", "WORKER_CONCURRENCY": "5"},
        overrides={"DEBUG": "0"},
    )
    chosen = [plan.environment[name] for name in ("WEB_THREADS", "DEBUG", "WORKER_CONCURRENCY")]
    assert chosen == ["9", "0", "5"]


def test_what_must_differ_from_stack_to_stack_is_not_inherited(strategy, tmp_path):
    leak = {"SIMULATOR_URL": "http://elsewhere", "PORT": "1", "RUN_DIR": "/elsewhere"}
    leak |= {"PROMETHEUS_MULTIPROC_DIR": "/elsewhere"}
    # The app would take the file's text for ours.
    names = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "OFFLOAD_SECRET", "LIVE_SECRET")
    leak |= {f"{name}_FILE": "/elsewhere" for name in names}
    plan = make_plan(strategy, run_dir=tmp_path, redis_url=REDIS, inherited=leak)
    assert not set(leak.items()) & set(plan.environment.items())


def test_a_strategys_environment_may_name_ports(plan):
    assert plan.environment["ADDRESS"] == f"at {plan.environment['EXTRA_PORT']}"


def test_the_hub_asks_behind_the_front(strategy, tmp_path):
    plan = make_plan(strategy, run_dir=tmp_path, redis_url=REDIS)
    assert f":{plan.environment['PORT']}/" in plan.environment["OFFLOAD_RESOLVE_URL"]
    fronted = tiny_strategy(tmp_path / "other", "web: serve $APP_PORT\nfront: nginx\n")
    plan = make_plan(fronted, run_dir=tmp_path, redis_url=REDIS)
    assert f":{plan.environment['APP_PORT']}/" in plan.environment["OFFLOAD_RESOLVE_URL"]


def test_secrets_stay_the_same_in_a_run_directory(strategy, plan, tmp_path):
    again = make_plan(strategy, run_dir=tmp_path / "run", redis_url=REDIS)
    other = make_plan(strategy, run_dir=tmp_path / "other", redis_url=REDIS)
    secret = plan.environment["SECRET_KEY"]
    assert again.environment["SECRET_KEY"] == secret != other.environment["SECRET_KEY"]
    assert len(secret) == 64


def test_the_shop_s_secret_key_of_a_shell_is_not_taken_for_ours(strategy, plan, tmp_path):
    """The README has a shell take in `demo.env`."""
    shell = {"PUBLIC_KEY": "the shop's", "SECRET_KEY": "the shop's"}
    again = make_plan(strategy, run_dir=tmp_path / "run", redis_url=REDIS, inherited=shell)
    assert again.environment["SECRET_KEY"] == plan.environment["SECRET_KEY"]


def test_a_shell_may_be_set_up_for_another_project(strategy, tmp_path):
    other = {"DJANGO_SETTINGS_MODULE": "shop.settings"}
    plan = make_plan(strategy, run_dir=tmp_path / "run", redis_url=REDIS, inherited=other)
    assert plan.environment["DJANGO_SETTINGS_MODULE"] == "shipping.settings"


def test_more_workers_are_processes_with_names_of_their_own(strategy, tmp_path):
    plan = make_plan(strategy, run_dir=tmp_path, redis_url=REDIS, inherited={"WORKERS": "3"})
    workers = {each.name: each for each in plan.processes if each.name.startswith("worker")}
    assert list(workers) == ["worker", "worker2", "worker3"]
    assert workers["worker3"].command == f"WORKER=worker3 {workers['worker'].command}"
    assert workers["worker3"].readiness == f"file {tmp_path}/worker3.ready"


@pytest.mark.parametrize("name", names())
def test_no_two_processes_tell_by_one_file_that_they_are_ready(name, tmp_path):
    plan = make_plan(load(name), run_dir=tmp_path, redis_url=REDIS, inherited={"WORKERS": "3"})
    files = [each.readiness for each in plan.processes if each.readiness.startswith("file ")]
    assert sorted(files) == sorted(set(files))
    assert f"file {tmp_path}/worker3.ready" in files


def test_figures_of_several_workers_have_one_name(strategy, tmp_path):
    plan = make_plan(strategy, run_dir=tmp_path, redis_url=REDIS, inherited={"WORKERS": "3"})
    figures = Processes({each.name: os.getpid() for each in plan.processes}).memory()
    assert [name for name in figures if name.startswith("worker")] == ["worker"]


@pytest.mark.parametrize("count", ["0", "-1", "two", ""])
@pytest.mark.parametrize("name", ["WORKERS", "WEB_WORKERS", "WEB_THREADS", "HUB_WORKERS"])
def test_a_wrong_number_of_workers_is_named(name, count, tmp_path):
    strategy = load("gunicorn-gthread")
    with pytest.raises(StrategyError, match=f"^{name} is a number, 1 or more, not {count!r}"):
        make_plan(strategy, run_dir=tmp_path, redis_url=REDIS, inherited={name: count})


NO_TIMES = ("long", "inf", "nan")


@pytest.mark.parametrize(
    ("longest", "expected"),
    [(None, "150"), ("60", "90"), ("500.5", "531"), *((no, "150") for no in NO_TIMES)],
)
def test_a_front_waits_longer_than_any_client(strategy, tmp_path, longest, expected):
    outside = {"WAIT_MAXIMUM": longest} if longest else {}
    planned = make_plan(strategy, run_dir=tmp_path, redis_url=REDIS, inherited=outside)
    assert planned.environment["FRONT_TIMEOUT"] == expected


def test_the_plan_takes_what_the_settings_would(strategy, tmp_path):
    planned = make_plan(strategy, run_dir=tmp_path, redis_url=REDIS, inherited={})
    code = "from shipping import settings as s; print(s.WAIT_MAXIMUM, s.OFFLOAD['MAX_CONCURRENCY'])"
    unset = {
        name: value
        for name, value in planned.environment.items()
        if name != "OFFLOAD_MAX_CONCURRENCY"
    }
    said = subprocess.run(
        [sys.executable, "-c", code],
        env=unset,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert [float(value) for value in said] == [
        plan_module.WAIT_MAXIMUM,
        plan_module.MAX_CONCURRENCY,
    ]


FRONTS = sorted(ROOT.glob("deploy/**/nginx.conf.in"))


@pytest.mark.parametrize("template", FRONTS, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("protocol", ["proxy", "uwsgi"])
def test_no_nginx_hangs_up_before_the_longest_wait(template, protocol):
    text = template.read_text()
    if f"{protocol}_pass " in text:
        timeouts = re.findall(rf"^ *{protocol}_read_timeout (.*);", text, re.MULTILINE)
        assert timeouts
        assert set(timeouts) == {"${FRONT_TIMEOUT}s"}


def test_loopback_never_goes_through_the_machines_proxy(strategy, tmp_path):
    proxied = make_plan(
        strategy, run_dir=tmp_path, redis_url=REDIS, inherited={"http_proxy": "http://proxy:1"}
    )
    assert "127.0.0.1" in proxied.environment["no_proxy"]


def test_preparing_fills_in_files_forgets_readiness_and_runs_in_order(tmp_path):
    strategy = tiny_strategy(tmp_path, "web: true\n", nginx__conf__in="listen ${PORT} $host;")
    plan = make_plan(strategy, run_dir=tmp_path / "a run", redis_url=REDIS)
    (plan.run_dir / "worker.ready").write_text("1")
    prepare(plan, ['echo one > "$RUN_DIR/order"', 'echo two >> "$RUN_DIR/order"'])
    assert (plan.run_dir / "order").read_text() == "one\ntwo\n"
    assert (plan.run_dir / "nginx.conf").read_text() == f"listen {plan.environment['PORT']} $host;"
    assert not list(Path(plan.run_dir).glob("*.ready"))


def test_a_step_that_fails_shows_its_output(plan):
    with pytest.raises(PrepareError, match="ended with 3:\nno such table"):
        prepare(plan, ["sh -c 'echo no such table; exit 3'"])


def test_a_step_that_finds_no_room_says_so(plan, monkeypatch):
    """On a full disk its log is empty."""
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=0))
    with pytest.raises(PrepareError, match=f"ended with 1:\nThe disk is full: {plan.run_dir}"):
        prepare(plan, ["false"])


def test_a_step_that_takes_too_long_says_so(plan, monkeypatch):
    monkeypatch.setattr("deploy.prepare.COMMAND_SECONDS", 1)
    with pytest.raises(PrepareError, match="`sleep 20` took over 1 s"):
        prepare(plan, ["sleep 20"])
    with pytest.raises(PrepareError, match="was killed by SIGKILL"):
        prepare(plan, ["sh -c 'kill -9 $$'"])


PREPARING = """
import sys
from pathlib import Path
from deploy.plan import make_plan
from deploy.prepare import prepare
from deploy.strategy import load
plan = make_plan(load("runserver"), run_dir=Path(sys.argv[1]), redis_url="redis://127.0.0.1:1/0")
prepare(plan, ["sh -c 'echo $$ > $RUN_DIR/pid; exec sleep 60'"])
"""


@pytest.mark.integration
def test_a_step_ends_with_a_launcher_that_is_killed(tmp_path):
    """It would migrate on, and the next start beside it."""
    launcher = subprocess.Popen([sys.executable, "-c", PREPARING, str(tmp_path)], cwd=ROOT)
    file = tmp_path / "pid"
    pid = int(until(lambda: file.exists() and file.read_text(), "its start"))
    launcher.kill()
    launcher.wait()
    try:
        until(lambda: not alive(pid), "the step's end", 10)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
