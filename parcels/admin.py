"""The operator's view of the stored rows. Secrets are masked."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from cryptography.fernet import InvalidToken
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import BaseModelAdmin
from django.db import models, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse

from carriers import registry
from parcels import pagination
from parcels.models import (
    Account,
    Announcement,
    ApiKey,
    Attempt,
    Brand,
    CarrierContract,
    Document,
    Hold,
    Integration,
    Parcel,
    SenderAddress,
    SpareLabel,
    TrackingEvent,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
)
from parcels.query import is_id
from parcels.review_admin import ReviewActions
from parcels.services import review, webhooks
from parcels.services.keys import TooManyKeys, issue_key, revoke_key, signing_with
from parcels.webhooks.addresses import NotAllowed, current_policy, target

admin.site.site_header = admin.site.site_title = "Slow carriers: admin"
admin.site.index_title = (
    "Rows as they are stored; what happened to a parcel is on the operator's pages"
)
admin.site.site_url = "/operator/"


class ReadOnly(BaseModelAdmin):
    """The protocol writes these rows; an edit by hand would break its guarantees."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[Any, ...]:
        """Remove all fields from the form: an inline's form refuses fields that it may not set."""
        return (*super().get_readonly_fields(request, obj), *(self.fields or ()))

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class Rows(ReadOnly, admin.ModelAdmin):
    """A list, newest first, of a table that may be too long to be counted for it."""

    ordering = ("-id",)
    paginator = pagination.Newest
    show_full_result_count = False

    def do_to_each(
        self, request: HttpRequest, rows: QuerySet[Any], act: Callable[[Any], bool], done: str
    ) -> tuple[list[Any], int]:
        """Do it to each row together with its log entry.

        Returns those that it was done to, and how many it was refused. "All" are as many as the
        list has, and as its page says.
        """
        changed, left = [], 0
        for row in rows[: pagination.NEWEST]:
            with suppress(Http404), transaction.atomic():  # it was deleted meanwhile
                if act(row):
                    self.log_change(request, row, done)
                    changed.append(row)
                else:
                    left += 1
        return changed, left


class CarrierFilter(admin.SimpleListFilter):
    """By the carriers that there are: Django's own reads the whole table for its choices."""

    title = parameter_name = "carrier"
    column = "carrier"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(code, code) for code in registry.CARRIERS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.column: self.value()}) if self.value() else queryset


class AnnouncementCarrierFilter(CarrierFilter):
    column = "announcement__carrier"


class Numbered(admin.ModelAdmin):
    """Found by a number, else by text: among search_fields a number is compared as text, by no
    index."""

    number = "pk"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if is_id(search_term):
            found = queryset.filter(**{self.number: int(search_term)})
            if found.exists():
                return found, False
        return super().get_search_results(request, queryset, search_term)


