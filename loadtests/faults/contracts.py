"""Carrier contracts of the deployment under test, changed as its own code changes them."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from deploy.plan import ROOT
from loadtests.faults.rig import Rig

# In a process of the application: credentials are encrypted with its secret.
SCRIPT = """
import json, os
from parcels.models import CarrierContract
for change in json.loads(os.environ["CONTRACT_CHANGES"]):
    given = {"account_id": change["account"], "carrier": change["carrier"]}
    default = CarrierContract.objects.filter(**given, is_default=True)
    if change["how"] == "edit":
        contract = default.get()
        contract.credentials = change["credentials"]
        contract.save()
    else:
        default.update(is_default=False)
        CarrierContract.objects.create(**given, credentials=change["credentials"])
"""


@dataclass(frozen=True, slots=True)
class Change:
    """A new default contract of an account (0, 1), or an edit of the one that it has."""

    account: int
    carrier: str
    secret: str
    how: Literal["new", "edit"] = "new"

    def payload(self, rig: Rig) -> Mapping[str, object]:
        """Return it with the database's account, and credentials for every kind of carrier."""
        secret = f"{self.secret}-{self.account}"
        credentials = dict.fromkeys(("api_key", "username", "password"), secret)
        account = rig.database.accounts(rig.publics)[self.account]
        return asdict(self) | {"account": account, "credentials": credentials}


def change_contracts(rig: Rig, changes: Iterable[Change]) -> None:
    """Make the changes; raises CalledProcessError where the application refuses."""
    made = [change.payload(rig) for change in changes]
    rig.note(
        f"contracts changed: {[(each['account'], each['carrier'], each['how']) for each in made]}"
    )
    subprocess.run(
        [sys.executable, "manage.py", "shell", "--verbosity", "0", "-c", SCRIPT],
        cwd=ROOT,
        env={**rig.stack.env, "CONTRACT_CHANGES": json.dumps(made)},
        stdout=subprocess.DEVNULL,
        timeout=60,
        check=True,
    )
