"""One colour per strategy, the same in all charts; the family shows in the line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

HELD = "is held by a front"
# Of middle lightness: they stand on white and on black. Held strategies are cool, solid lines,
# waiting ones warm, dashed.
_COOL = ("#0072b2", "#009e73", "#56b4e9", "#5b6ee1", "#2e9e3e", "#00a5a5", "#4f8f8b")
_WARM = (
    "#d55e00",
    "#e69f00",
    "#cc79a7",
    "#c0392b",
    "#a0693d",
    "#9467bd",
    "#e377c2",
    "#b8a000",
    "#ff7f50",
    "#8a8a8a",
)


def colours(strategies: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a colour for each of (strategy, family), by the order of their names."""
    chosen: dict[str, str] = {}
    ordered = sorted(set(strategies))
    for held in (True, False):
        names = [name for name, family in ordered if (family == HELD) == held]
        chosen |= _of(names, _COOL if held else _WARM)
    return chosen


def _of(names: Sequence[str], palette: Sequence[str]) -> dict[str, str]:
    return {name: palette[index % len(palette)] for index, name in enumerate(names)}
