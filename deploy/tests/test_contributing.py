"""CONTRIBUTING.md's promise, kept in a scratch copy: adding one is adding a file."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from deploy.plan import ROOT

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(300)]

LEFT_OUT = (".git", ".venv", ".run", "__pycache__", "node_modules", "secrets", "results")
CARRIER = '''"""Snail Mail: PostNL's JSON under another name."""

from decimal import Decimal

from carriers.methods import ShippingMethod
from carriers.shapes.json_label import JsonLabelCarrier


class SnailMail(JsonLabelCarrier):
    """A carrier that a contributor adds."""

    code = "snail"
    name = "Snail Mail"
    longest_work = 10.0
    settling = 15.0
    methods = (ShippingMethod(90, "Snail Mail 0-2kg", "snail", "0.001", "2.000", Decimal("1.00")),)


carrier = SnailMail()
'''
SIMULATED = '''"""Snail Mail, simulated."""

from decimal import Decimal

from carriers.simulator.latency import fixed
from carriers.simulator.spec import CarrierSpec, Product

spec = CarrierSpec(
    code="snail",
    name="Snail Mail",
    shape="json_label",
    repeats="lookup",
    latency=fixed(0.1),
    tracking="SM{:010d}",
    products={90: Product("Snail Mail 0-2kg", 1, 2_000, Decimal("1.00"))},
)
'''
CARRIER_FAULT = '''"""teapot: a status that no carrier documents."""

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises


class Teapot(Fault):
    """Answers 418 to everything."""

    kind = "teapot"

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        """Refuse to brew."""
        return Response("short and stout", 418)
'''
SUITE_FAULT = '''"""F99: nothing happens."""

from loadtests.faults.fault import Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig


@register
class Nothing(Fault):
    """Everything goes well."""

    id = "F99"
    title = "nothing"
    doses = {"short": Dose(1), "full": Dose(1)}
    databases = ("sqlite",)
    control = {}
    without = "nothing"

    def strike(self, rig: Rig) -> None:
        rig.send(list(rig.wishes(1))).join()

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        return []
'''
SCENARIO = """
title = "One read"
question = "Does it answer?"

[parameters]
rate = 1

[[phases]]
name = "reads"
cap = 5

[[phases.streams]]
name = "reads"
call = "read"
arrivals = { kind = "constant", rate = "$rate", seconds = 1 }
"""
STRATEGY = """
title = "The development server under another name"
family = "waits in the worker"
backend = "inline"
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a scratch copy; its Python is this one, and nothing of the original is importable."""
    copy = tmp_path_factory.mktemp("checkout") / "main"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT, ".*_cache", ".hypothesis"))
    return copy


def python(checkout, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=checkout,
        env={
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "DEBUG": "1",
            "DJANGO_SETTINGS_MODULE": "shipping.settings",
            "RUN_DIR": str(checkout / ".run"),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tell(checkout, expression, modules):
    return json.loads(
        python(checkout, "-c", f"import json, {modules}; print(json.dumps({expression}))")
    )


def test_a_strategy_is_a_folder(checkout):
    folder = checkout / "deploy" / "strategies" / "another"
    folder.mkdir()
    procfile = ROOT / "deploy" / "strategies" / "runserver" / "Procfile"
    shutil.copy(procfile, folder / "Procfile")
    (folder / "strategy.toml").write_text(STRATEGY)
    (folder / "README.md").write_text("# another\n\nAs [runserver](../runserver/README.md).\n")
    assert "another" in python(checkout, "-m", "deploy.run", "--list")
    started = (
        "import urllib.request\n"
        "from deploy.stack import Stack\n"
        "with Stack('another') as stack:\n"
        "    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
        "    answer = opener.open(stack.base_url + '/readyz', timeout=10)\n"
        "    print(answer.status, stack.strategy.folder)\n"
    )
    assert python(checkout, "-c", started).split() == ["200", str(folder)]
    python(checkout, "-m", "mkdocs", "build", "--strict")
    assert (checkout / ".run" / "site" / "strategies" / "another.html").exists()


def test_a_carrier_is_a_file_and_so_is_its_simulated_counterpart(checkout):
    (checkout / "carriers" / "adapters" / "snail.py").write_text(CARRIER)
    (checkout / "carriers" / "simulator" / "catalogue" / "snail.py").write_text(SIMULATED)
    bought = (
        "import django\n"
        "django.setup()\n"
        "from parcels.tests.stacks import running\n"
        "with running('asgi-hold', 'sqlite') as site:\n"
        "    answer = site.create(shipment=90, weight='1.000', request_label=True)\n"
        "    print(answer.status_code, answer.json()['parcel']['tracking_number'])\n"
    )
    status, tracking = python(checkout, "-c", bought).split()
    assert (status, tracking[:2]) == ("200", "SM")


def test_a_carrier_s_fault_is_a_file(checkout):
    (checkout / "carriers" / "simulator" / "faults" / "teapot.py").write_text(CARRIER_FAULT)
    kinds = tell(
        checkout,
        "sorted(fault.KINDS)",
        "carriers.simulator.faults, carriers.simulator.fault as fault",
    )
    assert "teapot" in kinds


def test_a_fault_of_the_suite_is_a_file(checkout):
    (checkout / "loadtests" / "faults" / "kinds" / "f99_nothing.py").write_text(SUITE_FAULT)
    assert "F99" in python(checkout, "-m", "loadtests.faults", "--help")


def test_a_scenario_is_a_file(checkout):
    (checkout / "loadtests" / "scenarios" / "one_read.toml").write_text(SCENARIO)
    found = tell(
        checkout,
        "['one_read' in scenario.names(), scenario.load('one_read').title]",
        "loadtests.scenario as scenario",
    )
    assert found == [True, "One read"]


def test_a_link_to_nowhere_stops_the_pages(checkout):
    """The control of `make docs`."""
    page = checkout / "docs" / "adr" / "9999-nowhere.md"
    page.write_text("# 9999. Nowhere\n\nSee [that](no-such-page.md).\n")
    with pytest.raises(AssertionError, match="no-such-page"):
        python(checkout, "-m", "mkdocs", "build", "--strict")
    page.unlink()
