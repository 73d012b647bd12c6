"""Routes under `/operator/`."""

from django.urls import path
from django.views.generic import RedirectView

from parcels.views import operator

app_name = "operator"
_PARCEL = "parcels/<int:parcel_id>"

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="operator:parcels"), name="start"),
    path("parcels", operator.parcel_list, name="parcels"),
    path(_PARCEL, operator.parcel_page, name="parcel"),
    path(f"{_PARCEL}/label.png", operator.label_picture, name="label"),
    path(f"{_PARCEL}/webhooks/<int:delivery_id>/again", operator.send_again, name="send_again"),
    path("review", operator.review_list, name="review"),
]
