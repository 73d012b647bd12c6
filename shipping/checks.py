"""A wrong setting is a system check with an id and a hint."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from carriers import registry


@register
def check_lease(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """The call must end well inside its lease, or two workers own one announcement."""
    if settings.CARRIER_CALL_DEADLINE * 2 <= settings.ANNOUNCEMENT_LEASE:
        return []
    return [
        Error(
            "ANNOUNCEMENT_LEASE is shorter than twice CARRIER_CALL_DEADLINE.",
            hint="Leave ANNOUNCEMENT_LEASE unset: it is 2.5 times the deadline then.",
            id="shipping.E001",
        )
    ]


@register
def check_carriers(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Each carrier with an adapter needs an address."""
    missing = [c.code for c in registry.all_carriers() if c.code not in settings.CARRIERS]
    return [
        Error(
            f"The carrier {code} has an adapter and no address.",
            hint=f"Set CARRIER_URL_{code.upper()}.",
            id="shipping.E002",
        )
        for code in missing
    ]


@register
def check_waits(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """The default wait can't be over the maximum."""
    if settings.WAIT_DEFAULT <= settings.WAIT_MAXIMUM:
        return []
    return [
        Error(
            "WAIT_DEFAULT is over WAIT_MAXIMUM.",
            hint="Lower WAIT_DEFAULT or raise WAIT_MAXIMUM.",
            id="shipping.E003",
        )
    ]
