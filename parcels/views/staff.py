"""Who may open an operator's page."""

from collections.abc import Callable
from typing import Any

from django.contrib.admin.views.decorators import staff_member_required
from django.contrib.auth.decorators import permission_required
from django.http.response import HttpResponseBase

View = Callable[..., HttpResponseBase]


def staff_with(permission: str) -> Callable[[View], Any]:
    """Admit staff that has the permission: other staff gets a 403, others the login."""

    def admit(view: View) -> Any:
        return staff_member_required(permission_required(permission, raise_exception=True)(view))

    return admit
