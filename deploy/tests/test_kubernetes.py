"""deploy/kubernetes as it is built: held to docker-compose.yml and to itself, run as processes."""

import re
from collections import Counter
from functools import partial

import pytest
import yaml

from deploy import strategy as strategies
from deploy.tests import manifests
from deploy.tests.composed import Composed, composition
from deploy.tests.fixtures import absent
from deploy.tests.manifests import FOLDER, OVERLAYS, built, why_unbuildable
from deploy.tests.test_compose import GIVEN, JOBS, NOT_PASSED, services, well
from deploy.tests.waiting import until
from parcels.figures import QueueFigures
from shipping import metrics
from shipping.tests.test_operations import listed

# Not in a pod: the simulator's, and the name of an address that a pod is told.
COMPOSITION_S_OWN = {"SIMULATOR_URL", "BIND_TOWARDS"}
# To more pods than there: what an operator sets is one map for all, and the application's another.
EVERYWHERE = {
    *services()["web"]["environment"],
    *("TRUSTED_PROXIES", "FRONT_CONNECTIONS_PER_ADDRESS", "CHECK_FAIL_LEVEL"),
}
# What differs from installation to installation, and why it does here.
OTHERWISE = {
    *("ALLOWED_HOSTS", "PUBLIC_URL", "TRUSTED_PROXIES", "DATABASE_URL", "REDIS_URL"),
    "BIND_HOST",  # of web the pod's own address
    "DATABASE_POOL",  # more processes
}
SITE = re.compile(r"CARRIER_(URL|CREDENTIALS)_")


@pytest.fixture(autouse=True)
def kubectl():
    if reason := why_unbuildable():
        absent(f"kubectl ({reason})", manifests.INSTALL)


def of_kind(overlay, *kinds):
    return [resource for resource in built(overlay) if resource["kind"] in kinds]


def pods(overlay):
    """Return the pod of each process, by its name."""
    found = of_kind(overlay, "Deployment", "Job")
    return {resource["metadata"]["name"]: resource["spec"]["template"] for resource in found}


def main_of(pod):
    (container,) = pod["spec"]["containers"]
    return container


def environment(overlay, container):
    maps = {found["metadata"]["name"]: found["data"] for found in of_kind(overlay, "ConfigMap")}
    values: dict[str, str] = {}
    for source in container["envFrom"]:
        values |= maps[source["configMapRef"]["name"]]
    for item in container.get("env", []):
        values[item["name"]] = item.get("value") or item["valueFrom"]["fieldRef"]["fieldPath"]
    return values


def as_service(overlay, container):
    """Return a container as a service of docker-compose.yml would say it."""
    return {
        "build": ".",
        "command": container["args"],
        "environment": environment(overlay, container),
        "healthcheck": {"test": ["CMD", *command(container.get("readinessProbe"))]},
    }


def command(probe):
    return probe["exec"]["command"] if probe else []


def seconds(text):
    return int(text.removesuffix("s"))


def cases():
    for overlay in OVERLAYS:
        for process in ("front", "web", "hub", "worker", "sweeper", "migrate"):
            if process != "hub" or "hub" in strategies.load(overlay).processes:
                yield overlay, process


each_pod = pytest.mark.parametrize(("overlay", "process"), list(cases()))
each_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


# As docker-compose.yml ----------------------------------------------------------------------------


@each_overlay
def test_there_is_a_pod_for_each_service(overlay):
    assert set(pods(overlay)) == {process for name, process in cases() if name == overlay}


@each_pod
def test_commands_and_readiness_are_the_composition_s(overlay, process):
    container, service = main_of(pods(overlay)[process]), services()[process]
    assert container["args"] == service["command"]
    assert container["image"] == "slow-carriers"
    asked = service.get("healthcheck", {"test": ["CMD"]})["test"]
    assert command(container.get("readinessProbe")) == asked[1:]


