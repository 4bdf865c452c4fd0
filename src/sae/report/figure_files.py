"""Figures as files of their own, for papers and slides: the same charts as on the page, drawn without a browser."""

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

COLUMNS = 3
FORMATS: tuple[Literal["svg", "png"], ...] = ("svg", "png")
PNG_SCALE = 2
PALETTE = 256
LINE = 65
"""Characters of a caption that fit below one panel."""


def write_figures(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Write each figure as `<name>.svg` and `<name>.png`; returns the files.

    Args:
        figures: Those to draw.
        folder: Where to; it is made if it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for figure in figures:
        chart = whole_figure(figure)
        for kind in FORMATS:
            written.append(folder / f"{figure.name}.{kind}")
            write_whole(written[-1], partial(_save_png if kind == "png" else _save_svg, chart))
    return written


def _save_svg(chart: alt.ConcatChart, path: Path) -> None:
    chart.save(str(path), format="svg")


def _save_png(chart: alt.ConcatChart, path: Path) -> None:
    """In as many colours as a palette holds, which nobody sees and which makes the file a fifth as large."""
    content = BytesIO()
    chart.save(content, format="png", scale_factor=PNG_SCALE)
    Image.open(content).convert("RGB").quantize(PALETTE).save(path, format="png", optimize=True)


def whole_figure(figure: Figure) -> alt.ConcatChart:
    """All panels of a figure in rows of at most three, with its title and caption above.

    Panels that tell the same things apart by the same colours or shapes share a legend.
    """
    caption = textwrap.wrap(figure.caption, LINE * min(len(figure.panels), COLUMNS))
    title = alt.TitleParams(figure.title, subtitle=caption, anchor="start", fontSize=15, offset=14)
    config = {**chart_config(ON_PAPER), "padding": 16}
    chart = alt.concat(*figure.panels, columns=COLUMNS, spacing=32, title=title, config=config)
    shared: alt.ConcatChart = chart.resolve_scale(color=_resolve(figure, "color"), shape=_resolve(figure, "shape"))
    return shared


def _resolve(figure: Figure, channel: str) -> Literal["shared", "independent"]:
    """Whether all scales of a channel are of names, with the same domain and range."""
    encodings = [item for panel in figure.panels for item in _encodings(panel.to_dict(), channel)]
    scales = [item.get("scale") or {} for item in encodings]
    named = all(item["type"] == "nominal" for item in encodings) and all("domain" in scale for scale in scales)
    same = all(scale == scales[0] for scale in scales)
    return "shared" if scales and named and same else "independent"


def _encodings(spec: Mapping[str, Any], channel: str) -> Iterator[Mapping[str, Any]]:
    """What a view and its layers encode by a channel."""
    item = spec.get("encoding", {}).get(channel, {})
    if "field" in item:
        yield item
    for layer in spec.get("layer", ()):
        yield from _encodings(layer, channel)
