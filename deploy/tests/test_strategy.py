import re
import runpy

import pytest

from deploy import strategy as strategies
from deploy.strategy import STRATEGIES, StrategyError, fill_in, load, names, why_unavailable
from deploy.tests.tiny import TOML, tiny_strategy
from offload import idle
from parcels import limits


@pytest.mark.parametrize("name", names())
def test_each_folder_is_a_strategy(name):
    strategy = load(name)
    kinds = {process.rstrip("0123456789") for process in strategy.processes}  # web1, web2
    assert {"worker", "sweeper", "simulator"} <= kinds
    assert kinds & {"web", "app"}
    assert (STRATEGIES / name / "README.md").read_text().startswith(f"# {name}\n")


def test_the_default_needs_nothing_that_is_not_in_the_lock():
    assert not load("asgi-hold").needs.binaries
    assert why_unavailable(load("asgi-hold")) == ""


@pytest.mark.parametrize("name", names())
def test_each_server_has_a_reload_or_a_reason_against_it(name):
    strategy = load(name)
    assert "app" in strategy.reload or "reload-app" in strategy.cannot
    assert ("front" in strategy.reload) == ("front" in strategy.processes)


@pytest.mark.parametrize("name", names())
def test_uvicorn_is_started_with_a_limit_on_headers(name):
    lines = [line for line in load(name).processes.values() if "uvicorn " in line]
    assert all(" --http h11 --h11-max-incomplete-event-size 65536 " in line for line in lines)


@pytest.mark.parametrize("name", ["asgi-hold", "uvicorn-threads", "uvicorn-async"])
def test_a_connection_without_uvicorn_s_timer_is_kept_as_long_as_one_with_it(name):
    """Such as one that a balancer opened ahead, or on which a body was refused unread."""
    kept = load(name).processes["web"].partition("--timeout-keep-alive ")[2].split()[0]
    assert int(kept) <= idle.LIMIT


@pytest.mark.parametrize("name", ["asgi-hold", "uvicorn-threads", "uvicorn-async"])
def test_uvicorn_takes_what_asks_for_a_websocket_for_a_request(name):
    """Where a library for them is installed, too: the app can't serve one, and answered 500."""
    assert " --ws none " in load(name).processes["web"]


def test_no_file_is_a_copy_of_another_strategy_s():
    texts = [path.read_text() for path in STRATEGIES.glob("*/*.in") if not path.is_symlink()]
    assert len(texts) == len(set(texts)) > 10


def test_a_folder_is_all_it_takes(tmp_path):
    assert names(tmp_path) == []
    tiny_strategy(tmp_path, "web: true\n")
    assert names(tmp_path) == ["tiny"]


def test_an_unknown_name_is_answered_with_the_known_ones(tmp_path):
    tiny_strategy(tmp_path, "web: true\n")
    with pytest.raises(StrategyError, match="no strategy 'other'; there are: tiny"):
        load("other", tmp_path)


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        (TOML.replace("Tiny", ""), "title"),
        (TOML.replace("waits in the worker", "magic"), "family"),
        (TOML.replace("inline", "magic"), "backend"),
        (TOML + "colour = 1\n", "unknown keys .'colour'."),
        (TOML + "[readiness]\nfront = 'port 1'\n", "Procfile doesn't: .'front'."),
        (TOML + "[stop]\nfront = 'QUIT'\n", "Procfile doesn't: .'front'."),
    ],
)
def test_nonsense_is_refused(tmp_path, toml, complaint):
    tiny_strategy(tmp_path, "web: true\n")
    (tmp_path / "tiny" / "strategy.toml").write_text(toml)
    with pytest.raises(StrategyError, match=complaint):
        load("tiny", tmp_path)


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ('binaries = ["sh"]', ""),
        ('binaries = ["no-such-program"]', "no-such-program not found"),
        ('modules = ["json"]', ""),
        ('modules = ["no_such_module"]', "no_such_module not found"),
        ('check = "true"', ""),
        ('check = "test -e Procfile"', ""),  # runs in the strategy's folder
        ('check = "false"', "`false` fails"),
        (
            'check = "false"\ninstall = "apt-get install it"',
            "`false` fails; install with: apt-get install it",
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path, needs, reason):
    strategy = tiny_strategy(tmp_path, "web: true\n", f"[needs]\n{needs}\n")
    assert why_unavailable(strategy) == reason


def test_a_check_that_hangs_is_a_check_that_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(strategies, "CHECK_SECONDS", 0.1)
    strategy = tiny_strategy(tmp_path, "web: true\n", '[needs]\ncheck = "exec sleep 20"\n')
    assert why_unavailable(strategy) == "`exec sleep 20` did not end"


def test_only_braced_upper_case_is_filled_in():
    text = "listen ${PORT}; proxy_set_header Host $host$request_uri ${remote_addr} $PORT;"
    assert fill_in(text, {"PORT": "8000"}) == text.replace("${PORT}", "8000")


def test_a_variable_without_a_value_is_refused():
    with pytest.raises(StrategyError, match=r"nginx.conf: \$\{PORTT\} has no value"):
        fill_in("listen ${PORTT};", {"PORT": "8000"}, "nginx.conf")


@pytest.mark.parametrize("threads", ["100", "1500"])
def test_gunicorn_keeps_connections_beyond_its_threads(threads, monkeypatch):
    """Its default counts both, and is 1,000: more threads would be idle, and no connection kept."""
    for name, value in {"BIND_HOST": "", "PORT": "1", "WEB_WORKERS": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WEB_THREADS", threads)
    file = load("gunicorn-gthread").folder / "gunicorn.conf.py.in"
    config = runpy.run_path(str(file))
    assert config.get("worker_connections", 1000) >= int(threads) + 100


@pytest.mark.parametrize("name", ["gunicorn-gthread", "gunicorn-gevent"])
def test_gunicorn_reads_the_longest_address_that_the_app_reads(name):
    """A query alone may have more than the 4,094 of its default: the answer was a page."""
    text = (load(name).folder / "gunicorn.conf.py.in").read_text()
    (line,) = re.findall(r"^limit_request_line = (\d+)$", text, re.MULTILINE)
    assert int(line) > limits.PATH + limits.QUERY
