"""One file per kind of fault. A file that is put here is found: nothing else lists them."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    if not _module.ispkg:
        importlib.import_module(f"{__name__}.{_module.name}")
