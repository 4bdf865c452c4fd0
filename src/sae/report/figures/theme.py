"""Theme of charts on the page and in files, and its dark colours.

A figure leaves fonts, axes, grid, legends and the colour of text to the theme. On a dark page the colours in `DARK` are
replaced, except in heat maps, whose cells keep their colours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

SpecValue: TypeAlias = bool | float | str | Sequence["SpecValue"] | Mapping[str, "SpecValue"] | None
Spec = Mapping[str, SpecValue]
"""A specification of Vega-Lite, or a part of one, as JSON holds it."""

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
    "#3A7D34": "#76C56E",
    "#548235": "#9CCB7B",
    "#B3261E": "#F2837B",
    "#6A4FB3": "#B29CF5",
    "#8A6A00": "#D9B44A",
    "#00695C": "#4DB6A6",
}
"""Replacements on a dark page, by the colour on white paper."""

SIZES: Spec = {"continuousWidth": 280, "discreteWidth": 280, "continuousHeight": 260, "discreteHeight": {"step": 26}}
"""Default sizes of views."""

NAMED_COLOURS = {"black": "#000000", "white": "#FFFFFF"}
COLOUR_KEYS = ("color", "fill", "stroke")
KEPT_KEYS = ("data", "datasets", "condition")
MARK_KEYS = ("mark", "scale", "value")


@dataclass(frozen=True)
class Inks:
    """Colours of everything around the marks of a chart.

    Attributes:
        text: Titles and texts.
        quiet: Labels, subtitles and axes.
        faint: Gridlines.
        paper: Background.
    """

    text: str
    quiet: str
    faint: str
    paper: str | None


ON_PAPER = Inks("#1F2328", "#57606A", "#E3E5E8", "#FFFFFF")
ON_PAGE = Inks("var(--ink)", "var(--muted)", "var(--faint)", None)
"""Variables of the page's style sheet: charts follow the theme of the page without being drawn again."""


def chart_config(inks: Inks, legend: Spec | None = None) -> Spec:
    """Return a configuration of Vega-Lite.

    Args:
        inks: Colours.
        legend: More settings of legends.
    """
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
        "legend": {**labels, "symbolOpacity": 1, **(legend or {})},
        "header": labels,
        "title": {"color": inks.text, "subtitleColor": inks.quiet, "anchor": "start", "fontSize": 13},
        "text": {"color": inks.text},
        "rule": {"color": inks.quiet},
    }


def on_page(spec: Spec) -> dict[str, SpecValue]:
    """Replace the colours in `DARK` in a chart's specification with variables of the page.

    Conditional values stay as they are, and so do the marks of heat maps.

    Example:
        >>> on_page({"mark": {"type": "line", "color": "black"}})
        {'mark': {'type': 'line', 'color': 'var(--c-000000)'}}
    """
    if not _has_cells(spec):
        return {key: _replace_colours(key, value, spec, KEPT_KEYS) for key, value in spec.items()}
    around = {key: _replace_colours(key, value, spec, (*KEPT_KEYS, *MARK_KEYS)) for key, value in spec.items()}
    return {**around, "config": {"text": {"color": ON_PAPER.text}}}


def part_of(spec: Spec, key: str) -> Spec:
    """Return a part of a specification that is a mapping itself, empty if it is missing."""
    part = spec.get(key)
    return part if isinstance(part, Mapping) else {}


def layers_of(spec: Spec) -> list[Spec]:
    """Return the specifications of the layers of a view."""
    layers = spec.get("layer")
    return [layer for layer in layers if isinstance(layer, Mapping)] if isinstance(layers, list) else []


def palette_css() -> str:
    """Return the variables that `on_page` uses: their light values, and their dark ones for screens."""
    light = "".join(f"{_variable(colour)}:{colour};" for colour in DARK)
    dark = "".join(f"{_variable(colour)}:{instead};" for colour, instead in DARK.items())
    return f":root{{{light}}}\n@media screen{{:root[data-theme=dark]{{{dark}}}}}"


def _variable(colour: str) -> str:
    return f"--c-{colour[1:].lower()}"


def _has_cells(spec: Spec) -> bool:
    kind = part_of(spec, "mark").get("type", spec.get("mark"))
    return kind == "rect" or any(map(_has_cells, layers_of(spec)))


def _replace_colours(key: str, value: SpecValue, parent: Spec, kept: tuple[str, ...]) -> SpecValue:
    """Replace the colours in the value at `key` of `parent`, except below the kept keys."""
    if key in kept:
        return value
    if isinstance(value, Mapping):
        colours = value.get("range")
        if key == "scale" and parent.get("type") in ("nominal", "ordinal") and isinstance(colours, list):
            return {**value, "range": [as_variable(colour) for colour in colours]}
        return {inner: _replace_colours(inner, item, value, kept) for inner, item in value.items()}
    if isinstance(value, list):
        return [_replace_colours(key, item, parent, kept) for item in value]
    is_colour = key.lower().endswith(COLOUR_KEYS) or (key == "value" and "condition" not in parent)
    return as_variable(value) if is_colour else value


def as_variable(value: SpecValue) -> SpecValue:
    """Return the variable of the page for a colour that has a dark version; anything else as it is."""
    if not isinstance(value, str):
        return value
    colour = NAMED_COLOURS.get(value, value.upper())
    return f"var({_variable(colour)})" if colour in DARK else value
