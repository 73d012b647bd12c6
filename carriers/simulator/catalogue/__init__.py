"""The carriers, each a file that defines `spec` and is named after its code.

Prices are plausible list prices; what matters is that a wrong purchase costs something, and that
those of two carriers never add up to the same sum by chance.
"""

import importlib
import pkgutil

from carriers.simulator.spec import CarrierSpec


def _found() -> dict[str, CarrierSpec]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").spec for name in names}


CATALOGUE = _found()
