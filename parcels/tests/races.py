"""Cancel against announce, both at once, on the database that DATABASE_URL names.

    python -m parcels.tests.races ROUNDS [--void | --inherit] [--broken]

Migrates, then runs rounds of two threads on one parcel each; the carrier is a stand-in that sells
at once. Prints a JSON line per round. A process of its own: the tests' database is in memory, and
threads would share its one connection. With `--void` both sides void one label instead; with
`--inherit` a cancellation and a change give one reference to the same collo. `--broken` is the
control: there the withdrawal doesn't look whether somebody has claimed the announcement, and
voiding doesn't claim.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import django
from django.core.management import call_command
from django.db import connection

# Seconds. What a call takes here, and by how much a round moves the next one's lead.
APART = 0.004
SEED = 2026
Round = Callable[[ThreadPoolExecutor, random.Random, float], dict[str, Any]]


def main() -> None:
    """Play the rounds."""
    django.setup()
    call_command("migrate", verbosity=0)
    from parcels import unguarded
    from parcels.services import cancel

    if "--broken" in sys.argv:
        cancel.withdraw_unsent = withdraw_anyhow
        unguarded.take_away("void_claim")
    named: dict[str, Round] = {"--void": void_twice, "--inherit": inherit}
    round_of = next((named[option] for option in sys.argv if option in named), play)
    chance = random.Random(SEED)
    lead = 0.0
    with ThreadPoolExecutor(2) as pool:
        for _ in range(int(sys.argv[1])):
            played = round_of(pool, chance, lead)
            # Who came first gives the other one more time: so a machine of any speed plays most of
            # its rounds where the order is open, and both orders occur.
            lead += APART if "announce" in played.get("calls", ()) else -APART
            sys.stdout.write(json.dumps(played) + "\n")


def play(pool: ThreadPoolExecutor, chance: random.Random, lead: float) -> dict[str, Any]:
    """Play one round, the cancellation `lead` seconds ahead; return what came of it.

    That is after the voiding that it woke.
    """
    from carriers import transport
    from carriers.outcomes import Announced, Voided
    from parcels.models import Parcel, State
    from parcels.services import announce, void, wake
    from parcels.services.cancel import cancel
    from parcels.tests.factories import AnnouncementFactory

    sold: list[str] = []
    woken: list[tuple[str, int]] = []

    def perform(steps: Any, *_: Any, **__: Any) -> Any:
        kind = steps.gi_code.co_name
        steps.close()
        sold.append(kind)
        time.sleep(APART)  # a call is where a cancellation comes in between most often
        return Announced("c-1", "3S1", ()) if kind == "announce" else Voided()

    def note(task: str, row_ids: Sequence[int | str], *_: Any, **__: Any) -> bool:
        woken.extend((task, int(each)) for each in row_ids)
        return True

    transport.perform, wake.send = perform, note
    row = AnnouncementFactory.create(state=State.PENDING)
    start = Barrier(2)
    waits = [max(ahead, 0.0) + chance.uniform(0, APART) for ahead in (lead, -lead)]
    sides: list[Callable[[], Any]] = [
        lambda: announce.announce(row.pk),
        lambda: cancel(account=row.account, parcel_id=row.parcel_id).code,
    ]
    _, code = [
        future.result()
        for future in [
            pool.submit(run, start, wait, side) for wait, side in zip(waits, sides, strict=True)
        ]
    ]
    for task, announcement_id in woken:
        if task == "void":
            void.void(announcement_id)
    row.refresh_from_db()
    status = Parcel.objects.get(pk=row.parcel_id).status
    return {"code": code, "calls": sold, "state": row.state, "status": int(status)}


def void_twice(pool: ThreadPoolExecutor, chance: random.Random, _: float) -> dict[str, Any]:
    """Have two workers void one label at once; return how often the carrier was asked."""
    from carriers import transport
    from carriers.outcomes import Voided
    from parcels.models import Parcel, State
    from parcels.services import void
    from parcels.statuses import Status
    from parcels.tests.factories import AnnouncementFactory

    calls: list[str] = []

    def perform(steps: Any, *_: Any, **__: Any) -> Any:
        calls.append(steps.gi_code.co_name)
        steps.close()
        time.sleep(4 * APART)
        return Voided()

    transport.perform = perform
    row = AnnouncementFactory.create(
        state=State.ANNOUNCED, parcel__status=Status.CANCELLATION_REQUESTED
    )
    start = Barrier(2)
    # Both claim, or one while the other one calls.
    spread = chance.choice([APART / 4, 8 * APART])
    sides = [pool.submit(run, start, chance.uniform(0, spread), lambda: void.void(row.pk))
             for _side in range(2)]  # fmt: skip
    for side in sides:
        side.result()
    row.refresh_from_db()
    status = Parcel.objects.get(pk=row.parcel_id).status
    return {"calls": calls, "state": row.state, "status": int(status)}


def inherit(pool: ThreadPoolExecutor, _: random.Random, __: float) -> dict[str, Any]:
    """Cancel the first of two colli, and give its reference to the second at once.

    PostgreSQL ends one of them: each has what the other one waits for.
    """
    from parcels.models import Parcel
    from parcels.representation import Question
    from parcels.services import cancel, change
    from parcels.services.accept import Mode
    from parcels.services.holds import Asked
    from parcels.statuses import Status
    from parcels.tests.factories import ParcelFactory

    ready = Barrier(2)
    waits = [ready.wait, ready.wait]  # once on each side

    def after(step: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*given: Any, **named: Any) -> Any:
            result = step(*given, **named)
            if waits:
                waits.pop()(30)
            return result

        return wait

    shared: dict[str, Any] = {"status": Status.NO_LABEL, "collo_count": 2}
    first = ParcelFactory.create(external_reference="order-1", **shared)
    shared |= {"account": first.account, "colli_uuid": first.colli_uuid}
    second = ParcelFactory.create(collo_nr=1, **shared)
    module: Any = change
    kept, module.fill = module.fill, after(module.fill)
    deletes: Any = Parcel
    delete, deletes.delete = deletes.delete, after(deletes.delete)
    asked = Asked(first.account, Question([], "", ""))
    renamed = {"external_reference": "order-1"}
    sides: list[Callable[[], Any]] = [
        lambda: cancel.cancel(account=first.account, parcel_id=first.pk).code,
        lambda: (
            change.change_parcel(
                asked=asked, parcel_id=second.pk, fields=renamed, mode=Mode.STORE
            ).status_code
        ),
    ]
    try:
        ends = [pool.submit(run, Barrier(1), 0.0, side) for side in sides]
        errors = [type(end.exception()).__name__ for end in ends]
    finally:
        module.fill, deletes.delete = kept, delete
    second.refresh_from_db()
    return {"errors": errors, "reference": second.external_reference}


def run(start: Barrier, wait: float, side: Callable[[], Any]) -> Any:
    """Run one side a moment after both are ready, each with a connection of its own."""
    connection.ensure_connection()
    start.wait(30)
    time.sleep(wait)
    try:
        return side()
    finally:
        connection.close()


def withdraw_anyhow(parcel: Any) -> bool:
    """Withdraw without a look at who has the announcement: what the service must not do."""
    from parcels.models import Announcement, Parcel, State
    from parcels.statuses import Status

    Announcement.objects.filter(parcel=parcel).update(state=State.CANCELLED)
    return bool(Parcel.objects.filter(pk=parcel.pk).update(status=Status.CANCELLED))


if __name__ == "__main__":
    main()
