"""docker-compose.yml: its shape, its profiles, and its services as processes."""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from functools import partial

import pytest
import yaml

from deploy import strategy as strategies
from deploy.plan import ROOT, SIZES
from deploy.tests.composed import FILE, Composed, composition
from deploy.tests.fixtures import absent
from deploy.tests.waiting import until
from shipping.tests.test_operations import listed

GIVEN = {"ALLOWED_HOSTS": "shop.example", "PUBLIC_URL": "https://shop.example"}
JOBS = ("migrate",)
STORES = ("postgres", "redis")
ALWAYS = {"front", "web", "worker", "sweeper", "simulator"}
# One strategy of each shape: a front and a hub, a front alone, neither.
SHAPES = ("nginx-accel", "uwsgi-threads", "asgi-hold", "gunicorn-gthread")
# Documented settings that are not the operator's to pass, and why.
NOT_PASSED = {
    "SECRET_KEY": "a secret's file",
    "SECRET_KEY_FALLBACKS": "a secret's file",
    "OFFLOAD_SECRET": "a secret's file",
    "OFFLOAD_SECRET_FALLBACKS": "a secret's file",
    "METRICS_TOKEN": "a secret's file",
    "CARRIER_CREDENTIALS_<CODE>": "the simulator's; of real carriers a secret's file, to be added",
    "RUN_DIR": "the container's own folder",
    "PROMETHEUS_MULTIPROC_DIR": "the container's own folder",
    "BIND_HOST": "the container's own address",
    "PGOPTIONS": "the job's time-out for locks",
    "SIMULATOR_URL": "a service",
    "OFFLOAD_BACKEND": "the strategy's",
    "OFFLOAD_RESOLVE_URL": "the strategy's",
    "BEHIND_TLS_PROXY": "always: TLS ends before the front",
    "LIVE_URL": "the demo's page",
    "LIVE_SECRET": "the demo's page",
    "DEBUG": "refused in production",
    "DEMO": "refused in production",
    "TIME_SCALE": "refused in production",
    "FAULT_GUARDS_OFF": "refused in production",
    "FAULT_CRASH_AT": "refused in production",
    "FAULT_PAUSE_AT": "refused in production",
}
# What not only the application reads, which has all.
READ_BY = {
    "front": {"FRONT_CONNECTIONS_PER_ADDRESS", "TRUSTED_PROXIES", "WAIT_MAXIMUM"},
    "hub": {
        *("REDIS_URL", "OFFLOAD_STORE", "OFFLOAD_MAX_HOLDS", "OFFLOAD_MAX_HOLDS_PER_ACCOUNT"),
        *("OFFLOAD_DRAIN_SECONDS", "LOG_LEVEL"),
    },
}
# The front's to limit: behind it all have its address.
NOT_THE_APPLICATION_S = {"FRONT_CONNECTIONS_PER_ADDRESS"}


