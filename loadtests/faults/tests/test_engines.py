"""The broker killed, with other engines beneath: RabbitMQ, and Redis by Sentinel, PgBouncer.

The short dose of one fault; `python -m loadtests.faults F1 F4 F13 --broker rabbitmq` and the like
run more, and their controls.
"""

import pytest

from deploy.stores import StoreMissingError
from deploy.tests.fixtures import absent
from loadtests.faults.fault import all_faults, execute_on
from loadtests.faults.report import table
from loadtests.faults.rig import Rig

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(600)]
SEED = 20_262


@pytest.mark.parametrize(
    ("database", "broker"), [("postgresql", "rabbitmq"), ("pgbouncer", "sentinel")]
)
def test_nothing_is_lost_with_the_broker(database: str, broker: str) -> None:
    try:
        rig = Rig(database=database, broker=broker, seed=SEED)
    except StoreMissingError as error:
        absent(f"{database} or {broker}", str(error))
    with rig:
        result = execute_on(rig, all_faults()["F4"], "short", seed=SEED)
    # Not its seconds, which are for full doses on a machine of their own.
    assert all(finding.holds for finding in result.findings), table([result])
