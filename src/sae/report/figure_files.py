"""Figures as SVG and PNG files, for papers and slides: the same charts as on the page, drawn without a browser."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import altair as alt
from PIL import Image

from sae.records.folder import write_whole
from sae.report.content import Figure
from sae.report.figures.theme import ON_PAPER, chart_config

PANELS_PER_ROW = 3
FIGURE_FORMATS: tuple[Literal["svg", "png"], ...] = ("svg", "png")
PNG_SCALE = 2
PNG_COLOURS = 256
CAPTION_LINE = 65
"""Characters of a caption per panel in a row."""


def write_figures(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Write each figure as `<name>.svg` and `<name>.png`, and return the files.

    Args:
        figures: Figures to draw.
        folder: Created if it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for figure in figures:
        chart = whole_figure(figure)
        for kind in FIGURE_FORMATS:
            written.append(folder / f"{figure.name}.{kind}")
            write_whole(written[-1], partial(_save_png if kind == "png" else _save_svg, chart))
    return written


def _save_svg(chart: alt.ConcatChart, path: Path) -> None:
    chart.save(str(path), format="svg")


def _save_png(chart: alt.ConcatChart, path: Path) -> None:
    """Save with a palette of colours: no difference to the eye, and a file a fifth as large."""
    content = BytesIO()
    chart.save(content, format="png", scale_factor=PNG_SCALE)
    Image.open(content).convert("RGB").quantize(PNG_COLOURS).save(path, format="png", optimize=True)


def whole_figure(figure: Figure) -> alt.ConcatChart:
    """Join the panels of a figure in rows of at most three, with its title and caption above.

    Panels with the same scale of colours or shapes share a legend.
    """
    caption = textwrap.wrap(figure.caption, CAPTION_LINE * min(len(figure.panels), PANELS_PER_ROW))
    title = alt.TitleParams(figure.title, subtitle=caption, anchor="start", fontSize=15, offset=14)
    config = {**chart_config(ON_PAPER), "padding": 16}
    chart = alt.concat(*figure.panels, columns=PANELS_PER_ROW, spacing=32, title=title, config=config)
    shared: alt.ConcatChart = chart.resolve_scale(color=_resolve(figure, "color"), shape=_resolve(figure, "shape"))
    return shared


def _resolve(figure: Figure, channel: str) -> Literal["shared", "independent"]:
    """Share a scale if all panels name the same values in it, with the same domain and range."""
    encodings = [item for panel in figure.panels for item in _encodings(panel.to_dict(), channel)]
    scales = [item.get("scale") or {} for item in encodings]
    named = all(item["type"] == "nominal" for item in encodings) and all("domain" in scale for scale in scales)
    same = all(scale == scales[0] for scale in scales)
    return "shared" if scales and named and same else "independent"


def _encodings(spec: Mapping[str, Any], channel: str) -> Iterator[Mapping[str, Any]]:
    """Yield the encodings of a channel in a view and its layers."""
    item = spec.get("encoding", {}).get(channel, {})
    if "field" in item:
        yield item
    for layer in spec.get("layer", ()):
        yield from _encodings(layer, channel)
