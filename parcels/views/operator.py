"""Pages for staff with permission: parcels, one parcel's timeline, what is under review."""

from typing import Any, cast

from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST
from rest_framework.exceptions import NotFound

from carriers import registry
from parcels import pagination
from parcels.models import Account, Announcement, Document, Parcel, State, WebhookDelivery
from parcels.models.announcement import OPEN
from parcels.papers.files import StorageAway, contents
from parcels.papers.labels import as_png
from parcels.query import is_id
from parcels.services import webhooks
from parcels.statuses import WITHOUT_LABEL, Status
from parcels.timeline import timeline, what_to_do
from parcels.views.staff import staff_with

# A bit more than one screen; to see others, filter.
PER_PAGE = 50
# Dots per inch: sharp enough to read an address on a screen.
LABEL_DPI = 150


@require_GET
@staff_with("parcels.view_parcel")
def parcel_list(request: HttpRequest) -> HttpResponse:
    """List parcels, newest first, by the filters in the query."""
    given = request.GET
    found = _filtered(given)
    page = pagination.Newest(found, PER_PAGE).get_page(given.get("page"))
    query = given.copy()
    query.pop("page", None)
    return render(request, "parcels/operator/parcels.html", {
        "page": page,
        "newest": page.paginator.count == pagination.NEWEST and pagination.NEWEST,
        "given": given,
        "query": query.urlencode(),
        "statuses": Status.choices,
        "carriers": [*registry.CARRIERS],
        "accounts": Account.objects.order_by("name"),
        "under_review": _under_review().count(),
    })  # fmt: skip


def _filtered(given: Any) -> QuerySet[Parcel]:
    """Apply the filters; one that makes no sense finds nothing, it doesn't find everything."""
    parcels = Parcel.objects.select_related("account").order_by("-pk")
    if text := given.get("account"):
        parcels = parcels.filter(account=_number(text))
    if text := given.get("status"):
        parcels = _by_account(parcels).filter(status=_number(text))
    if carrier := given.get("carrier"):
        parcels = parcels.filter(carrier=carrier.replace("\0", "?"))  # PostgreSQL refuses NUL
    if text := given.get("q", "").strip().replace("\0", ""):
        parcels = parcels.filter(pk__in=_named(text, parcels))
    return parcels


def _named(text: str, among: QuerySet[Parcel]) -> list[int]:
    """Return the ids of parcels that somebody calls this: id, number or reference.

    A number is searched `among` those: of parcels that have the same one, only some are returned.
    """
    exact = ("tracking_number", "order_number", "external_reference")
    parcels = _by_account(among).order_by()
    found = [parcels.filter(**{field: text}).values_list("pk", flat=True)[:PER_PAGE]
             for field in exact]  # fmt: skip
    by_reference = Announcement.objects.filter(reference=text).values_list("parcel_id", flat=True)
    return [pk for ids in (*found, by_reference) for pk in ids] + [_number(text)]


def _by_account(parcels: QuerySet[Parcel]) -> QuerySet[Parcel]:
    """Have them looked for in each account, of which there are few.

    An index for all would cost every label a write, and without one all are read.
    """
    return parcels.filter(account__in=Account.objects.values("pk"))


def _number(text: str) -> int:
    return int(text) if is_id(text) else -1


@require_GET
@staff_with("parcels.view_parcel")
def parcel_page(request: HttpRequest, parcel_id: int) -> HttpResponse:
    """Show one parcel: its address, its label and its timeline."""
    parcel = _parcel(parcel_id)
    return render(request, "parcels/operator/parcel.html", {
        "parcel": parcel,
        "steps": timeline(parcel),
        "has_label": _label(parcel) is not None,
        "waiting": parcel.announcements.filter(state__in=OPEN).first(),
    })  # fmt: skip


@require_GET
@staff_with("parcels.view_document")
def label_picture(request: HttpRequest, parcel_id: int) -> HttpResponse:
    """Answer the label as a PNG."""
    row = _label(_parcel(parcel_id))
    try:
        label = contents([row])[0] if row else None
    except StorageAway as away:
        return HttpResponse(str(away), content_type="text/plain; charset=utf-8", status=503)
    if label is None:
        raise Http404(f"Parcel {parcel_id} has no label.")
    try:
        picture = as_png(label, LABEL_DPI)
    except NotFound as unreadable:  # the API's
        raise Http404(str(unreadable)) from unreadable
    return HttpResponse(picture, content_type="image/png")


def _parcel(parcel_id: int) -> Parcel:
    found = Parcel.objects.select_related("account").filter(pk=parcel_id).first()
    if found is None:
        raise Http404(
            f"There is no parcel {parcel_id}. It was never created, or it was "
            "deleted after its retention time."
        )
    return found


def _label(parcel: Parcel) -> Document | None:
    if parcel.status in WITHOUT_LABEL:
        return None
    labels = Document.objects.filter(parcel=parcel, type="label", format="pdf", attempt=None)
    return labels.first()


@require_POST
@staff_with("parcels.resend_webhookdelivery")
def send_again(request: HttpRequest, parcel_id: int, delivery_id: int) -> HttpResponse:
    """Send a webhook of this parcel again."""
    delivery = get_object_or_404(WebhookDelivery, pk=delivery_id, event__parcel_id=parcel_id)
    user = cast(User, request.user)
    with transaction.atomic():
        if sent := webhooks.send_again(delivery):
            LogEntry.objects.log_actions(user.pk, [delivery], CHANGE, "Sent again.")
    if sent:
        messages.success(request, "The webhook will be sent again.")
    else:
        messages.error(request, "Not sent again: the webhook is switched off.")
    return HttpResponseRedirect(reverse("operator:parcel", args=[parcel_id]))


@require_GET
@staff_with("parcels.view_announcement")
def review_list(request: HttpRequest) -> HttpResponse:
    """List what waits for a person, the oldest first, with its evidence and what to do."""
    found = _under_review().select_related("parcel__account").prefetch_related("attempts")
    page = Paginator(found.order_by("pk"), PER_PAGE).get_page(request.GET.get("page"))
    advised = [(each, what_to_do(registry.REPEATS[each.carrier])) for each in page]
    context = {"page": page, "advised": advised}
    return render(request, "parcels/operator/review.html", context)


def _under_review() -> QuerySet[Announcement]:
    return Announcement.objects.filter(state=State.NEEDS_REVIEW)
