"""Theme of charts on the page and in files, and its dark colours.

A figure leaves fonts, axes, grid, legends and the colour of text to the theme. On a dark page the colours in `DARK` are
replaced, except in heat maps, whose cells keep their colours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DARK: Mapping[str, str] = {
    "#000000": "#E6E7E9",
    "#FFFFFF": "#15171A",
    "#333333": "#D5D8DB",
    "#555555": "#A2A8B0",
    "#595959": "#B4B7BB",
    "#2F528F": "#86A9EE",
    "#00BFBF": "#2FD0D0",
    "#BF00BF": "#E873E8",
    "#C55A11": "#F0893D",
}
"""By a colour on white paper, the one of the same role on a dark page."""

SIZES = {"continuousWidth": 280, "discreteWidth": 280, "continuousHeight": 260, "discreteHeight": {"step": 26}}
"""Of views that have none of their own."""

NAMED = {"black": "#000000", "white": "#FFFFFF"}
ROLES = ("color", "fill", "stroke")
KEPT = ("data", "datasets", "condition")
MARKS = ("mark", "scale", "value")


@dataclass(frozen=True)
class Inks:
    """What the parts of a chart around its marks are drawn with.

    Attributes:
        text: Titles and texts.
        quiet: Labels, subtitles and axes.
        faint: Gridlines.
        paper: What is behind.
    """

    text: str
    quiet: str
    faint: str
    paper: str | None


ON_PAPER = Inks("#1F2328", "#57606A", "#E3E5E8", "#FFFFFF")
ON_PAGE = Inks("var(--ink)", "var(--muted)", "var(--faint)", None)
"""Variables of the page's style sheet, so that charts follow the page's theme without being drawn again."""


def chart_config(inks: Inks) -> dict[str, Any]:
    """A configuration of Vega-Lite."""
    labels = {"labelColor": inks.quiet, "titleColor": inks.quiet, "titleFontWeight": "normal"}
    return {
        "background": inks.paper,
        "view": {"stroke": None, **SIZES},
        "axis": {
            **labels,
            "domainColor": inks.quiet,
            "tickColor": inks.quiet,
            "gridColor": inks.faint,
            "titlePadding": 8,
        },
        "legend": {**labels, "symbolOpacity": 1},
        "header": labels,
        "title": {"color": inks.text, "subtitleColor": inks.quiet, "anchor": "start", "fontSize": 13},
        "text": {"color": inks.text},
        "rule": {"color": inks.quiet},
    }


def on_page(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A chart's specification with variables of the page in place of the colours in `DARK`.

    Values that depend on a condition stay as they are, and so do the marks of a chart with coloured cells.

    Example:
        >>> on_page({"mark": {"type": "line", "color": "black"}})
        {'mark': {'type': 'line', 'color': 'var(--c-000000)'}}
    """
    if not _has_cells(spec):
        return {key: _exchange(key, value, spec, KEPT) for key, value in spec.items()}
    around = {key: _exchange(key, value, spec, (*KEPT, *MARKS)) for key, value in spec.items()}
    return {**around, "config": {"text": {"color": ON_PAPER.text}}}


def palette_css() -> str:
    """The variables that `on_page` names, on paper and, on a screen, in the dark."""
    light = "".join(f"{_variable(colour)}:{colour};" for colour in DARK)
    dark = "".join(f"{_variable(colour)}:{instead};" for colour, instead in DARK.items())
    return f":root{{{light}}}\n@media screen{{:root[data-theme=dark]{{{dark}}}}}"


def _variable(colour: str) -> str:
    return f"--c-{colour[1:].lower()}"


def _has_cells(spec: Mapping[str, Any]) -> bool:
    mark = spec.get("mark")
    kind = mark.get("type") if isinstance(mark, dict) else mark
    return kind == "rect" or any(_has_cells(layer) for layer in spec.get("layer", ()))


def _exchange(key: str, value: Any, parent: Mapping[str, Any], kept: tuple[str, ...]) -> Any:
    """What is at `key` of `parent`, with its colours exchanged but for those at the keys that are kept."""
    if key in kept:
        return value
    if isinstance(value, dict):
        if key == "scale" and parent.get("type") in ("nominal", "ordinal") and "range" in value:
            return {**value, "range": [_as_variable(colour) for colour in value["range"]]}
        return {inner: _exchange(inner, item, value, kept) for inner, item in value.items()}
    if isinstance(value, list):
        return [_exchange(key, item, parent, kept) for item in value]
    is_colour = key.lower().endswith(ROLES) or (key == "value" and "condition" not in parent)
    return _as_variable(value) if is_colour else value


def _as_variable(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    colour = NAMED.get(value, value.upper())
    return f"var({_variable(colour)})" if colour in DARK else value
