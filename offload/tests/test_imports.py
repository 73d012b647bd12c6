import ast
import subprocess
import sys
from pathlib import Path

import pytest

HUB_SIDE = ["offload", "offload.protocol", "offload.tickets", "offload.hub", "offload.hub_app"]


def imported(module):
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", [*HUB_SIDE, "offload.asgi", "offload.waiting"])
def test_the_hub_side_knows_no_django(module):
    assert "django" not in imported(module)


@pytest.mark.parametrize("module", ["offload.protocol", "offload.tickets"])
def test_the_protocol_needs_only_the_standard_library(module):
    names = {name.partition(".")[0] for name in imported(module)}
    foreign = names - set(sys.stdlib_module_names) - {"offload", "__main__"}
    assert not {name for name in foreign if name in ("redis", "uvicorn", "django", "asgiref")}


def test_what_is_measured_beside_another_commit_s_takes_nothing_internal_from_it():
    """The web process may have any older offload; only `work`, the worker, has always ours."""
    body = ast.parse(Path(__file__).with_name("measured.py").read_text()).body
    modules = {each.module or "" for each in body if isinstance(each, ast.ImportFrom)}
    ours = {module for module in modules if module.startswith("offload")}
    assert ours == {"offload.resolving", "offload.threads"}


# A project's LOGGING, whose default is to disable the loggers that are there already.
PLAIN = """
import logging
from django.conf import settings
settings.configure(
    SECRET_KEY="x" * 50,
    INSTALLED_APPS=["offload"],
    LOGGING={"version": 1},
    OFFLOAD={"BACKEND": "asgi"},
)
from offload import get_asgi_application
get_asgi_application()
logging.getLogger("offload").warning("heard")
"""


def test_a_project_s_logging_does_not_silence_it():
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=True)
    assert "heard" in done.stderr
