"""Figures of a report as HTML: places for their panels, and what page.js draws there."""

import json
from collections.abc import Iterable
from html import escape
from typing import Any

from sae.report.content import Chart, Figure
from sae.report.html_text import prose
from sae.report.packing import Texts, pack_spec
from sae.report.theme import ON_PAGE, chart_config, on_page

PRINTED_COLUMNS = 2
SHAPES = {1: " single", 2: " even", 4: " even"}
"""How so many panels are set where there is room for three in a row."""
WITHOUT_SCRIPT = "This figure needs JavaScript; it is also a file of its own where the report was written."


def render_figure(figure: Figure) -> str:
    """A figure's title, an empty place for each panel, and its caption."""
    places = "\n".join(f'<div class="panel" data-panel="{index}"></div>' for index in range(len(figure.panels)))
    name, count = escape(figure.name), len(figure.panels)
    saves = "".join(
        f'<button type="button" class="save" data-format="{kind}" aria-label="Save this figure as {kind.upper()}">'
        f"{kind.upper()}</button>"
        for kind in ("svg", "png")
    )
    return f"""<figure class="charts" id="figure-{name}" data-figure="{name}">
<div class="heading"><h3>{escape(figure.title)}</h3><div class="tools needs-script">{saves}</div></div>
<noscript><p class="note">{WITHOUT_SCRIPT}</p></noscript>
<div class="panels{SHAPES.get(count, "")}" style="--columns: {min(count, PRINTED_COLUMNS)}">
{places}
</div>
<figcaption>{prose(figure.caption)}</figcaption>
</figure>"""


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
