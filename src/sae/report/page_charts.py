"""Charts as JSON inside the page.

The panels of a figure show the same networks, each with the command that trains it. To keep pages small, field names
are written once per chart and texts once per page; page.js unpacks them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sae.report.content import Chart, Figure
from sae.report.figures.axes import DrawnRow
from sae.report.figures.theme import ON_PAGE, chart_config, on_page


def figure_data(figures: Iterable[Figure]) -> str:
    """Return all charts and their theme as JSON that is safe inside a script element."""
    config = {**chart_config(ON_PAGE), "padding": {"left": 0, "right": 4, "top": 4, "bottom": 6}}
    config["legend"] |= {"orient": "bottom", "direction": "horizontal"}
    texts = Texts()
    charts = {figure.name: [pack_spec(page_spec(panel), texts) for panel in figure.panels] for figure in figures}
    data = {"config": config, "texts": texts.listed(), "figures": charts}
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def page_spec(panel: Chart) -> dict[str, Any]:
    """Return the specification of a panel in the colours of the page, as wide as its place."""
    spec = panel.to_dict()
    for unneeded in ("$schema", "config", "usermeta"):
        spec.pop(unneeded, None)
    placed: dict[str, Any] = _without_legend_places(spec)
    return on_page({**placed, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}})


def _without_legend_places(node: Any) -> Any:
    """Remove the places of legends: a page puts them below the plots, where they take no width."""
    if isinstance(node, list):
        return [_without_legend_places(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: item if key in ("data", "datasets") else _without_legend_places(item) for key, item in node.items()}
    if isinstance(kept.get("legend"), dict):
        kept["legend"].pop("orient", None)
    return kept


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


def pack_spec(spec: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    """Pack the rows of a chart's specification and of its layers."""
    packed = dict(spec)
    values = spec.get("data", {}).get("values")
    if isinstance(values, list) and values and _is_flat(values):
        packed["data"] = {"packed": pack_rows(values, texts)}
    if "layer" in spec:
        packed["layer"] = [pack_spec(layer, texts) for layer in spec["layer"]]
    return packed


def pack_rows(rows: Sequence[DrawnRow], texts: Texts) -> dict[str, Any]:
    """Pack rows as lists of cells: a text becomes a list with its number, a missing field an empty list.

    Example:
        >>> pack_rows([{"x": 1, "label": "a"}, {"x": 2}], Texts())
        {'fields': ['x', 'label'], 'rows': [[1, [0]], [2, []]]}
    """
    fields = list(dict.fromkeys(field for row in rows for field in row))
    return {"fields": fields, "rows": [[_cell(row, field, texts) for field in fields] for row in rows]}


def _cell(row: DrawnRow, field: str, texts: Texts) -> Any:
    if field not in row:
        return []
    value = row[field]
    return [texts.number(value)] if isinstance(value, str) else value


def _is_flat(rows: Sequence[Any]) -> bool:
    """Return whether rows hold numbers and texts only, no lists or mappings."""
    return all(isinstance(row, dict) and not any(isinstance(v, list | dict) for v in row.values()) for row in rows)