def test_the_image_has_nothing_that_is_not_named_for_it():
    """A value in .env, a dump of the database beside it: in a layer all could read them."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if not line.startswith("#")]
    named = {line.removeprefix("!") for line in patterns if line.startswith("!")}
    assert patterns[0] == "*"
    assert named == {
        *("carriers", "deploy", "offload", "parcels", "shipping"),
        *("manage.py", "requirements*.txt"),
    }


def services():
    return composition(**GIVEN)["services"]


def composable():
    """All strategies but those that are several machines in themselves: --scale does that."""
    loaded = [strategies.load(name) for name in strategies.names()]
    return [strategy for strategy in loaded if set(strategy.processes) <= {*ALWAYS, "hub"}]


def test_each_strategy_s_processes_are_services():
    """A new strategy with a hub is red here until the hub has its profile."""
    profiles = set(services()["hub"]["profiles"])
    assert profiles == {item.name for item in composable() if "hub" in item.processes}
    for item in composable():
        assert {"front", *item.processes} <= ALWAYS | {"hub"}


def resolved(*options, **environment):
    """Return what docker-compose itself makes of the file."""
    program = shutil.which("docker-compose")
    if program is None:
        absent("docker-compose", "apt-get install docker-compose  |  brew install docker-compose")
    done = subprocess.run(
        [program, *options, "--file", str(FILE), "config"],
        env={**environment, "PATH": "/usr/bin:/bin"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["services"]


@pytest.mark.deployment
@pytest.mark.parametrize("name", [item.name for item in composable()])
def test_docker_compose_accepts_each_profile(name):
    found = resolved("--profile", name, **GIVEN, STRATEGY=name)
    assert found["web"]["environment"]["STRATEGY"] == name
    assert found.keys() == services().keys()


def test_each_documented_setting_can_be_passed(tmp_path):
    """By `.env`, as docs/operations.md says, to every process that reads it."""
    told = set(listed())
    assert told > NOT_PASSED.keys()
    names = {name.replace("<CODE>", "LANTERN") for name in told - NOT_PASSED.keys()}
    given = {name: f"mine-{name}" for name in names}
    file = tmp_path / "env"
    file.write_text("\n".join(f"{name}={value}" for name, value in given.items()))
    found = resolved("--profile", "nginx-accel", "--env-file", str(file))
    readers = dict.fromkeys(("web", "worker", "sweeper"), names - NOT_THE_APPLICATION_S)
    for service, read in (readers | READ_BY).items():
        values = {name: found[service]["environment"].get(name) or "" for name in read}
        # Behind what the operator says of ALLOWED_HOSTS stand the names by which we ask ourselves.
        lost = {name for name in read if not values[name].startswith(given[name])}
        assert not lost, service


def test_an_image_may_be_named_by_its_digest():
    digest = "@sha256:" + "0" * 64
    images = dict.fromkeys(("PYTHON_IMAGE", "POSTGRES_IMAGE", "REDIS_IMAGE"), f"one{digest}")
    found = resolved("--profile", "nginx-accel", **GIVEN, **images)
    assert {found[store]["image"] for store in STORES} == {f"one{digest}"}
    assert found["web"]["build"]["args"]["PYTHON"] == f"one{digest}"


@pytest.mark.parametrize("missing", sorted(GIVEN))
def test_what_has_no_default_is_asked_for(missing):
    with pytest.raises(KeyError, match=missing):
        composition(**{name: value for name, value in GIVEN.items() if name != missing})


@pytest.mark.parametrize("name", sorted(services()))
def test_each_service_is_bounded_and_comes_back(name):
    service = services()[name]
    assert service["mem_limit"]
    assert service["restart"] == ("no" if name in JOBS else "unless-stopped")
    assert ("healthcheck" in service) is (name not in JOBS)
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    # PostgreSQL's entry point alone begins as root, to give the volume to `postgres`.
    assert ("cap_add" in service) is (name == "postgres")
    assert service.get("read_only") or name == "postgres"
    # Docker keeps all that a container logs while it lives, and no update replaces the stores'.
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}


def test_all_connections_fit_into_the_database_also_in_an_update():
    """As docs/operations.md starts it; update.sh has twice as many of web for a while."""
    text = (ROOT / "docs" / "operations.md").read_text()
    (line,) = re.findall(r"^docker-compose --profile \S+ up .*$", text, re.MULTILINE)
    scale = {name: int(number) for name, number in re.findall(r"--scale (\w+)=(\d+)", line)}
    web = 2 * scale["web"] * int(SIZES["WEB_WORKERS"])
    processes = web + scale["worker"] + 2  # sweeper, migrate
    (most,) = re.findall(r"max_connections=(\d+)", " ".join(services()["postgres"]["command"]))
    reserved = 3  # PostgreSQL's superuser_reserved_connections
    pool = int(services()["web"]["environment"]["DATABASE_POOL"])
    assert processes * pool <= int(most) - reserved


def test_settings_are_checked_before_anything_starts():
    line = services()["migrate"]["command"][-1]
    check, _, then = line.partition(" && ")
    assert check == "python manage.py check --deploy --fail-level $CHECK_FAIL_LEVEL"
    assert then == "exec python manage.py migrate --no-input"
    for name in ("web", "worker", "sweeper"):
        depends = services()[name]["depends_on"]
        assert depends["migrate"] == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize(
    ("name", "needed"),
    [("front", {"web", "worker"})]
    + [(name, {"postgres", "redis", "simulator"}) for name in ("web", "worker", "sweeper")],
)
def test_what_is_needed_to_the_end_is_stopped_later(name, needed):
    """`stop` goes by `depends_on` alone, and a job that has ended stands for nobody behind it."""
    assert services()[name]["depends_on"].keys() >= needed


@pytest.mark.integration
@pytest.mark.deployment
def test_unsafe_settings_start_nothing(tmp_path):
    with Composed("asgi-hold", tmp_path) as composed:
        given = composed.services["migrate"]["environment"]
        given["SECURE_SSL_REDIRECT"] = "0"
        assert "security.W008" in refusal(composed)
        given["CHECK_FAIL_LEVEL"] = "ERROR"  # then it is the database that is not there
        assert "OperationalError" in refusal(composed)


def refusal(composed):
    done = composed.run_job("migrate")
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize("name", ["web", "hub", "worker"])
def test_what_scales_has_neither_a_name_nor_a_port_of_the_host(name):
    assert not {"container_name", "ports"} & services()[name].keys()


def test_only_the_front_can_be_reached_from_outside():
    assert [name for name, service in services().items() if "ports" in service] == ["front"]
    assert composition(**GIVEN)["networks"]["inside"] == {"internal": True}


@pytest.mark.parametrize("name", ["web", "hub", "worker", "sweeper", "migrate"])
def test_a_store_of_one_s_own_is_reached(name):
    """Elsewhere, by DATABASE_URL or REDIS_URL: no way leads there from `inside`."""
    service = services()[name]
    assert {"DATABASE_URL", "REDIS_URL"} & service["environment"].keys()
    assert {*service["networks"]} == {"inside", "outside"}


def test_no_secret_stands_in_the_file():
    for service in services().values():
        for name, value in service.get("environment", {}).items():
            if any(word in name for word in ("SECRET", "PASSWORD", "TOKEN")):
                assert name.endswith("_FILE")
                assert value.startswith("/run/secrets/")
    assert all(item.keys() == {"file"} for item in composition(**GIVEN)["secrets"].values())


def test_the_database_alone_writes_to_a_disk():
    """Redis has answers with receivers' addresses in it for some minutes: they stay in memory."""
    assert services()["postgres"]["volumes"] == ["postgres:/var/lib/postgresql/data"]
    redis = services()["redis"]
    assert "volumes" not in redis
    # The image has a volume there; one without a name would be made.
    assert "/data" in redis["tmpfs"]
    assert "--save '' --appendonly no" in redis["command"][-1]


