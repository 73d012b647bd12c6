"""The operator's view of what is stored. Secrets are masked."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

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
from parcels.review_admin import ReviewActions
from parcels.services import review, webhooks
from parcels.services.keys import TooManyKeys, issue_key, revoke_key
from parcels.throttling.limits import NONE, parse_limits


class ReadOnly:
    """The protocol writes these rows; a hand that edits them breaks what it promises."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class AttemptInline(ReadOnly, admin.TabularInline):
    model = Attempt
    readonly_fields = ("date_created",)  # it is set by itself, which no form may do
    fields = ("date_created", "kind", "fence", "sent_at", "duration", "outcome", "detail",
              "carrier_id", "tracking_number", "recorded")  # fmt: skip


class AnnouncementInline(ReadOnly, admin.TabularInline):
    model = Announcement
    fields = ("reference", "carrier", "state", "tries", "sent_at", "error")
    show_change_link = True


@admin.register(Parcel)
class ParcelAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("id", "account", "status", "carrier", "tracking_number", "date_created")
    list_filter = ("status", "carrier", "account")
    list_select_related = ("account",)
    search_fields = ("=id", "=tracking_number", "=order_number", "=external_reference")
    inlines = (AnnouncementInline,)
    show_full_result_count = False
    ordering = ("-id",)


@admin.register(Announcement)
class AnnouncementAdmin(ReadOnly, ReviewActions):
    list_display = ("reference", "parcel", "carrier", "state", "tries", "run_at", "error")
    list_filter = ("state", "carrier")
    search_fields = ("=reference", "=parcel__id", "=carrier_id")
    inlines = (AttemptInline,)
    show_full_result_count = False
    ordering = ("-id",)


@admin.register(Attempt)
class AttemptAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("announcement", "kind", "fence", "outcome", "duration", "date_created")
    list_filter = ("kind", "outcome", "recorded")
    list_select_related = ("announcement",)
    show_full_result_count = False
    ordering = ("-id",)


@admin.register(SpareLabel)
class SpareLabelAdmin(ReadOnly, admin.ModelAdmin):
    list_display = (
        "tracking_number",
        "announcement",
        "source",
        "state",
        "tries",
        "error",
        "run_at",
    )
    list_filter = ("state", "source", "announcement__carrier")
    list_select_related = ("announcement",)
    search_fields = ("=tracking_number", "=announcement__reference")
    ordering = ("-id",)
    actions = ("settle_by_hand",)

    @admin.action(description="Close what was settled with the carrier by hand")
    def settle_by_hand(self, request: HttpRequest, chosen: QuerySet[SpareLabel]) -> None:
        closed = review.settle_by_hand(chosen, by=request.user.get_username())
        self.message_user(request, f"{closed} closed.")


@admin.register(Document)
class DocumentAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("parcel", "type", "format", "date_created")
    show_full_result_count = False
    ordering = ("-id",)


@admin.register(TrackingEvent)
class TrackingEventAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("tracking_number", "carrier", "status", "message", "at")
    search_fields = ("=tracking_number", "=parcel__id")
    show_full_result_count = False
    ordering = ("-id",)


@admin.register(SenderAddress)
class SenderAddressAdmin(admin.ModelAdmin):
    list_display = ("account", "company_name", "contact_name", "city", "country", "brand")
    list_select_related = ("account", "brand")


@admin.register(Brand)
class BrandAdmin(admin.ModelAdmin):
    list_display = ("account", "name", "domain", "return_portal_url")
    list_select_related = ("account",)


@admin.register(Integration)
class IntegrationAdmin(admin.ModelAdmin):
    list_display = ("account", "shop_name", "system", "failing_since")
    list_select_related = ("account",)


@admin.register(Hold)
class HoldAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("id", "account", "deadline_at", "released_at")
    show_full_result_count = False


