"""Webhooks: an account's endpoints, what became of each delivery, send again."""

from typing import Any

from django.core.validators import RegexValidator
from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from parcels import limits
from parcels.fields import BLANK, Text
from parcels.models import WebhookDelivery, WebhookEndpoint
from parcels.query import identifier
from parcels.representation import dialect_date
from parcels.services import webhooks
from parcels.views.request import account_of, base_url
from parcels.webhooks.addresses import NotAllowed, current_policy, target

# The newest; older ones are the operator's to find.
DELIVERIES_SHOWN = 100


class ReceiverUrl(Text):
    """An address that webhooks may be sent to. Its name is resolved when they are."""

    def to_internal_value(self, data: Any) -> str:
        url: str = super().to_internal_value(data)
        try:
            target(url, current_policy())
        except NotAllowed as error:
            raise ValidationError(str(error)) from None
        return url


def signing_secret() -> Text:
    """Return an optional secret of at least the shortest safe length."""
    return Text(
        required=False,
        allow_null=False,
        allow_blank=False,
        trim_whitespace=False,
        validators=[RegexValidator(r"\S", BLANK)],
        min_length=limits.WEBHOOK_SECRET_MINIMUM,
    )


class EndpointIn(serializers.Serializer):
    """An endpoint to make or change."""

    url = ReceiverUrl(max_length=limits.WEBHOOK_URL)
    active = serializers.BooleanField(required=False)
    secret = signing_secret()


class EndpointsView(APIView):
    """`/webhooks`"""

    def get(self, request: Request) -> Response:
        """List the account's endpoints."""
        endpoints = WebhookEndpoint.objects.filter(account=account_of(request)).order_by("id")
        return Response({"webhooks": [endpoint_payload(endpoint) for endpoint in endpoints]})

    def post(self, request: Request) -> Response:
        """Register an endpoint. Its signing secret is in this answer and never shown again."""
        fields = _read(request)
        endpoint = webhooks.create_endpoint(
            account=account_of(request),
            url=fields["url"],
            secret=fields.get("secret"),
            is_active=fields.get("active", True),
            base_url=base_url(request),
        )
        return Response({"webhook": endpoint_payload(endpoint) | {"secret": endpoint.secret}})


class EndpointView(APIView):
    """`/webhooks/{id}`"""

    def get(self, request: Request, webhook_id: str) -> Response:
        """Show an endpoint."""
        return Response({"webhook": endpoint_payload(_endpoint(request, webhook_id))})

    def put(self, request: Request, webhook_id: str) -> Response:
        """Change what is given of an endpoint."""
        endpoint = _endpoint(request, webhook_id)
        fields = _read(request, partial=True)
        endpoint = webhooks.update_endpoint(
            endpoint=endpoint,
            url=fields.get("url"),
            secret=fields.get("secret"),
            is_active=fields.get("active"),
        )
        return Response({"webhook": endpoint_payload(endpoint)})

    def delete(self, request: Request, webhook_id: str) -> Response:
        """Forget an endpoint and its deliveries."""
        webhooks.delete_endpoint(_endpoint(request, webhook_id).pk)
        return Response(status=204)


class DeliveriesView(APIView):
    """`/webhooks/{id}/deliveries`"""

    def get(self, request: Request, webhook_id: str) -> Response:
        """List the newest hundred deliveries, newest first, each with its tries."""
        deliveries = (
            WebhookDelivery.objects.filter(endpoint=_endpoint(request, webhook_id))
            .select_related("event")
            .prefetch_related("attempts")
            .order_by("-id")[:DELIVERIES_SHOWN]
        )
        return Response({"deliveries": [delivery_payload(delivery) for delivery in deliveries]})


class SwitchedOff(APIException):
    status_code = 409
    default_detail = "The webhook is switched off."


class ResendView(APIView):
    """`/webhooks/deliveries/{id}/resend`"""

    def post(self, request: Request, delivery_id: str) -> Response:
        """Send a delivery again, whatever became of it; not to an endpoint that is off."""
        mine = WebhookDelivery.objects.filter(endpoint__account=account_of(request))
        delivery = get_object_or_404(mine.select_related("event"), pk=identifier(delivery_id))
        if not webhooks.send_again(delivery):
            raise SwitchedOff
        return Response({"delivery": delivery_payload(delivery)}, status=202)


def _read(request: Request, *, partial: bool = False) -> dict[str, Any]:
    data = request.data.get("webhook") if isinstance(request.data, dict) else None
    if data is None:
        raise ValidationError({"webhook": ["This field is required."]})
    return EndpointIn(partial=partial).run_validation(data)


def _endpoint(request: Request, webhook_id: str) -> WebhookEndpoint:
    mine = WebhookEndpoint.objects.filter(account=account_of(request))
    return get_object_or_404(mine, pk=identifier(webhook_id))


def endpoint_payload(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Return an endpoint without its secret."""
    return {
        "id": endpoint.pk,
        "url": endpoint.url,
        "active": endpoint.is_active,
        "failing_since": dialect_date(endpoint.failing_since),
        "disabled_reason": endpoint.disabled_reason,
        "date_created": dialect_date(endpoint.date_created),
    }


def delivery_payload(delivery: WebhookDelivery) -> dict[str, Any]:
    """Return what became of a delivery. `event` is what the receiver got as `webhook-id`."""
    pending = delivery.state == "pending"
    return {
        "id": delivery.pk,
        "event": str(delivery.event_id),
        "action": delivery.event.action,
        "parcel": delivery.event.parcel_id,
        "status": delivery.event.status,
        "state": delivery.state,
        "tries": delivery.tries,
        "last_status": delivery.last_status,
        "last_error": delivery.last_error,
        "next_try_at": dialect_date(delivery.run_at) if pending else None,
        "delivered_at": dialect_date(delivery.delivered_at),
        "attempts": [
            {
                "at": dialect_date(attempt.date_created),
                "duration": attempt.duration,
                "status": attempt.status,
                "error": attempt.error,
            }
            for attempt in delivery.attempts.all()
        ],
    }
