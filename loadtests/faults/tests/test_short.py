"""A short dose of some faults that are quick, and of two controls; `make faults` runs them all.

All on one deployment, whose processes are started anew where a control takes a guard away; but what
needs longer times than the shortest (`short_scale`) has a deployment of its own.
"""

from collections.abc import Iterator

import pytest

from deploy.stores import POSTGRESQL_INSTALL, StoreMissingError, postgresql_programs
from deploy.tests.fixtures import absent
from loadtests.faults.fault import Result, Run, all_faults, execute, execute_on
from loadtests.faults.report import table, targets
from loadtests.faults.rig import Rig

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(600)]
# Fixed: a failure here should be the same failure again.
SEED = 20_261
# In the order that restarts least: guarded runs share an environment.
GUARDED = ("F7", "F12", "F13", "F10", "F1", "F2", "F11", "F22")
CONTROLS = (
    # A second purchase needs a look within seconds, which come late on a busy machine.
    pytest.param("F10", "settling", marks=pytest.mark.alone),
    ("F12", "idempotency"),
)


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    try:
        postgresql_programs()
    except StoreMissingError:
        absent("postgresql", POSTGRESQL_INSTALL)
    with Rig(database="postgresql", seed=SEED) as rig:
        yield rig


@pytest.mark.parametrize("fault", GUARDED)
def test_nothing_is_lost_or_doubled(rig: Rig, fault: str) -> None:
    result = run(rig, fault)
    assert result.green, "\n".join([table([result]), *targets(result)])


@pytest.mark.parametrize(("fault", "control"), CONTROLS)
def test_its_control_is_red(rig: Rig, fault: str, control: str) -> None:
    result = run(rig, fault, control)
    assert result.caught, f"the guard was off and nobody noticed\n{table([result])}"


def run(rig: Rig, fault: str, control: str = "") -> Result:
    kind = all_faults()[fault]
    if kind.short_scale == rig.scale:
        return execute_on(rig, kind, "short", seed=SEED, control=control)
    return execute(kind, Run(fault, "short", rig.database_kind, control), seed=SEED)