@each_pod
def test_the_environment_is_the_composition_s(overlay, process):
    mine = environment(overlay, main_of(pods(overlay)[process]))
    theirs = {
        # The simulator's credentials are known to all; those of carriers are files.
        f"{name}_FILE" if name.startswith("CARRIER_CREDENTIALS") else name: str(value)
        for name, value in services()[process]["environment"].items()
        if value != "" and name not in COMPOSITION_S_OWN
    }
    assert mine["STRATEGY"] == overlay
    assert theirs.keys() <= mine.keys()
    files = {name for name in EVERYWHERE if name.endswith("_FILE")}
    more = mine.keys() - theirs.keys()
    assert more <= EVERYWHERE - files
    same = {name for name in theirs if name not in OTHERWISE and not SITE.match(name)}
    # There web and hub name each other by their image: a Service has no such names, and needs none.
    same -= {"STRATEGY", {"web": "HUB_BIND", "hub": "APP_HOST"}.get(process, "STRATEGY")}
    assert {name: mine[name] for name in same} == {name: theirs[name] for name in same}
    assert {"RUN_DIR", "PORT", "APP_PORT"} <= same


# Documented, and not to be changed by `site`: what these pods need themselves.
FIXED = {
    *NOT_PASSED,
    "FRONT_CONNECTIONS_PER_ADDRESS",  # web's: all come from the front's address
    "OFFLOAD_DRAIN_SECONDS",  # the hub's, which its grace period fits
}


@each_pod
def test_each_documented_setting_can_be_passed(overlay, process):
    """By `site.env`: what is read after that map wins over it."""
    container = main_of(pods(overlay)[process])
    order = [source["configMapRef"]["name"].rpartition("-")[0] for source in container["envFrom"]]
    assert order[:2] == ["places", "site"]
    maps = {found["metadata"]["name"]: found["data"] for found in of_kind(overlay, "ConfigMap")}
    later = {item["name"] for item in container.get("env", [])}
    for source in container["envFrom"][2:]:
        later |= maps[source["configMapRef"]["name"]].keys()
    assert later & {*listed(), "CHECK_FAIL_LEVEL"} <= FIXED


@each_overlay
def test_new_code_waits_for_settings_and_migrations(overlay):
    check, _, _ = services()["migrate"]["command"][-1].partition(" && ")
    waiting = [pod["spec"] for pod in pods(overlay).values() if "initContainers" in pod["spec"]]
    assert len(waiting) == len(("web", "worker", "sweeper"))
    for spec in waiting:
        (first,), (main,) = spec["initContainers"], spec["containers"]
        assert first["args"][-1] == f"{check} && exec python manage.py migrate --check"
        assert [first[name] for name in ("image", "envFrom")] == [main["image"], main["envFrom"]]


@each_overlay
def test_the_front_alone_counts_connections(overlay):
    """The app behind it would take all clients for one. The last map wins, over `site`, too."""
    web = main_of(pods(overlay)["web"])
    assert environment(overlay, web)["FRONT_CONNECTIONS_PER_ADDRESS"] == "0"
    assert web["envFrom"][-1]["configMapRef"]["name"].startswith("application-")
    front = environment(overlay, main_of(pods(overlay)["front"]))
    assert "FRONT_CONNECTIONS_PER_ADDRESS" not in front


@each_pod
def test_it_gets_the_time_to_end_that_it_has_there(overlay, process):
    """`preStop` counts against the grace period: what is left of it is the process's own."""
    spec = pods(overlay)[process]["spec"]
    hook = main_of(pods(overlay)[process]).get("lifecycle", {}).get("preStop")
    asleep = hook["sleep"]["seconds"] if hook else 0
    if process not in JOBS:
        grace = seconds(services()[process]["stop_grace_period"])
        assert spec["terminationGracePeriodSeconds"] - asleep == grace
    # A pod behind a Service serves while that forgets it.
    assert (asleep >= 10) is (process in {"front", "web", "hub"})


@each_pod
def test_probes_ask_as_often_and_as_long(overlay, process):
    health = composition(**GIVEN)["x-health"]
    container = main_of(pods(overlay)[process])
    probe = container.get("readinessProbe")
    if process in JOBS:
        assert probe is None
        return
    assert probe["periodSeconds"] == seconds(health["interval"])
    assert probe["timeoutSeconds"] == seconds(health["timeout"])
    assert probe["failureThreshold"] == health["retries"]
    if startup := container.get("startupProbe"):
        first = seconds(health["start_period"]) + health["retries"] * seconds(health["interval"])
        assert startup["periodSeconds"] * startup["failureThreshold"] == first


