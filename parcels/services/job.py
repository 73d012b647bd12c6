"""What a call about an announcement needs: its carrier, consignment, credentials and limits.

Purchases in an event loop are made by `announcer`, all other calls by `call_and_wait`; `protect`
gives the permission. No transaction, row lock or database connection is held while waiting for the
carrier.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import Error
from django.utils.crypto import salted_hmac

from carriers import registry
from carriers.base import Carrier
from carriers.messages import Address, Consignment
from carriers.outcomes import Announced, Outcome
from parcels.models import Account, Announcement, CarrierContract
from parcels.representation import divide_address

log = logging.getLogger(__name__)

# Seconds, beside those to connect, between the send guard and a purchase's first byte: a process
# that was paused longer may have lost its lease.
GUARD_WINDOW = 1.0
# An address' fields, by the carriers' names: those of a parcel and of its `from_address`.
_SAME = {name: name for name in ("name", "postal_code", "city", "country", "email")}
_RENAMED = {"company": "company_name", "street_2": "address_2", "phone": "telephone"}
_RECEIVER = _SAME | _RENAMED
_SENDER = _RECEIVER | {"street": "address_1", "house_number": "house_number", "state": "state"}


@dataclass(slots=True)
class Job:
    """A claimed announcement and all that a call about it needs.

    `guarded_at` by this process' monotonic clock; `slot` is the permission to make one call.
    `changed`: the contract's credentials are others than those of the first purchase, so that the
    carrier may answer as if it had sold nothing.
    """

    announcement: Announcement
    carrier: Carrier
    consignment: Consignment
    contract: CarrierContract | None
    credentials_hash: str
    changed: bool
    guarded_at: float = 0.0
    slot: str = ""

    def limits(self) -> tuple[str, float, float, float]:
        """Return the carrier's address, the seconds for the call and for connecting, and until when
        a purchase or a void may leave.

        The guard's row was written before connecting; the monotonic clock continues in a pause.
        """
        connecting = settings.CARRIER_CONNECT_TIMEOUT
        until = self.guarded_at + connecting + GUARD_WINDOW
        url = str(settings.CARRIERS[self.carrier.code]["url"])
        return url, settings.CARRIER_CALL_DEADLINE, connecting, until


@dataclass(frozen=True, slots=True)
class Result:
    """What a call brought; `duration` in seconds.

    `others` are labels that the carrier's list has beside the outcome's.
    """

    job: Job
    outcome: Outcome
    duration: float
    kind: str = "announce"
    others: Sequence[Announced] = ()


def jobs_for(announcements: Sequence[Any]) -> list[Job]:
    """Prepare calls about these; one that can't be prepared is logged and left out.

    They were read by `announcement_sql.calls_about`. The contract is the one that the announcement
    began with; at first the parcel's, or the default; else ours with that carrier, of
    `settings.HOUSE_CREDENTIALS`. A database error is not the row's fault: it is raised.
    """
    jobs: list[Job] = []
    try:
        wanted: dict[int, int | None] = {
            row.pk: row.contract_id
            if row.credentials_hash
            else row.parcel.contract_id or row.default_contract
            for row in announcements
        }
        known = CarrierContract.objects.in_bulk(set(filter(None, wanted.values())))
        accounts: dict[int, Account] = {}
        for row in announcements:
            # One for all of a group: 10,000 calls may be under way.
            row.parcel.account = accounts.setdefault(row.parcel.account_id, row.parcel.account)
            contract = known.get(wanted[row.pk] or 0)
            credentials = dict(
                contract.credentials if contract else settings.HOUSE_CREDENTIALS[row.carrier]
            )
            hashes = credentials_hashes(credentials)
            job = Job(
                row,
                registry.CARRIERS[row.carrier],
                consignment(row, credentials),
                contract,
                hashes[0],
                changed=row.credentials_hash not in ("", *hashes),
            )
            jobs.append(job)
    except Error:
        raise
    except Exception:
        if len(announcements) > 1:
            return [job for each in announcements for job in jobs_for([each])]
        log.exception("announcement %s can't be prepared", announcements[0].reference)
    return jobs


def consignment(announcement: Announcement, credentials: dict[str, str]) -> Consignment:
    """Return the consignment: what the carrier is told.

    The sender is the parcel's own, else the account's name.
    """
    parcel = announcement.parcel
    street, number = divide_address(parcel.address, parcel.house_number)
    receiver = Address(
        street=street,
        house_number=number,
        state=parcel.to_state or "",
        **{name: getattr(parcel, own) for name, own in _RECEIVER.items()},
    )
    given = parcel.from_address
    if given:
        sender = Address(**{name: given.get(own, "") for name, own in _SENDER.items()})
    else:
        sender = Address(name=parcel.account.name, company=parcel.account.company_name)
    return Consignment(
        reference=announcement.reference,
        product=str(parcel.shipping_method),
        receiver=receiver,
        sender=sender,
        weight_g=int(parcel.weight * 1000),
        credentials=credentials,
    )


def credentials_hashes(credentials: dict[str, str]) -> list[str]:
    """Return hashes that identify these credentials, one per secret key (current and fallbacks).

    Keyed: a password can't be guessed from a dump.
    """
    text = json.dumps(credentials, sort_keys=True)
    return [
        salted_hmac("carrier credentials", text, secret=key).hexdigest()[:16]
        for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    ]
