"""Two batches with the same references in opposite order, both at once, on DATABASE_URL's database.

    python -m parcels.tests.overlaps ROUNDS [--overtaken]

Migrates, then prints a JSON line per round: what each side got. A process of its own, for the
reason that `parcels.tests.races` gives. With `--overtaken` one batch loses several races instead,
one after the other.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from threading import Barrier
from typing import Any

import django
from django.core.management import call_command
from django.db import connection

# So many that both are in the middle of their insert at one moment.
REFERENCES = 60
OVERTAKEN = 5


def main() -> None:
    """Play the rounds."""
    django.setup()
    call_command("migrate", verbosity=0)
    from parcels.tests.factories import AccountFactory

    with ThreadPoolExecutor(2) as pool:
        for _ in range(int(sys.argv[1])):
            account = AccountFactory.create()
            references = [f"order-{number:03}" for number in range(REFERENCES)]
            if "--overtaken" in sys.argv:
                overtaken = overtake(pool, account, references[:OVERTAKEN])
                sys.stdout.write(json.dumps([overtaken]) + "\n")
                continue
            start = Barrier(2)
            sides = [
                pool.submit(accept_batch, start, account, batch)
                for batch in (references, references[::-1])
            ]
            sys.stdout.write(json.dumps([side.result() for side in sides]) + "\n")


def overtake(pool: ThreadPoolExecutor, account: Any, references: list[str]) -> dict[str, Any]:
    """Accept a batch; each time that it has read what is there, another request takes the next."""
    module: Any = import_module("parcels.services.accept")
    read, others = module.colli_by_reference, iter(references)

    def read_too_early(asker: Any, wanted: list[str], *, locked: bool) -> Any:
        found = read(asker, wanted, locked=locked)
        if len(wanted) > 1 and (other := next(others, None)):
            pool.submit(accept_batch, Barrier(1), account, [other]).result()
        return found

    module.colli_by_reference = read_too_early
    try:
        return accept_batch(Barrier(1), account, references)
    finally:
        module.colli_by_reference = read


def accept_batch(start: Barrier, account: Any, references: list[str]) -> dict[str, Any]:
    """Accept a batch on a connection of this thread's own."""
    from parcels.representation import Question
    from parcels.services.accept import Mode, Order, accept
    from parcels.services.holds import Asked
    from parcels.tests.requests import BODY

    orders = [Order(BODY | {"external_reference": name}, Mode.STORE) for name in references]
    connection.ensure_connection()
    start.wait(30)
    try:
        parcels, *_ = accept(Asked(account, Question([], "", "")), orders)
        return {"ids": sorted(parcel.pk for parcel in parcels), "error": ""}
    except Exception as error:
        return {"ids": [], "error": str(error)}
    finally:
        connection.close()


if __name__ == "__main__":
    main()
