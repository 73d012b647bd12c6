"""Shop systems that are connected to the account, each with its webhook."""

import base64

from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.authentication import get_authorization_header
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from parcels import limits
from parcels.fields import Text, optional
from parcels.models import Integration
from parcels.query import identifier
from parcels.services.integrations import change_integration, delete_integration
from parcels.shop import integration_payload
from parcels.views.request import account_of, base_url
from parcels.views.webhooks import ReceiverUrl, signing_secret

NO_SERVICE_POINTS = "There are no service points here."


class IntegrationIn(serializers.Serializer):
    """What of an integration may be changed. `webhook_signature_key` is ours."""

    shop_name = Text()
    shop_url = optional()
    service_point_enabled = serializers.BooleanField(required=False)
    service_point_carriers = serializers.ListField(
        required=False, max_length=0, error_messages={"max_length": NO_SERVICE_POINTS}
    )
    webhook_active = serializers.BooleanField(required=False)
    webhook_url = ReceiverUrl(required=False, max_length=limits.WEBHOOK_URL)
    webhook_signature_key = signing_secret()

    def validate_service_point_enabled(self, enabled: bool) -> bool:
        """Refuse to promise what is not there."""
        if enabled:
            raise ValidationError(NO_SERVICE_POINTS)
        return enabled


class IntegrationsView(APIView):
    """`/integrations`"""

    def get(self, request: Request) -> Response:
        """List the shop systems that are connected; a bare array."""
        integrations = account_of(request).integrations.select_related("webhook")
        return Response([integration_payload(integration) for integration in integrations])


class IntegrationView(APIView):
    """`/integrations/{id}`"""

    def get(self, request: Request, integration_id: str) -> Response:
        """Show an integration; without an envelope, as the dialect does."""
        return Response(integration_payload(_integration(request, integration_id)))

    def put(self, request: Request, integration_id: str) -> Response:
        """Change an integration; it must be named, and what else is missing stays."""
        return _change(request, integration_id, partial=False)

    def patch(self, request: Request, integration_id: str) -> Response:
        """Change what is given of an integration."""
        return _change(request, integration_id, partial=True)

    def delete(self, request: Request, integration_id: str) -> Response:
        """Forget an integration with its webhook."""
        delete_integration(_integration(request, integration_id).pk)
        return Response(status=204)


def _change(request: Request, integration_id: str, *, partial: bool) -> Response:
    integration = _integration(request, integration_id)
    fields = IntegrationIn(partial=partial).run_validation(request.data)
    pair = base64.b64decode(get_authorization_header(request).split()[1]).decode()
    change_integration(
        integration_id=integration.pk,
        fields=fields,
        secret_key=pair.partition(":")[2],
        base_url=base_url(request),
    )
    return Response(integration_payload(_integration(request, integration_id)))


def _integration(request: Request, integration_id: str) -> Integration:
    mine = account_of(request).integrations.select_related("webhook")
    return get_object_or_404(mine, pk=identifier(integration_id))
