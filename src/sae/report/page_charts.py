"""Charts as JSON inside the page."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sae.report.content import Chart, Figure
from sae.report.figures.theme import ON_PAGE, chart_config, on_page


def figure_data(figures: Iterable[Figure]) -> str:
    """All charts and their theme as JSON that may stand inside a script element."""
    config = {**chart_config(ON_PAGE), "padding": {"left": 0, "right": 4, "top": 4, "bottom": 6}}
    config["legend"] |= {"orient": "bottom", "direction": "horizontal"}
    texts = Texts()
    charts = {figure.name: [pack_spec(page_spec(panel), texts) for panel in figure.panels] for figure in figures}
    data = {"config": config, "texts": texts.listed(), "figures": charts}
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def page_spec(panel: Chart) -> dict[str, Any]:
    """A panel's specification in the page's colours, as wide as its place."""
    spec = panel.to_dict()
    for unneeded in ("$schema", "config", "usermeta"):
        spec.pop(unneeded, None)
    placed: dict[str, Any] = _without_places_of_legends(spec)
    return on_page({**placed, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}})


def _without_places_of_legends(node: Any) -> Any:
    """A page has legends below the plots, where they take no width from them."""
    if isinstance(node, list):
        return [_without_places_of_legends(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {
        key: item if key in ("data", "datasets") else _without_places_of_legends(item) for key, item in node.items()
    }
    if isinstance(kept.get("legend"), dict):
        kept["legend"].pop("orient", None)
    return kept


Row = Mapping[str, Any]


class Texts:
    """Every text of a page once, by its number.

    Example:
        >>> texts = Texts()
        >>> texts.number("a"), texts.number("b"), texts.number("a"), texts.listed()
        (0, 1, 0, ['a', 'b'])
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text, a new one if it was not there."""
        return self._numbers.setdefault(text, len(self._numbers))

    def listed(self) -> list[str]:
        """All of them, by number."""
        return list(self._numbers)


def pack_spec(spec: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    """A chart's specification with the rows of it and of its layers packed."""
    packed = dict(spec)
    values = spec.get("data", {}).get("values")
    if isinstance(values, list) and values and _is_flat(values):
        packed["data"] = {"packed": pack_rows(values, texts)}
    if "layer" in spec:
        packed["layer"] = [pack_spec(layer, texts) for layer in spec["layer"]]
    return packed


def pack_rows(rows: Sequence[Row], texts: Texts) -> dict[str, Any]:
    """Rows as lists of cells: a text is its number in a list, a field that a row lacks is an empty list.

    Example:
        >>> pack_rows([{"x": 1, "label": "a"}, {"x": 2}], Texts())
        {'fields': ['x', 'label'], 'rows': [[1, [0]], [2, []]]}
    """
    fields = list(dict.fromkeys(field for row in rows for field in row))
    return {"fields": fields, "rows": [[_cell(row, field, texts) for field in fields] for row in rows]}


def _cell(row: Row, field: str, texts: Texts) -> Any:
    if field not in row:
        return []
    value = row[field]
    return [texts.number(value)] if isinstance(value, str) else value


def _is_flat(rows: Sequence[Any]) -> bool:
    """Whether rows hold numbers, texts and nothing else that has parts."""
    return all(isinstance(row, dict) and not any(isinstance(v, list | dict) for v in row.values()) for row in rows)
