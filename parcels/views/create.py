"""Make parcels: from a request's body to orders."""

from typing import Any

from django.http import HttpResponse
from rest_framework.exceptions import ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.serializers import as_serializer_error
from rest_framework.views import APIView

from parcels import limits
from parcels.json_values import check_sizes
from parcels.selectors import Owned
from parcels.serializers import PARCEL_IN
from parcels.services.accept import Mode, Order, ReferenceTaken, create_parcels, order_of
from parcels.services.answering import replay
from parcels.services.holds import Asked
from parcels.services.idempotency import find, read_key
from parcels.services.sort_out import sort_out
from parcels.views.request import account_of, asked, count


class CreateView(APIView):
    """The POST of `/parcels`."""

    def post(self, request: Request) -> HttpResponse:
        """Create one parcel or several.

        Raises:
            ValidationError: the body has neither form, or is empty or too long.
        """
        key = read_key(request) if "Idempotency-Key" in request.headers else None
        if key and (known := find(account_of(request), key)):
            if more := len(request.body) // limits.PARCEL:  # the answer is kept as the first one's
                count(account_of(request), "write", charge=more)
            return replay(asked=asked(request), row=known)
        if not isinstance(data := request.data, dict):
            raise ValidationError("The body must be a JSON object.")
        many = "parcels" in data
        if not many and "parcel" not in data:
            raise ValidationError({"parcel": ["This field is required."]})
        bodies = data["parcels"] if many else [data["parcel"]]
        if not isinstance(bodies, list) or not bodies:
            raise ValidationError({"parcels": ["A list with at least one parcel is needed."]})
        if len(bodies) > limits.PARCELS:
            raise ValidationError({"parcels": [f"At most {limits.PARCELS} parcels at once."]})
        if (length := len(request.body)) > limits.ITEMS_IN_ALL:  # no shorter one is over a limit
            check_sizes(bodies, length)
        how = asked(request, many=many)
        orders, failed = read_orders(how, bodies)
        if (asked_for := sum(order.colli for order in orders) + len(failed)) > 1:
            count(how.account, "write", charge=asked_for - 1)
        while True:
            try:
                return create_parcels(asked=how, orders=orders, failed=failed, key=key)
            except ReferenceTaken:  # by another request, since they were sorted out
                if not (many and how.question.errors == "verbose"):
                    raise
                orders, failed = read_orders(how, bodies)


def read_orders(how: Asked, bodies: list[Any]) -> tuple[list[Order], list[dict[str, Any]]]:
    """Validate each parcel; return the good ones, and the others with their errors.

    Raises:
        ValidationError: one is invalid, and the client didn't ask for each one's errors; they make
            too many parcels, or several to announce in the form for one.
    """
    verbose = how.question.many and how.question.errors == "verbose"
    orders: list[Order] = []
    owned = Owned(how.account)
    known: dict[str, list[Any]] = {}
    failed: list[dict[str, Any]] = []
    for body in bodies:
        try:
            order = order_of(PARCEL_IN.run_validation(body))
            if verbose:
                sort_out(order, owned, known)
            orders.append(order)
        except ValidationError as error:
            if not verbose:
                raise
            failed.append({"parcel": body, "errors": as_serializer_error(error)})
    if failed:
        JSONRenderer().render(failed)  # what can't be sent back fails before anything is stored
    if sum(order.colli for order in orders) > limits.PARCELS:
        raise ValidationError({"quantity": [f"At most {limits.PARCELS} parcels at once."]})
    if not how.question.many and orders[0].colli > 1 and orders[0].mode is not Mode.STORE:
        message = "Several colli are announced in the form {'parcels': [...]}."
        raise ValidationError({"quantity": [message]})
    return orders, failed
