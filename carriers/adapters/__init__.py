"""The carriers, each a file that defines `carrier` and is named after its code."""

import pkgutil

# Known without importing one: settings and the supervisor need no more.
CODES = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
