"""Every carrier there is: the modules of `carriers.adapters` that define `carrier`.

Adding a carrier is adding a file there; nothing else lists them.
"""

import importlib
from collections import defaultdict
from types import MappingProxyType

from carriers import adapters
from carriers.base import Carrier
from carriers.methods import ShippingMethod


def load(code: str) -> Carrier:
    """Return the adapter in the file of this name."""
    adapter: Carrier = importlib.import_module(f"{adapters.__name__}.{code}").carrier
    if adapter.code != code:
        raise ValueError(f"the adapter in {code}.py calls itself {adapter.code!r}")
    return adapter


def _catalogue() -> dict[int, ShippingMethod]:
    methods = [method for adapter in CARRIERS.values() for method in adapter.methods]
    by_id = {method.id: method for method in sorted(methods, key=lambda method: method.id)}
    if len(by_id) != len(methods):
        raise ValueError("two shipping methods share an id")
    return by_id


# Ordered by code, and by id.
CARRIERS = MappingProxyType({code: load(code) for code in adapters.CODES})
SHIPPING_METHODS = MappingProxyType(_catalogue())
# How each can be asked again; not at all where the adapter was removed, and rows are left.
REPEATS = defaultdict(lambda: "none", {each.code: each.repeats for each in CARRIERS.values()})