@each_pod
def test_no_store_s_outage_restarts_anything(overlay, process):
    container = main_of(pods(overlay)[process])
    expected = ["python", "-m", "deploy.container", "alive", process]
    for probe in ("startupProbe", "livenessProbe"):
        assert command(container.get(probe)) == (expected if process in {"web", "hub"} else [])


@each_pod
def test_its_bounds_are_the_composition_s(overlay, process):
    service, pod = services()[process], pods(overlay)[process]
    units = {"Mi": "m", "Gi": "g"}
    limits = main_of(pod)["resources"]["limits"]
    memory = limits["memory"]
    assert memory.replace(memory[-2:], units[memory[-2:]]) == service["mem_limit"]
    assert float(limits["cpu"]) == service.get("cpus", 1.0)
    folders = {item["name"]: item for item in pod["spec"]["volumes"]}
    for place in service["tmpfs"]:
        path, _, options = place.partition(":")
        (mount,) = [each for each in main_of(pod)["volumeMounts"] if each["mountPath"] == path]
        folder = folders[mount["name"]]["emptyDir"]
        assert folder["medium"] == "Memory"
        assert f"size={folder['sizeLimit'].removesuffix('Mi')}m" in options


@each_pod
def test_its_secrets_are_the_composition_s(overlay, process):
    pod, listed = pods(overlay)[process], services()[process].get("secrets", [])
    volumes = [item["secret"] for item in pod["spec"]["volumes"] if "secret" in item]
    assert [volume["secretName"] for volume in volumes] == (["secrets"] if listed else [])
    if process == "hub":
        assert [item["key"] for item in volumes[0]["items"]] == listed
    given = environment(overlay, main_of(pod))
    for name, value in given.items():
        if any(word in name for word in ("SECRET", "PASSWORD", "TOKEN", "CREDENTIALS")):
            assert name.endswith("_FILE")
            assert value.startswith("/run/secrets/")
    assert not re.search(r"//[^/]*:[^/]*@", " ".join(given.values()))
    assert not of_kind(overlay, "Secret")


# By itself ----------------------------------------------------------------------------------------


