"""Rows of charts in less room: names of fields once for a table, and every text once for a page.

The panels of a figure show the same configurations, each with the command that trains it; page.js unpacks them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

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
