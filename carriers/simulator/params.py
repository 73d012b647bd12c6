"""Reading JSON parameters so that a wrong one is named, never ignored."""

from __future__ import annotations

from collections.abc import Mapping


class BadParams(Exception):
    """A parameter is unknown or out of its range; the message names it."""


class Params:
    """Hands out declared parameters one by one, and keeps what was taken in `values`."""

    def __init__(self, given: object) -> None:
        if not isinstance(given, Mapping):
            raise BadParams("expected a JSON object")
        self._given = dict(given)
        self.values: dict[str, object] = {}

    def has(self, name: str) -> bool:
        """Return whether a parameter was given."""
        return name in self._given

    def number(self, name: str, default: float, *, low: float = 0.0, high: float) -> float:
        """Return a number in [low, high]."""
        value = self._given.get(name, default)
        # bool is an int to Python, not to a person; NaN fails the comparison.
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise BadParams(f"{name}: must be a number from {low:g} to {high:g}")
        self.values[name] = value
        return float(value)

    def optional(self, name: str, *, high: float) -> float | None:
        """Return a number over 0, or None where it isn't given."""
        if self._given.get(name) is None:
            self.values[name] = None
            return None
        number = self.number(name, 0, high=high)
        if not number:
            raise BadParams(f"{name}: must be over 0; leave it away for no end")
        return number

    def whole(self, name: str, default: int, *, low: int, high: int) -> int:
        """Return a whole number in [low, high]."""
        number = self.number(name, default, low=low, high=high)
        if not number.is_integer():
            raise BadParams(f"{name}: must be a whole number")
        return int(number)

    def optional_whole(self, name: str, *, low: int, high: int) -> int | None:
        """Return a whole number in [low, high], or None where it isn't given."""
        if self._given.get(name) is None:
            self.values[name] = None
            return None
        return self.whole(name, low, low=low, high=high)

    def choice(self, name: str, default: str, known: tuple[str, ...]) -> str:
        """Return one of the known words."""
        value = self._given.get(name, default)
        if value not in known:
            raise BadParams(f"{name}: must be one of {', '.join(known)}")
        self.values[name] = value
        return str(value)

    def inner(self, name: str) -> Params:
        """Return the parameters in the object `name`, empty where it isn't given."""
        value = self._given.get(name, {})
        if not isinstance(value, Mapping):
            raise BadParams(f"{name}: must be an object")
        self.values[name] = dict(value)
        return Params(value)

    def finish(self) -> None:
        """Refuse parameters that were not declared."""
        unknown = sorted(set(self._given) - set(self.values))
        if unknown:
            known = ", ".join(self.values)
            raise BadParams(f"unknown: {', '.join(map(str, unknown))}; known: {known}")