def test_a_rotation_needs_no_change_of_the_file():
    """Each former secret has its file, empty as a rule, wherever the secret is."""
    for service in services().values():
        for name in ("SECRET_KEY", "OFFLOAD_SECRET"):
            if f"{name}_FILE" in service.get("environment", {}):
                assert f"{name}_FALLBACKS_FILE" in service["environment"]
                assert f"{name.lower()}_fallbacks" in service["secrets"]


def ask(url, **headers):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect())
    request = urllib.request.Request(url, headers=headers)
    try:
        with opener.open(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def well(composed, name):
    done = composed.health(name)
    child = composed.children.get(name)
    assert child is None or child.running, composed.log(name)
    return done.returncode == 0


@pytest.mark.integration
@pytest.mark.deployment
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SHAPES)
def test_each_service_runs_and_its_health_check_knows(name, tmp_path, postgresql):
    """As `up` would: stores, migrations, all others; and down again, each with a clean end."""
    reason = strategies.why_unavailable(strategies.load(name))
    if reason:
        absent(name, reason)
    with Composed(name, tmp_path) as composed:
        rest = ["simulator", "web", "worker", "sweeper", "front"]
        rest[1:1] = ["hub"] if "hub" in strategies.load(name).processes else []
        for store in STORES:
            composed.start(store)
            until(partial(well, composed, store), f"{store}'s health check", 60)
        migrated = composed.run_job("migrate")
        assert migrated.returncode == 0, migrated.stderr
        checked = composed.manage("check", "--deploy", "--fail-level", "WARNING")
        assert checked.returncode == 0, checked.stderr
        for service in rest:
            assert composed.health(service).returncode != 0, f"{service} is well before its start"
            composed.start(service)
        for service in rest:
            until(partial(well, composed, service), f"{service}'s health", 90)
        check_the_front(f"http://127.0.0.1:{composed.ports['8000']}")
        for service in reversed(rest):
            assert composed.children[service].stop(40) == 0, composed.log(service)
            assert composed.health(service).returncode != 0, f"{service} is well after its end"


def check_the_front(base):
    statuses = base + "/api/v2/parcels/statuses"
    # Only what the trusted proxy says was TLS is let in; who comes without is sent to TLS.
    assert ask(statuses, Host="shop.example")[0] == 301
    status, body = ask(statuses, Host="shop.example", **{"X-Forwarded-Proto": "https"})
    assert (status, json.loads(body)["error"]["code"]) == (401, 401)
    # Nobody's keys work before somebody has made an account; the inside is closed.
    forged = {"X-Forwarded-Proto": "https", "Host": "shop.example"}
    assert ask(base + "/_offload/answers", **forged)[0] == 404
    assert ask(base + "/metrics", **forged)[0] in (401, 403, 404)


@pytest.mark.parametrize("name", sorted(set(services()) - {*STORES}))
def test_what_is_written_to_memory_is_bounded(name):
    service = services()[name]
    megabytes = [re.search(r"size=(\d+)m", place) for place in service["tmpfs"]]
    assert all(megabytes)
    limit = int(service["mem_limit"].removesuffix("m").replace("1g", "1024"))
    assert sum(int(found[1]) for found in megabytes if found) < limit
