"""A front as one picture in a file: its panels side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.core.objectives import Objective
from sae.report.content import Chart
from sae.report.scatter import FLOPS, PARAMS, Pair, Point
from sae.report.search_figure import hypervolume_panel, known_points, search_panel

SPACING = 36


def pareto_figure(
    points: Sequence[Point], objectives: Sequence[Objective], history: Sequence[Mapping[str, Any]], *, title: str
) -> alt.HConcatChart:
    """The first objective against the next metric and against FLOPs, and the hypervolume over the trials.

    Args:
        points: Rows as those of `search_scatter`.
        objectives: What the front is made of.
        history: Rows with `trials` and `hypervolume`.
        title: What is shown.
    """
    pairs = [pair for pair in panel_axes(objectives) if known_points(points, *pair)]
    panels = [search_panel(points, *pair, pairs=pairs, legend=pair is pairs[0]) for pair in pairs]
    num_front = sum(bool(point["front"]) for point in points)
    names = ", ".join(item.name for item in objectives)
    subtitle = [
        f"strong: the {num_front} on the front of {names}; faint: the other {len(points) - num_front} configurations;",
        "ringed: the pick, nearest to the ideal. All numbers are of the validation split.",
    ]
    return side_by_side([*panels, hypervolume_panel(history)], title, subtitle)


def panel_axes(objectives: Sequence[Objective]) -> list[Pair]:
    """The first objective against the next metric, if there is one, and against a cost; the horizontal axis first."""
    first = objectives[0]
    metrics = [item for item in objectives[1:] if not item.is_cost]
    return [*((item, first) for item in metrics[:1]), (PARAMS if first.name == FLOPS.name else FLOPS, first)]


def side_by_side(panels: Sequence[Chart], title: str, subtitle: Sequence[str] = ()) -> alt.HConcatChart:
    """Panels as one picture, each with its own legend if it has one."""
    heading = alt.TitleParams(title, subtitle=list(subtitle), anchor="start", fontSize=15, offset=12)
    chart = alt.hconcat(*panels, spacing=SPACING, title=heading)
    joined: alt.HConcatChart = chart.resolve_scale(color="independent", shape="independent", strokeDash="independent")
    return joined
