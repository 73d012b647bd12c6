"""A pytest fixture; known by itself where the package is installed."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def offload_eager() -> Iterator[Any]:
    """Have tasks done at once, and holds answered with what was released."""
    from offload.testing import eager

    with eager() as stand_in:
        yield stand_in