@each_pod
def test_nothing_runs_with_more_than_it_needs(overlay, process):
    """Kubernetes' own standard `restricted`, and a root that can't be written to."""
    spec = pods(overlay)[process]["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert f"--uid {spec['securityContext']['runAsUser']} " in dockerfile()
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not spec["automountServiceAccountToken"]
    assert not spec["enableServiceLinks"]
    for container in spec["containers"] + spec.get("initContainers", []):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"].keys() == {"memory", "cpu"}


def dockerfile():
    return (manifests.ROOT / "deploy" / "base" / "Dockerfile").read_text()


def selectors(value):
    """Return each selector of pods in a resource, wherever it stands."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name in {"podSelector", "selector"} and "matchExpressions" not in item:
                yield item.get("matchLabels", item)
            else:
                yield from selectors(item)
    elif isinstance(value, list):
        for item in value:
            yield from selectors(item)


@each_overlay
def test_each_selector_finds_a_pod(overlay):
    labels = [pod["metadata"]["labels"] for pod in pods(overlay).values()]
    found = [item for resource in built(overlay) for item in selectors(resource)]
    assert len(found) > 10
    for selector in found:
        assert any(selector.items() <= each.items() for each in labels), selector
    for scaler in of_kind(overlay, "HorizontalPodAutoscaler"):
        assert scaler["spec"]["scaleTargetRef"]["name"] in pods(overlay)


@each_overlay
def test_addresses_and_ports_lead_to_services(overlay):
    ports = {
        resource["metadata"]["name"]: {port["port"] for port in resource["spec"]["ports"]}
        for resource in of_kind(overlay, "Service")
    }
    given = environment(overlay, main_of(pods(overlay)["web"]))
    app = given["APP_HOST"]
    assert ports["front"] == {int(given["PORT"])}
    assert ports[app] == {int(given["APP_PORT"]), int(given["APP_HTTP_PORT"])}
    assert given["BIND_HOST"] == "status.podIP"  # a name may be away when liveness asks
    assert "BIND_TOWARDS" not in given
    assert {app, "front", "127.0.0.1"} <= set(given["ALLOWED_HOSTS"].split(","))
    if "hub" in pods(overlay):
        host, _, port = given["HUB_BIND"].partition(":")
        assert ports[host] == {int(port)}
        mine = environment(overlay, main_of(pods(overlay)["hub"]))["HUB_BIND"]
        assert mine == services()["hub"]["environment"]["HUB_BIND"] == f"0.0.0.0:{port}"


@each_overlay
def test_only_the_front_can_be_reached_from_outside(overlay):
    """As from → to: which ports the policies leave open."""
    policies = [resource["spec"] for resource in of_kind(overlay, "NetworkPolicy")]
    closed = {"podSelector": {"matchExpressions": [{"key": "process", "operator": "Exists"}]}}
    assert closed | {"policyTypes": ["Ingress"]} in policies
    opened = set()
    for policy in policies:
        for rule in policy.get("ingress", []):
            (source,) = rule["from"]
            name = source.get("podSelector", {"matchLabels": {"process": "another namespace"}})
            way = (name["matchLabels"]["process"], policy["podSelector"]["matchLabels"]["process"])
            opened |= {(*way, port["port"]) for port in rule["ports"]}
    expected = {("another namespace", "front", 8000), ("front", "web", 8001)}
    if "hub" in pods(overlay):
        expected |= {("front", "hub", 8100), ("hub", "web", 8002)}
    assert opened == expected


def test_the_hub_reaches_redis_by_sentinel_too():
    policies = of_kind("nginx-accel", "NetworkPolicy")
    (hub,) = (each["spec"] for each in policies if each["metadata"]["name"] == "hub")
    anywhere = [rule["ports"] for rule in hub["egress"] if "to" not in rule]
    assert {port["port"] for ports in anywhere for port in ports} == {53, 6379, 26379}


@each_overlay
def test_each_that_serves_outlives_a_node(overlay):
    replicas = {
        resource["metadata"]["name"]: resource["spec"].get("replicas")
        for resource in of_kind(overlay, "Deployment")
    }
    scaled = {
        resource["spec"]["scaleTargetRef"]["name"]: resource["spec"]["minReplicas"]
        for resource in of_kind(overlay, "HorizontalPodAutoscaler")
    }
    budgets = {resource["metadata"]["name"] for resource in of_kind(overlay, "PodDisruptionBudget")}
    assert budgets == set(replicas)
    for budget in of_kind(overlay, "PodDisruptionBudget"):
        assert budget["spec"]["maxUnavailable"] == 1
    for name, count in replicas.items():
        # One of the two says how many, never both: each `apply` would undo the scaling.
        assert (count is None) is (name in scaled)
        assert (count or scaled[name]) >= 2


@each_overlay
def test_all_connections_fit_into_the_database(overlay):
    (most,) = re.findall(r"max_connections=(\d+)", " ".join(services()["postgres"]["command"]))
    given = environment(overlay, main_of(pods(overlay)["web"]))
    scalers = of_kind(overlay, "HorizontalPodAutoscaler")
    pods_of = Counter(
        {scaler["metadata"]["name"]: scaler["spec"]["maxReplicas"] for scaler in scalers}
    )
    pods_of["sweeper"] = 2
    surge = 1
    processes = {"web": 2, "worker": 1, "sweeper": 1}
    count = 1 + sum(processes[name] * (pods_of[name] + surge) for name in processes)
    reserved = 3  # PostgreSQL's superuser_reserved_connections
    assert count * int(given["DATABASE_POOL"]) <= int(most) - reserved


def test_autoscalers_ask_for_what_the_app_has():
    figures = metrics._queues([QueueFigures("postnl", "pending", 1, 1.0)])
    families = [*figures, metrics._holds(1)]
    labels = {family.name: set(family.samples[0].labels) | {"namespace"} for family in families} | {
        "carrier_breaker_state": {"carrier", "namespace"}
    }
    asked = {
        metric["external"]["metric"]["name"]
        for overlay in OVERLAYS
        for scaler in of_kind(overlay, "HorizontalPodAutoscaler")
        for metric in scaler["spec"]["metrics"]
        if metric["type"] == "External"
    }
    rules = yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text())["externalRules"]
    assert asked == {rule.get("name", {"as": rule["seriesQuery"]})["as"] for rule in rules}
    assert asked <= labels.keys()
    for rule in rules:
        for name, inside in re.findall(r"(\w+)\{([^}]*)\}", rule["metricsQuery"]):
            assert set(re.findall(r"(\w+)=", inside)) <= labels[name]


def test_the_page_s_own_kustomization_is_built(tmp_path):
    """What an operator writes sits on an overlay: their values, their image, hashed names."""
    page = (manifests.ROOT / "docs" / "operations.md").read_text()
    _, _, block = page.partition("```yaml\n")
    written = yaml.safe_load(block.partition("```")[0])
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(written))
    (tmp_path / "slow-carriers").symlink_to(manifests.ROOT)
    site = (FOLDER / "base" / "site.env").read_text()
    (tmp_path / "site.env").write_text(site.replace("https://parcels.example", "https://shop.test"))
    (generator,) = written["secretGenerator"]
    for file in generator["files"]:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("x" * 50)
    result = manifests._kubectl("kustomize", str(tmp_path))
    assert "PUBLIC_URL: https://shop.test" in result
    found = {resource["kind"]: resource for resource in yaml.safe_load_all(result)}
    assert f"secretName: {found['Secret']['metadata']['name']}\n" in result
    (image,) = written["images"]
    assert set(re.findall(r"image: (.*)", result)) == {f"{image['newName']}:{image['newTag']}"}
    # Every file that a pod reads.
    read = set(re.findall(r"/run/secrets/(\w+)", result))
    assert found["Secret"]["data"].keys() == read


# Run ----------------------------------------------------------------------------------------------


def passes(composed, container, probe):
    process = container["args"][1]
    composed.services[process]["healthcheck"] = {"test": ["CMD", *command(container[probe])]}
    return well(composed, process)


@pytest.fixture
def deployed(tmp_path, postgresql):
    """The pods of an overlay as processes, beside docker-compose.yml's stores and simulator."""

    def make(overlay):
        if reason := strategies.why_unavailable(strategies.load(overlay)):
            absent(overlay, reason)
        composed = Composed(overlay, tmp_path)
        site = composed.services["migrate"]["environment"]
        mine = {name: as_service(overlay, main_of(pod)) for name, pod in pods(overlay).items()}
        (waiting,) = pods(overlay)["web"]["spec"]["initContainers"]
        mine["migrated"] = as_service(overlay, waiting)
        for service in mine.values():
            given = service["environment"]
            given |= {name: site[name] for name in given if name in OTHERWISE and name in site}
            given |= {name: site[name] for name in given if name.startswith("CARRIER_URL")}
            given["TRUSTED_PROXIES"] = "127.0.0.0/8"
        composed.services |= mine
        return composed

    return make


@pytest.mark.integration
@pytest.mark.deployment
@pytest.mark.timeout(600)
@each_overlay
def test_each_container_runs_and_its_probes_know(overlay, deployed):
    """As the kubelet would; and without the database nothing is restarted, and nothing is asked."""
    order = [name for name in ("hub", "web", "worker", "sweeper", "front") if name in pods(overlay)]
    main = {name: main_of(pods(overlay)[name]) for name in order}
    with deployed(overlay) as composed:
        for carrier in ("postnl", "tortoise", "colibri", "lantern", "meridian"):
            house = composed.folder / "secrets" / f"carrier_credentials_{carrier}"
            house.write_text('{"api_key": "house", "username": "house", "password": "house"}')
        for store in ("postgres", "redis"):
            composed.start(store)
            until(partial(well, composed, store), f"{store}'s health check", 60)
        composed.start("simulator")
        assert composed.run_job("migrated").returncode != 0, "new code starts before migrations"
        for job in ("migrate", "migrated"):
            done = composed.run_job(job)
            assert done.returncode == 0, done.stderr
        for name in order:
            composed.start(name)
        for name in order:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if probe in main[name]:
                    until(partial(passes, composed, main[name], probe), f"{name}'s {probe}", 90)
        composed.children["redis"].stop(20)
        composed.postgresql.close()
        until(lambda: not passes(composed, main["web"], "readinessProbe"), "web's readiness to go")
        for name in order:
            if "livenessProbe" in main[name]:
                assert passes(composed, main[name], "livenessProbe"), f"{name} would be restarted"
        for name in reversed(order):
            hook = main[name].get("lifecycle", {}).get("preStop", {"sleep": {"seconds": 0}})
            grace = pods(overlay)[name]["spec"]["terminationGracePeriodSeconds"]
            code = composed.children[name].stop(grace - hook["sleep"]["seconds"])
            assert code == 0, composed.log(name)
