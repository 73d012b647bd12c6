"""The announcements in the admin: evidence, and the two decisions about one under review."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html_join

from parcels.books.compare import voids_by_id
from parcels.models import Announcement, Document, Parcel, SpareLabel, SpareState, State
from parcels.papers.files import StorageAway
from parcels.services import review

# A label's PDF is some 100 KB. Under the limit of all bodies, which answers without the form.
LARGEST_LABEL = 2_000_000
NO_DOCUMENT = "Add the label's PDF, or tick that there is no document."


class AdoptForm(forms.Form):
    """What is known of a label that was sold."""

    spare = forms.ModelChoiceField(SpareLabel.objects.none(), required=False, label="Spare label")
    tracking_number = forms.CharField(max_length=64, required=False)
    carrier_id = forms.CharField(max_length=128, required=False, label="Carrier's own id")
    label = forms.FileField(required=False, help_text="The label as PDF.")
    no_document = forms.BooleanField(
        required=False,
        label="There is no document",
        help_text="The parcel's links to it will be 404: none can be added later.",
    )

    def __init__(self, announcement: Announcement, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._announcement = announcement
        self.fields["spare"].queryset = announcement.spares.filter(  # type: ignore[attr-defined] # a ModelChoiceField
            state=SpareState.OPEN
        )

    def clean_label(self) -> bytes | None:
        upload = self.cleaned_data["label"]
        if upload is None:
            return None
        content: bytes = upload.read(LARGEST_LABEL + 1)
        if len(content) > LARGEST_LABEL or not content.startswith(b"%PDF-"):
            raise forms.ValidationError("A PDF of at most 2 MB is needed.")
        return content

    def clean(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().clean() or {}
        spare, number = fields.get("spare"), fields.get("tracking_number")
        if not spare and not number:
            raise forms.ValidationError("Choose a spare label, or enter a tracking number.")
        if spare and number and number != spare.tracking_number:
            # Its papers would be kept, and the label voided as not the parcel's own.
            text = f"The spare label has another tracking number: {spare.tracking_number}."
            raise forms.ValidationError(text)
        carrier, by_id = self._announcement.carrier, fields.get("carrier_id")
        if not spare and not by_id and voids_by_id(carrier):
            # By its number alone the label could neither be voided nor known in the carrier's list.
            raise forms.ValidationError("This carrier voids a label by its own id: enter it, too.")
        if spare:
            number, by_id = spare.tracking_number, by_id or spare.carrier_id
        others = Parcel.objects.exclude(pk=self._announcement.parcel_id)
        for parcel in others.filter(carrier=carrier, tracking_number=number)[:1]:
            raise forms.ValidationError(f"Parcel {parcel.pk} has this tracking number.")
        if by_id and voids_by_id(carrier):
            # By no index: once for a decision it takes 0.15 s for each million.
            bought = Announcement.objects.exclude(pk=self._announcement.pk)
            for other in bought.filter(carrier=carrier, carrier_id=by_id)[:1]:
                raise forms.ValidationError(f"Parcel {other.parcel_id} has the label of this id.")
        attempt = (spare and spare.attempt_id) or 0  # None would be all documents of parcels
        papers = Document.objects.filter(attempt=attempt, type="label")
        if not (fields.get("label") or fields.get("no_document") or papers.exists()):
            raise forms.ValidationError(NO_DOCUMENT)
        return fields

    def as_label(self) -> review.Label:
        """Return the label; what was typed wins over the spare's."""
        given = self.cleaned_data
        spare: SpareLabel | None = given["spare"]
        return review.Label(
            tracking_number=given["tracking_number"] or (spare.tracking_number if spare else ""),
            carrier_id=given["carrier_id"] or (spare.carrier_id if spare else ""),
            pdf=given["label"],
            spare=spare,
        )


class ReviewActions(admin.ModelAdmin):
    """Adds the evidence and the decisions to the announcements' pages."""

    actions = ("adopt_label", "void_and_give_up")
    readonly_fields = ("spare_documents",)

    @admin.display(description="spare documents")
    def spare_documents(self, announcement: Announcement) -> str:
        """List labels that came when another process had the row."""
        found = Document.objects.filter(attempt__announcement=announcement).select_related(
            "attempt"
        )
        return (
            format_html_join(
                ", ",
                "{} ({}, {}) of {}",
                (
                    (
                        each.type,
                        each.format,
                        f"file {each.file}" if each.file else f"{len(each.content)} bytes",
                        each.attempt and each.attempt.tracking_number,
                    )
                    for each in found
                ),
            )
            or "none"
        )

    def has_adopt_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("parcels.adopt_announcement")

    def has_give_up_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("parcels.give_up_announcement")

    @admin.action(
        description="Adopt a label that the carrier has sold (one at a time)", permissions=["adopt"]
    )
    def adopt_label(
        self, request: HttpRequest, chosen: QuerySet[Announcement]
    ) -> HttpResponse | None:
        if len(chosen) != 1 or chosen[0].state != State.NEEDS_REVIEW:
            self.message_user(request, "Choose one that needs review.", messages.ERROR)
            return None
        announcement = chosen[0]
        given = (request.POST, request.FILES) if "adopt" in request.POST else ()
        form = AdoptForm(announcement, *given)
        if given and form.is_valid():
            label = form.as_label()
            try:
                papers = review.papers_of(announcement, label)
            except StorageAway as away:
                self.message_user(request, str(away), messages.ERROR)
                return None
            if papers or form.cleaned_data["no_document"]:
                self._decide(
                    request, announcement, f"Adopted label {label.tracking_number}.",
                    lambda by: review.adopt(announcement, label, papers, by=by),
                )  # fmt: skip
                return None
            form.add_error(None, NO_DOCUMENT)  # the spare's file is lost
        context = {**self.admin_site.each_context(request), "announcement": announcement}
        context["title"] = f"Adopt a label for {announcement.reference} at {announcement.carrier}"
        return TemplateResponse(request, "parcels/review.html", context | {"form": form})

    @admin.action(description="Void all spare labels, and give up", permissions=["give_up"])
    def void_and_give_up(self, request: HttpRequest, chosen: QuerySet[Announcement]) -> None:
        for announcement in chosen:
            self._decide(
                request, announcement, "Gave up.",
                lambda by, row=announcement: review.give_up(row, by=by),
            )  # fmt: skip

    def _decide(
        self, request: HttpRequest, announcement: Announcement, done: str, decision: Any
    ) -> None:
        try:
            with transaction.atomic():
                decision(request.user.get_username())
                self.log_change(request, announcement, done)
        except (review.NotUnderReview, review.SpareSettled) as error:
            text = f"{announcement.reference}: {error}"
            self.message_user(request, text, messages.ERROR)
        else:
            self.message_user(request, f"{announcement.reference} is decided.")
