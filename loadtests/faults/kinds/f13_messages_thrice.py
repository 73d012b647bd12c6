"""F13: each message delivered three times, shuffled."""

from collections.abc import Iterator, Sequence

from celery import Celery

from loadtests.faults.fault import SOLD_TWICE, Control, Dose, Fault, register
from loadtests.faults.rig import Rig

TIMES = 3
# Rows whose messages are shuffled with each other: so few that the worker has those of one row in
# its hands at once, also where the machine is slow.
BLOCK = 20


@register
class MessagesThrice(Fault):
    """A message is a hint: the second worker finds the row taken."""

    id = "F13"
    title = "each message delivered three times, shuffled"
    doses = {"short": Dose(200), "full": Dose(3_000)}
    controls = {"claim": Control(SOLD_TWICE)}

    def strike(self, rig: Rig) -> None:
        rig.stack.stop("worker")
        rig.send(rig.wishes(self.dose.requests)).join()
        rows = [
            (row.id, row.carrier)
            for row in rig.database.announcements()
            if row.state == "pending"  # other runs on the same deployment have ended theirs
        ]
        broker = Celery(broker=rig.broker_url)
        with broker.connection_for_write() as connection:
            # The application's own, which are in order.
            for queue in {f"announce.{carrier}" for _, carrier in rows}:
                purge = connection.default_channel.queue_purge  # type: ignore[attr-defined] # kombu's stubs lack it
                purge(queue)
            for id_, carrier in self._shuffled(rig, rows):
                broker.send_task(
                    "parcels.tasks.announce",
                    args=[id_],
                    queue=f"announce.{carrier}",
                    declare=[],  # the application has, and knows of what kind it is
                    connection=connection,
                )
        rig.note(f"{len(rows) * TIMES} messages for {len(rows)} rows")
        rig.stack.start("worker")

    def _shuffled(self, rig: Rig, rows: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        for start in range(0, len(rows), BLOCK):
            block = list(rows[start : start + BLOCK]) * TIMES
            rig.rng.shuffle(block)
            yield from block
