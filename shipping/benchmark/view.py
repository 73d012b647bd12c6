"""What Django REST Framework takes for the same row, with nothing of ours around it."""

from __future__ import annotations

from typing import cast

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from parcels.models import Account, Parcel


class BareSerializer(serializers.ModelSerializer):
    """The fields that the load sends, as the framework makes them from the model."""

    class Meta:
        model = Parcel
        fields = (
            *("id", "name", "address", "house_number", "city", "postal_code", "country"),
            *("email", "weight", "shipping_method", "order_number"),
        )


class BareView(APIView):
    """Authenticate, validate, insert, answer: no announcement, no wake-up, no dialect."""

    throttle_classes = ()

    def post(self, request: Request) -> Response:
        serializer = BareSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        serializer.save(account=cast(Account, request.user))
        return Response(serializer.data)
