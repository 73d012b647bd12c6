"""Test processes side by side: what shares a deployment stays together."""

import pytest

from deploy.strategy import names
from deploy.tests.fixtures import deployment_of

CONTRACT = "deploy/tests/contract"


@pytest.mark.parametrize("name", names())
def test_a_strategy_is_tested_in_one_process(name):
    for test in ("test_many.py::test_many", "test_losses.py::test_a_reload"):
        assert deployment_of(f"{CONTRACT}/{test}[{name}]") == name
        assert deployment_of(f"{CONTRACT}/{test}[{name}-app]") == name


def test_all_others_go_by_their_file():
    assert deployment_of("offload/tests/test_hub.py::test_drain[2-a[b]]") == (
        "offload/tests/test_hub.py"
    )
    assert deployment_of("offload/tests/test_hub.py::TestIt::test_this") == (
        "offload/tests/test_hub.py"
    )
