"""Charts and choices of a page as JSON for its script, with texts and rows packed so that pages stay small."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeGuard

from sae.report.content import Chart, Figure
from sae.report.figures.theme import ON_PAGE, Spec, SpecValue, chart_config, layers_of, on_page, part_of
from sae.report.picker import Picker


def figure_data(figures: Iterable[Figure], pickers: Iterable[Picker] = ()) -> str:
    """Return all charts, their theme and what can be chosen as JSON that is safe inside a script element."""
    below = chart_config(ON_PAGE, legend={"orient": "bottom", "direction": "horizontal"})
    config = {**below, "padding": {"left": 0, "right": 4, "top": 4, "bottom": 6}}
    texts = Texts()
    charts = {figure.name: [pack_spec(page_spec(panel), texts) for panel in figure.panels] for figure in figures}
    chosen = {item.name: {**item.to_json(), "packed": pack_rows(item.rows, texts)} for item in pickers}
    data = {"config": config, "texts": texts.listed(), "figures": charts, "pickers": chosen}
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def page_spec(panel: Chart) -> dict[str, SpecValue]:
    """Return the specification of a panel in the colours of the page, as wide as its place."""
    spec = panel.to_dict(validate=False)  # the same, and a third of the time; browsers draw every figure in tests
    for unneeded in ("$schema", "config", "usermeta"):
        spec.pop(unneeded, None)
    width: Spec = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    return on_page({**_without_legend_places(spec), **width})


def _without_legend_places(spec: Spec) -> Spec:
    """Remove the places of legends: a page puts them below the plots, where they take no width."""
    return {key: item if key in ("data", "datasets") else _without_place(key, item) for key, item in spec.items()}


def _without_place(key: str, value: SpecValue) -> SpecValue:
    if isinstance(value, list):
        return [_without_place("", item) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept = _without_legend_places(value)
    return {inner: item for inner, item in kept.items() if inner != "orient"} if key == "legend" else kept


class Texts:
    """The texts of a page, each with a number.

    Example:
        >>> texts = Texts()
        >>> texts.number("a"), texts.number("b"), texts.number("a"), texts.listed()
        (0, 1, 0, ['a', 'b'])
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text, a new one for a new text."""
        return self._numbers.setdefault(text, len(self._numbers))

    def listed(self) -> list[str]:
        """Return all texts in the order of their numbers."""
        return list(self._numbers)


def pack_spec(spec: Spec, texts: Texts) -> dict[str, SpecValue]:
    """Pack the rows of a chart's specification and of its layers."""
    packed = dict(spec)
    values = part_of(spec, "data").get("values")
    if values and _are_flat_rows(values):
        packed["data"] = {"packed": pack_rows(values, texts)}
    if "layer" in spec:
        packed["layer"] = [pack_spec(layer, texts) for layer in layers_of(spec)]
    return packed


def pack_rows(rows: Sequence[Spec], texts: Texts) -> dict[str, SpecValue]:
    """Pack rows as lists of cells: a text becomes a list with its number, a missing field an empty list.

    Example:
        >>> pack_rows([{"x": 1, "label": "a"}, {"x": 2}], Texts())
        {'fields': ['x', 'label'], 'rows': [[1, [0]], [2, []]]}
    """
    fields = list(dict.fromkeys(chain.from_iterable(rows)))
    packed: list[SpecValue] = [
        [[texts.number(value)] if isinstance(value := row.get(field, []), str) else value for field in fields]
        for row in rows
    ]
    return {"fields": fields, "rows": packed}


def _are_flat_rows(values: SpecValue) -> TypeGuard[list[Spec]]:
    """Return whether values are rows of numbers and texts only, without lists or mappings."""
    return isinstance(values, list) and all(
        isinstance(row, dict) and not any(isinstance(cell, list | dict) for cell in row.values()) for row in values
    )