class ContractForm(forms.ModelForm):
    """Shows which credentials there are, never their values; what is typed replaces them."""

    credentials = forms.JSONField(
        required=False, help_text="JSON object. Leave empty to keep what is stored."
    )

    class Meta:
        model = CarrierContract
        fields = ("account", "carrier", "name", "credentials", "is_default")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["credentials"] = None

    def clean_credentials(self) -> Any:
        given = self.cleaned_data["credentials"]
        if given is None or given == "":
            return self.instance.credentials if self.instance.pk else {}
        if not isinstance(given, dict):
            raise forms.ValidationError("A JSON object is needed.")
        return given


@admin.register(CarrierContract)
class CarrierContractAdmin(admin.ModelAdmin):
    form = ContractForm
    list_display = ("account", "carrier", "name", "is_default", "masked")
    list_filter = ("carrier",)
    readonly_fields = ("masked",)

    @admin.display(description="stored credentials")
    def masked(self, contract: CarrierContract) -> str:
        return ", ".join(f"{name}: ••••••" for name in contract.credentials) or "none"


class ApiKeyInline(ReadOnly, admin.TabularInline):
    model = ApiKey
    fields = ("public_key", "date_created", "revoked_at")


class AccountForm(forms.ModelForm):
    """Offers the account's own addresses; refuses limits that the throttle could not read."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = SenderAddress.objects.filter(account_id=self.instance.pk)
        self.fields["sender_address"].queryset = own  # type: ignore[attr-defined] # a choice has one

    def clean(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().clean() or {}
        for name in ("read_limit", "write_limit"):
            try:
                parse_limits(fields.get(name) or NONE)
            except ValueError as error:
                self.add_error(name, str(error))
        return fields


@admin.register(Account)
class AccountAdmin(admin.ModelAdmin):
    form = AccountForm
    actions = ("issue_key",)
    list_display = ("name", "is_active", "date_created")
    inlines = (ApiKeyInline,)

    @admin.action(description="Issue a second API key")
    def issue_key(self, request: HttpRequest, accounts: QuerySet[Account]) -> HttpResponse | None:
        """Show the pair on a page of its own: a message would leave the secret in a cookie."""
        if len(accounts) != 1:
            self.message_user(request, "Choose one account.", messages.ERROR)
            return None
        try:
            key, secret = issue_key(accounts[0])
        except TooManyKeys as error:
            self.message_user(request, str(error), messages.ERROR)
            return None
        text = f"Shown only now.\n\nPublic key: {key.public_key}\nSecret key: {secret}\n"
        headers = {"Cache-Control": "no-store"}
        return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=headers)


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("public_key", "account", "date_created", "revoked_at")
    list_select_related = ("account",)
    fields = ("public_key", "account", "date_created", "revoked_at")
    actions = ("revoke",)

    @admin.action(description="Revoke")
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        ended = sum(revoke_key(key) for key in keys)
        self.message_user(request, f"{ended} revoked.")


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(admin.ModelAdmin):
    """The secret is neither shown nor changed here: the shop sets it by the API."""

    list_display = ("id", "account", "url", "is_active", "failing_since", "disabled_reason")
    list_filter = ("is_active",)
    readonly_fields = ("failures", "failing_since", "retry_at", "disabled_reason")
    fields = ("account", "url", "is_active", *readonly_fields)

    def save_model(self, request: HttpRequest, obj: WebhookEndpoint, *args: Any) -> None:
        """Try it anew after a change, as the API does."""
        if obj.is_active:
            obj.forget_failures()
        super().save_model(request, obj, *args)


class WebhookAttemptInline(ReadOnly, admin.TabularInline):
    model = WebhookAttempt
    fields = ("date_created", "duration", "status", "error")


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("id", "endpoint", "event", "state", "tries", "last_status", "last_error")
    list_filter = ("state",)
    list_select_related = ("endpoint", "event")
    inlines = (WebhookAttemptInline,)
    actions = ("send_again",)
    show_full_result_count = False
    ordering = ("-id",)

    @admin.action(description="Send again")
    def send_again(self, request: HttpRequest, deliveries: QuerySet[WebhookDelivery]) -> None:
        for delivery in deliveries:
            webhooks.send_again(delivery)
        self.message_user(request, f"{len(deliveries)} will be sent again.")
