"""The four wire formats; README.md is their description."""

from carriers.simulator.shapes.json_items import JsonItems
from carriers.simulator.shapes.json_label import JsonLabel
from carriers.simulator.shapes.shape import Shape
from carriers.simulator.shapes.soap import Soap
from carriers.simulator.shapes.two_step import TwoStep

SHAPES: dict[str, type[Shape]] = {
    "json_label": JsonLabel,
    "json_items": JsonItems,
    "soap": Soap,
    "two_step": TwoStep,
}
