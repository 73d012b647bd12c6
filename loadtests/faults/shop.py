"""A shop's single request, of which the status alone matters; and its cancellations."""

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from deploy.loopback import ask
from loadtests.faults.rig import Rig

AT_ONCE = 8


def status_of(rig: Rig, path: str, *, account: int, method: str = "GET") -> int:
    """Return the status of the API's answer to one of the accounts (0, 1)."""
    url = f"http://127.0.0.1:{rig.port}/api/v2/{path}"
    return ask(url, method=method, login=rig.logins[account])[0]


def accounts_by_parcel(rig: Rig) -> dict[int, int]:
    """Return each parcel's account (0, 1)."""
    place = {id_: place for place, id_ in rig.database.accounts(rig.publics).items()}
    return {parcel.id: place[parcel.account] for parcel in rig.database.parcels()}


def cancel(rig: Rig, parcels: Iterable[int]) -> Counter[int]:
    """Cancel parcels, several at once; return the answers' statuses."""
    owners = accounts_by_parcel(rig)

    def cancelled(parcel: int) -> int:
        path = f"parcels/{parcel}/cancel"
        return status_of(rig, path, account=owners[parcel], method="POST")

    wanted = list(parcels)
    rig.note(f"cancelling {len(wanted)}")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return Counter(pool.map(cancelled, wanted))


def can_be_printed(rig: Rig, parcel: int, account: int) -> bool:
    """Tell whether the API shows the parcel's label, or its document."""
    answer = partial(status_of, rig, account=account)
    return 200 in (answer(f"labels/{parcel}"), answer(f"parcels/{parcel}/documents/label"))