class Owned(admin.ModelAdmin):
    """An account's: `kept` can't be changed once it is made, as what belongs to it is of that
    account."""

    kept: tuple[str, ...] = ("account",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[Any, ...]:
        return (*self.readonly_fields, *(self.kept if obj else ()))


class SwitchedOff(Owned):
    """Not deleted here, at most switched off: that page loads each row that belongs to it."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class AttemptInline(ReadOnly, admin.TabularInline):
    model = Attempt
    fields = ("date_created", "kind", "fence", "sent_at", "duration", "outcome", "detail",
              "carrier_id", "tracking_number", "recorded")  # fmt: skip


class AnnouncementInline(ReadOnly, admin.TabularInline):
    model = Announcement
    fields = ("reference", "carrier", "state", "tries", "sent_at", "error")
    show_change_link = True


@admin.register(Parcel)
class ParcelAdmin(Rows, Numbered):
    list_display = ("id", "account", "status", "carrier", "tracking_number", "date_created")
    list_filter = ("status", CarrierFilter, "account")
    list_select_related = ("account",)
    search_fields = ("tracking_number__exact",)
    inlines = (AnnouncementInline,)


@admin.register(Announcement)
class AnnouncementAdmin(Rows, Numbered, ReviewActions):
    list_display = ("reference", "parcel", "carrier", "state", "tries", "run_at", "error")
    list_filter = ("state", CarrierFilter)
    number = "parcel_id"
    search_fields = ("reference__exact",)
    inlines = (AttemptInline,)


@admin.register(Attempt)
class AttemptAdmin(Rows):
    list_display = ("announcement", "kind", "fence", "outcome", "duration", "date_created")
    list_filter = ("recorded",)
    list_select_related = ("announcement",)


@admin.register(SpareLabel)
class SpareLabelAdmin(Rows):
    list_display = (
        "tracking_number",
        "announcement",
        "source",
        "state",
        "tries",
        "error",
        "run_at",
    )
    list_filter = ("state", "source", AnnouncementCarrierFilter)
    list_select_related = ("announcement",)
    search_fields = ("tracking_number__exact", "announcement__reference__exact")
    actions = ("settle_by_hand",)

    def has_settle_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("parcels.settle_sparelabel")

    @admin.action(
        description="Close what was settled with the carrier by hand", permissions=["settle"]
    )
    def settle_by_hand(self, request: HttpRequest, chosen: QuerySet[SpareLabel]) -> None:
        settle = partial(review.settle_by_hand, by=request.user.get_username())
        closed, _ = self.do_to_each(request, chosen, settle, "Closed as settled by hand.")
        self.message_user(request, f"{len(closed)} closed.")


@admin.register(Document)
class DocumentAdmin(Rows):
    list_display = ("parcel", "type", "format", "date_created")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Document]:
        """Without the bytes, which no page of it shows: a list would read a hundred files."""
        return super().get_queryset(request).defer("content")


@admin.register(TrackingEvent)
class TrackingEventAdmin(Rows, Numbered):
    list_display = ("tracking_number", "carrier", "status", "message", "at")
    number = "parcel_id"
    search_fields = ("parcel__tracking_number__exact",)  # an event's own is in no index


@admin.register(SenderAddress)
class SenderAddressAdmin(Owned):
    list_display = ("account", "company_name", "contact_name", "city", "country", "brand")
    list_select_related = ("account", "brand")


@admin.register(Brand)
class BrandAdmin(Owned):
    list_display = ("account", "name", "domain", "return_portal_url")
    # Django 6 does this by default, and warns until then.
    formfield_overrides = {models.URLField: {"assume_scheme": "https"}}
    list_select_related = ("account",)


@admin.register(Integration)
class IntegrationAdmin(SwitchedOff):
    list_display = ("account", "shop_name", "system", "failing_since")
    list_select_related = ("account",)


@admin.register(Hold)
class HoldAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("id", "account", "deadline_at", "released_at")
    show_full_result_count = False


class CredentialsField(forms.JSONField):
    """Empty where nothing was typed: Django's has `null` there, and takes it for a change."""

    def prepare_value(self, value: Any) -> Any:
        return super().prepare_value(value) if value else ""


class ContractForm(forms.ModelForm):
    """Shows the names of credentials, never their values; new input replaces them."""

    carrier = forms.ChoiceField()
    credentials = CredentialsField(
        required=False, help_text="JSON object. Leave empty to keep what is stored."
    )

    class Meta:
        model = CarrierContract
        fields = ("account", "carrier", "name", "credentials", "is_default")
        # Django would show what is stored, which may be unreadable.
        exclude = ("credentials",)  # noqa: DJ006 # not instead of `fields`

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        carrier: Any = self.fields.get("carrier")  # none for those who may only look
        if carrier:
            # An old contract's carrier may be no more.
            codes = dict.fromkeys(("", *registry.CARRIERS, self.instance.carrier))
            carrier.choices = [(code, code or "---------") for code in codes]

    def _get_validation_exclusions(self) -> set[str]:
        """Leave out that there is one default: `save_model` sees to it."""
        return super()._get_validation_exclusions() | {"is_default"}  # type: ignore[misc] # it has

    def clean_credentials(self) -> Any:
        given = self.cleaned_data["credentials"]
        if given is None or given == "":
            return None
        if not isinstance(given, dict) or not all(isinstance(v, str) for v in given.values()):
            raise forms.ValidationError('A JSON object of texts is needed, like {"api_key": "…"}.')
        self.instance.credentials = {name: text.strip() for name, text in given.items()}
        return self.instance.credentials


@admin.register(CarrierContract)
class CarrierContractAdmin(SwitchedOff):
    form = ContractForm
    list_display = ("account", "carrier", "name", "is_default", "masked")
    list_filter = ("carrier",)
    readonly_fields = ("masked",)
    kept = ("account", "carrier")

    def get_fields(self, request: HttpRequest, obj: CarrierContract | None = None) -> Any:
        """Without the right to change it, Django would show what is stored."""
        fields = super().get_fields(request, obj)
        may_type = obj is None or self.has_change_permission(request, obj)
        return [name for name in fields if may_type or name != "credentials"]

    def save_model(self, request: HttpRequest, obj: CarrierContract, *args: Any) -> None:
        """Untick the former default with it: without one, labels are bought on our own account."""
        if obj.is_default:
            former = CarrierContract.objects.filter(
                account=obj.account_id, carrier=obj.carrier, is_default=True
            )
            if former.exclude(pk=obj.pk).update(is_default=False):
                self.message_user(request, f"It replaces {obj.carrier}'s former default.")
        super().save_model(request, obj, *args)

    @admin.display(description="stored credentials")
    def masked(self, contract: CarrierContract) -> str:
        try:
            return ", ".join(f"{name}: ••••••" for name in contract.credentials) or "none"
        except InvalidToken:
            return "unreadable"


class ApiKeyInline(ReadOnly, admin.TabularInline):
    model = ApiKey
    fields = ("public_key", "date_created", "revoked_at")


class AccountForm(forms.ModelForm):
    """Offers the account's own addresses."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choice: Any = self.fields.get("sender_address")  # none for those who may only look
        if choice:
            choice.queryset = SenderAddress.objects.filter(account_id=self.instance.pk)


@admin.register(Account)
class AccountAdmin(SwitchedOff):
    kept = ()
    form = AccountForm
    actions = ("issue_key",)
    list_display = ("name", "is_active", "date_created")
    inlines = (ApiKeyInline,)

    def has_issue_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("parcels.issue_apikey")

    @admin.action(description="Issue an API key", permissions=["issue"])
    def issue_key(self, request: HttpRequest, accounts: QuerySet[Account]) -> HttpResponse | None:
        """Show the pair on a page of its own: a message would leave the secret in a cookie."""
        if len(accounts) != 1:
            self.message_user(request, "Choose one account.", messages.ERROR)
            return None
        try:
            with transaction.atomic():
                key, secret = issue_key(accounts[0])
                self.log_change(request, accounts[0], f"Issued API key {key.public_key}.")
        except TooManyKeys as error:
            self.message_user(request, str(error), messages.ERROR)
            return None
        text = f"Shown only now.\n\nPublic key: {key.public_key}\nSecret key: {secret}\n"
        headers = {"Cache-Control": "no-store"}
        return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=headers)


@admin.register(ApiKey)
class ApiKeyAdmin(Rows):
    list_display = ("public_key", "account", "date_created", "revoked_at")
    list_select_related = ("account",)
    fields = ("public_key", "account", "date_created", "revoked_at")
    actions = ("revoke",)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("parcels.revoke_apikey")

    @admin.action(description="Revoke", permissions=["revoke"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        ended, _ = self.do_to_each(request, keys, revoke_key, "Revoked.")
        for key in ended:
            for text in signing_with(key):
                self.message_user(request, text, messages.WARNING)
        self.message_user(request, f"{len(ended)} revoked.")


class EndpointForm(forms.ModelForm):
    """Refuses an address that webhooks may not be sent to, as the API does."""

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        if "url" in self.changed_data:  # else one that has become so could not be switched off
            try:
                target(url, current_policy())
            except NotAllowed as error:
                raise forms.ValidationError(str(error)) from None
        return url


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(SwitchedOff):
    """The secret is neither shown nor changed here: the shop sets it by the API."""

    form = EndpointForm
    list_display = ("id", "account", "host", "is_active", "failing_since", "disabled_reason")
    list_filter = ("is_active",)
    readonly_fields = ("failures", "failing_since", "retry_at", "disabled_reason")
    fields = ("account", "url", "is_active", *readonly_fields)

    def get_object(self, request: HttpRequest, *given: Any) -> WebhookEndpoint | None:
        """Lock it where it is changed: the form writes all its columns, also those it has read."""
        found = super().get_object(request, *given)
        if found is None or not transaction.get_connection().in_atomic_block:  # only looked at
            return found
        return WebhookEndpoint.objects.select_for_update().filter(pk=found.pk).first()

    def save_model(self, request: HttpRequest, obj: WebhookEndpoint, *args: Any) -> None:
        """Try it again after a change, as the API does; its links begin as this page's address."""
        obj.base_url = obj.base_url or request.build_absolute_uri("/").rstrip("/")
        if obj.is_active:
            obj.forget_failures()
        super().save_model(request, obj, *args)


class WebhookAttemptInline(ReadOnly, admin.TabularInline):
    model = WebhookAttempt
    fields = ("date_created", "duration", "status", "error")


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(Rows):
    list_display = ("id", "endpoint", "event", "state", "tries", "last_status", "last_error")
    list_filter = ("state",)
    list_select_related = ("endpoint", "event")
    inlines = (WebhookAttemptInline,)
    actions = ("send_again",)

    def has_resend_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("parcels.resend_webhookdelivery")

    @admin.action(description="Send again", permissions=["resend"])
    def send_again(self, request: HttpRequest, deliveries: QuerySet[WebhookDelivery]) -> None:
        sent, left = self.do_to_each(request, deliveries, webhooks.send_again, "Sent again.")
        self.message_user(request, f"{len(sent)} will be sent again.")
        if left:
            text = f"{left} will not: their webhooks are switched off."
            self.message_user(request, text, messages.WARNING)


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnly, admin.ModelAdmin):
    """What operators have done, here and on the operator's pages."""

    list_display = ("action_time", "user", "content_type", "object_repr", "get_change_message")
    list_filter = ("content_type",)
    list_select_related = ("user", "content_type")
    search_fields = ("object_id__exact", "user__username__exact")
    show_full_result_count = False
