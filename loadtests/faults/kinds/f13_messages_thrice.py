"""F13: each message delivered three times, shuffled."""

from __future__ import annotations

from celery import Celery

from loadtests.faults.fault import Dose, Fault, register
from loadtests.faults.rig import Rig

# Copies beside the one that the application has sent itself.
COPIES = 2


@register
class MessagesThrice(Fault):
    """A message is a hint: whoever comes second finds the row taken."""

    id = "F13"
    title = "each message delivered three times, shuffled"
    doses = {"short": Dose(200), "full": Dose(3_000)}
    control = {"FAULT_GUARDS_OFF": "claim"}
    without = "claim"

    def strike(self, rig: Rig) -> None:
        rig.stack.stop("worker")
        rig.send(rig.wishes(self.dose.requests)).join()
        rows = [(row.id, row.carrier) for row in rig.database.announcements()] * COPIES
        rig.rng.shuffle(rows)
        broker = Celery(broker=rig.stack.env["REDIS_URL"])
        with broker.connection_for_write() as connection:
            for id_, carrier in rows:
                broker.send_task(
                    "parcels.tasks.announce",
                    args=[id_],
                    queue=f"announce.{carrier}",
                    connection=connection,
                )
        rig.note(f"{len(rows)} more messages")
        rig.stack.start("worker")
