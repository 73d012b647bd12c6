"""Every carrier there is: the modules of `carriers.adapters` that define `carrier`.

Adding a carrier is adding a file there; nothing else lists them.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import MappingProxyType, ModuleType

from carriers import adapters
from carriers.base import Carrier
from carriers.methods import ShippingMethod

__all__ = ["SHIPPING_METHODS", "all_carriers", "carrier", "find", "shipping_method"]


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


@cache
def _carriers() -> MappingProxyType[str, Carrier]:
    return MappingProxyType(find(adapters))


def carrier(code: str) -> Carrier:
    """Return the adapter of a code; KeyError where there is none."""
    return _carriers()[code]


def all_carriers() -> tuple[Carrier, ...]:
    """Return every adapter, ordered by module name."""
    return tuple(_carriers().values())


def _catalogue() -> dict[int, ShippingMethod]:
    methods = [method for adapter in all_carriers() for method in adapter.methods]
    by_id = {method.id: method for method in sorted(methods, key=lambda method: method.id)}
    if len(by_id) != len(methods):
        raise ValueError("two shipping methods share an id")
    return by_id


SHIPPING_METHODS = MappingProxyType(_catalogue())


def shipping_method(method_id: int) -> ShippingMethod:
    """Return a shipping method; KeyError where there is none."""
    return SHIPPING_METHODS[method_id]
