import subprocess
import sys

import pytest

HUB_SIDE = ["offload", "offload.protocol", "offload.answer", "offload.hub", "offload.hub_app"]


def imported(module):
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", [*HUB_SIDE, "offload.asgi", "offload.waiting"])
def test_the_hub_side_knows_no_django(module):
    assert "django" not in imported(module)


def test_the_protocol_needs_only_the_standard_library():
    names = {name.partition(".")[0] for name in imported("offload.protocol")}
    foreign = names - set(sys.stdlib_module_names) - {"offload", "__main__"}
    assert not {name for name in foreign if name in ("redis", "uvicorn", "django", "asgiref")}
