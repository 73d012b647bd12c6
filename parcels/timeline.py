"""A parcel's history in one list, for an operator who looks for a label."""

from dataclasses import dataclass
from datetime import datetime

from parcels.models import Announcement, Attempt, Parcel, State, WebhookDelivery
from parcels.statuses import status_payload

# How a step looks. Words and signs say it, too: colours alone don't.
GOOD, BAD, OPEN, PLAIN = "good", "bad", "open", "plain"
_MOOD = {"announced": GOOD, "voided": GOOD, "adopted": GOOD, "refused": BAD, "unknown": OPEN}
_MOOD_OF_DELIVERY = {"delivered": GOOD, "failed": BAD, "pending": PLAIN}


@dataclass(frozen=True, slots=True)
class Step:
    """One line: when, what, and in small print how; `delivery` can be sent again."""

    at: datetime
    title: str
    detail: str = ""
    mood: str = PLAIN
    delivery: int | None = None


def timeline(parcel: Parcel) -> list[Step]:
    """Return the parcel's steps, oldest first."""
    steps = [Step(parcel.date_created, "Created", f"by {parcel.account.name}")]
    for announcement in parcel.announcements.prefetch_related("attempts").order_by("pk"):
        steps += _of_announcement(announcement)
    for event in parcel.tracking_events.all():
        message = event.message or str(status_payload(event.status)["message"])
        steps.append(Step(event.at, f"Tracking: {message}", f"by {event.carrier}"))
    deliveries = WebhookDelivery.objects.filter(event__parcel=parcel)
    for delivery in deliveries.select_related("event", "endpoint").prefetch_related("attempts"):
        steps.append(_of_delivery(delivery))
    # As exact as it is shown: an end is stamped just before the try that brought it is stored.
    return sorted(steps, key=lambda step: step.at.replace(microsecond=0))


def _of_announcement(announcement: Announcement) -> list[Step]:
    accepted = Step(
        announcement.date_created,
        f"Announcement accepted for {announcement.carrier}",
        f"reference {announcement.reference}",
    )
    steps = [accepted, *(_of_attempt(attempt) for attempt in announcement.attempts.all())]
    # With a label it is the purchase: attempts say that, and that the label was voided later.
    if announcement.date_ended and announcement.state not in (State.ANNOUNCED, State.VOIDED):
        steps.append(Step(announcement.date_ended, f"Ended: {announcement.state}",
                          announcement.error, BAD))  # fmt: skip
    return steps


def _of_attempt(attempt: Attempt) -> Step:
    facts = [f"{attempt.duration:.2f} s" if attempt.duration else "", attempt.detail]
    facts += [attempt.tracking_number, attempt.carrier_id and f"carrier's id {attempt.carrier_id}"]
    if not attempt.recorded:
        facts.append("not recorded: another process had the row by then")
    return Step(
        attempt.date_created,
        f"Attempt {attempt.fence} ({attempt.kind}): {attempt.outcome}",
        " · ".join(fact for fact in facts if fact),
        _MOOD.get(attempt.outcome, PLAIN),
    )


def _of_delivery(delivery: WebhookDelivery) -> Step:
    tries = [f"{each.status or each.error} after {each.duration:.2f} s"
             for each in delivery.attempts.all()]  # fmt: skip
    status = status_payload(delivery.event.status)["message"]
    return Step(
        delivery.date_created,
        f"Webhook “{status}” to {delivery.endpoint.host}: {delivery.state}",
        " · ".join(tries) or "not tried yet",
        _MOOD_OF_DELIVERY[delivery.state],
        delivery.pk,
    )


def what_to_do(repeats: str) -> str:
    """Return advice about an announcement under review, by what its carrier can do."""
    if repeats == "dedup":
        return (
            "The same reference returns the first label. The carrier has not answered in time: "
            "check whether it is up, then adopt the label it has for this reference, or give up."
        )
    if repeats == "lookup":
        return (
            "Look the reference up at the carrier. One label: adopt it. Several: adopt one, void "
            "the rest. None, although its settling time has passed: give up; the shop may "
            "announce again."
        )
    return (
        "This carrier has no lookup, and a second call buys a second label. Search its "
        "portal or invoice for the reference: adopt the label you find, or give up."
    )
