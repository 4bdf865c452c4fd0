"""Figures drawn as a page draws them, and what can be seen in them."""

import json
import re
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

import altair as alt
import vl_convert

from sae.config.methods import all_kinds
from sae.report.content import Chart, Figure

LIGHT: dict[str, Any] = {"background": "#ffffff"}
DARK: dict[str, Any] = {
    "background": "#16181d",
    "text": {"color": "#e4e6eb"},
    "title": {"color": "#e4e6eb", "subtitleColor": "#a8acb5"},
    "axis": {"labelColor": "#c4c8d0", "titleColor": "#e4e6eb", "gridColor": "#3a3f49", "domainColor": "#5a606c"},
    "legend": {"labelColor": "#c4c8d0", "titleColor": "#e4e6eb"},
}


def draw(panel: Chart, *, width: int = 340, config: dict[str, Any] = LIGHT) -> str:
    """One panel as SVG, stretched to a width as a page does."""
    return draw_spec(panel.to_dict(), width, config)


def draw_spec(spec: dict[str, Any], width: int, config: dict[str, Any]) -> str:
    stretched = {**spec, "width": width, "autosize": {"type": "fit-x", "contains": "padding"}}
    return to_svg(json.dumps(stretched), json.dumps(config))


@lru_cache(maxsize=256)  # many tests look at the same figure, and drawing it takes longest
def to_svg(spec: str, config: str = "null") -> str:
    return str(vl_convert.vegalite_to_svg(spec, config=json.loads(config)))


def draw_all(figure: Figure | None) -> list[str]:
    """Every panel on a light and on a dark page, and all of them in one file."""
    assert figure is not None
    assert all(isinstance(panel, alt.Chart | alt.LayerChart) for panel in figure.panels)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", figure.name)
    specs = [panel.to_dict() for panel in figure.panels]  # which validates them
    to_svg(json.dumps(alt.hconcat(*figure.panels).to_dict(validate=False)))
    drawn = [draw_spec(spec, 340, config) for config in (LIGHT, DARK) for spec in specs]
    assert not any(word in svg for svg in drawn for word in ("NaN", "Infinity", "undefined"))
    return drawn


def texts(svg: str) -> list[str]:
    """Everything that is written, in drawing order."""
    return [node.text or "" for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("text")]


def marks(svg: str, role: str) -> list[dict[str, str]]:
    """The attributes of the marks that were drawn of a kind: point, rect mark, rule mark, line mark, text mark."""
    nodes = ElementTree.fromstring(svg).iter()
    return [dict(node.attrib) for node in nodes if node.get("aria-roledescription") == role]


def rows_of(panel: Chart) -> list[dict[str, Any]]:
    """What a panel's layers share."""
    values: list[dict[str, Any]] = panel.to_dict()["data"]["values"]
    return values


def curve_colours(svg: str) -> list[str]:
    """Of the curves in colours of classes, in drawing order; their pale edges are left out."""
    colours = {kind.colour for kind in all_kinds().values()}
    return [mark["stroke"] for mark in marks(svg, "line mark") if mark["stroke"] in colours]
