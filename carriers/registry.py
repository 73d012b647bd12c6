"""Every carrier there is: the modules of `carriers.adapters` that define `carrier`.

Adding a carrier is adding a file there; nothing else lists them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from types import MappingProxyType, ModuleType

from carriers import adapters
from carriers.base import Carrier
from carriers.methods import ShippingMethod


def find(package: ModuleType) -> dict[str, Carrier]:
    """Walk a package and return its adapters by code, which is the file's name."""
    found: dict[str, Carrier] = {}
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        if info.ispkg:
            continue  # tests
        adapter = importlib.import_module(f"{package.__name__}.{info.name}").carrier
        if adapter.code != info.name:
            raise ValueError(f"the adapter in {info.name}.py calls itself {adapter.code!r}")
        found[adapter.code] = adapter
    return found


def _catalogue() -> dict[int, ShippingMethod]:
    methods = [method for adapter in CARRIERS.values() for method in adapter.methods]
    by_id = {method.id: method for method in sorted(methods, key=lambda method: method.id)}
    if len(by_id) != len(methods):
        raise ValueError("two shipping methods share an id")
    return by_id


# Ordered by code, which is the module's name, and by id.
CARRIERS = MappingProxyType(find(adapters))
SHIPPING_METHODS = MappingProxyType(_catalogue())
# How each can be asked again; not at all where the adapter was removed, and rows are left.
REPEATS = defaultdict(lambda: "none", {each.code: each.repeats for each in CARRIERS.values()})
