"""With the packages of `make run` alone each command can at least say how it is used."""

import re
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest

from deploy.plan import ROOT

NAME = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
# Django's own way to each command of ours; all in one process, since each start takes a second.
ALL_COMMANDS = """
from django.core.management import get_commands, load_command_class
import django
django.setup()
ours = {name: app for name, app in get_commands().items() if not app.startswith("django.")}
assert {"doctor", "explain", "sweeper"} <= ours.keys(), ours
for name, app in ours.items():
    load_command_class(app, name).create_parser("manage.py", name).format_help()
"""


def locked(file):
    return {name.lower().replace("_", "-") for name in NAME.findall((ROOT / file).read_text())}


def for_development():
    """Return the modules that only requirements-dev.txt brings."""
    runtime = locked("requirements.txt") | locked("requirements-redis.txt")
    extra = locked("requirements-dev.txt") - runtime
    return [
        module
        for module, distributions in packages_distributions().items()
        if {name.lower().replace("_", "-") for name in distributions} <= extra
    ]


@pytest.mark.parametrize(
    ("code", "environment"),
    [
        ("import runpy; runpy.run_module('loadtests', run_name='__main__')", {}),
        ("import runpy; runpy.run_module('loadtests.faults', run_name='__main__')", {}),
        ("import runpy; runpy.run_module('deploy.demo', run_name='__main__')", {}),
        (ALL_COMMANDS, {"DEBUG": "1", "DJANGO_SETTINGS_MODULE": "shipping.settings"}),
    ],
    ids=["loadtests", "faults", "demo", "manage.py"],
)
def test_help_needs_no_development_package(code, environment):
    modules = for_development()
    assert {"matplotlib", "pytest"} <= set(modules)
    blocked = f"import sys; sys.modules.update(dict.fromkeys({modules!r})); "
    done = subprocess.run(
        [sys.executable, "-c", blocked + code, "--help"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
