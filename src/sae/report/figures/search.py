"""Figures of a search: all candidates on validation, and how the front grew."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from sae.analysis.pareto import usual_worst
from sae.core.objectives import Objective
from sae.report.content import Chart, Figure
from sae.report.figures.axes import GREY, heading, is_known, layered, rounded, told
from sae.report.figures.scatter import (
    FLOPS,
    PARAMS,
    Pair,
    Point,
    class_looks,
    classes_of,
    more_of,
    pair_axes,
    pair_name,
    panel_key,
    pick_layers,
    point_layer,
    point_tooltips,
    shown_values,
)
from sae.report.labels import LOOKS


def search_scatter(points: Sequence[Point], pairs: Sequence[Pair], *, name: str, title: str) -> Figure | None:
    """All configurations of a study by pairs of their values; None where no pair is known of any.

    Args:
        points: Rows with `kind`, `label`, `front`, `pick` and values by the names of objectives; for those who
            point at one also `settings`, `eval_exits` and `command`.
        pairs: What the panels show, the horizontal axis first.
        name: Of the figure.
        title: What is shown.
    """
    known = [pair for pair in pairs if known_points(points, *pair)]
    if not known:
        return None
    front = sum(bool(point["front"]) for point in points)
    among = (
        f"Strong: the {front} of the front, which no other beats; faint: the other {len(points) - front}; ringed: the "
        "pick."
    )
    caption = (
        f"Every configuration on validation. {among if front else 'There is no front among them.'} Costs are on "
        "logarithmic axes."
    )
    panels = (search_panel(points, *pair, pairs=known, legend=pair is known[0]) for pair in known)
    return Figure(name, title, caption, tuple(panels))


def search_panel(
    points: Sequence[Point], x: Objective, y: Objective, *, pairs: Sequence[Pair], legend: bool
) -> alt.LayerChart:
    """Configurations by two of their values: those of the front strong, the others faint, the pick ringed.

    Args:
        points: As in `search_scatter`.
        x: What the horizontal axis is.
        y: What the vertical axis is.
        pairs: Of all panels, whose values are told of the point under the pointer.
        legend: Whether the panel has it.
    """
    near = within_view(points, x, y)
    shown = shown_values(points, pairs)
    rows = [_row(point, x, y, shown) for point in sorted(near, key=lambda p: (bool(p["pick"]), bool(p["front"])))]
    across, up = (x, [row["x"] for row in rows]), (y, [row["y"] for row in rows])
    base = alt.Chart().encode(**pair_axes(across, up))
    looks = class_looks(classes_of(points), legend=legend)
    points_drawn = point_layer(base, looks, point_tooltips(rows, shown), panel=panel_key(x, y), legend=legend)
    layers = [points_drawn, *pick_layers(rows, base, across, up)]
    return layered(rows, layers, heading(pair_name(x, y), _out_of_view(known_points(points, x, y), near)))


def _row(point: Point, x: Objective, y: Objective, shown: Sequence[Objective]) -> dict[str, Any]:
    more = more_of(point)
    values = {f"v{index}": told(item, point.get(item.name)) for index, item in enumerate(shown)}
    return {
        "id": f"{point['label']} {point.get('eval_exits', '')}",
        "x": rounded(point[x.name]),
        "y": rounded(point[y.name]),
        "method": LOOKS[point["kind"]].name,
        "label": point["label"],
        "strong": bool(point["front"]),
        "pick": bool(point["pick"]),
        **more,
        **values,
    }


def known_points(points: Sequence[Point], x: Objective, y: Objective) -> list[Point]:
    """Those that have both values."""
    return [point for point in points if is_known(point.get(x.name)) and is_known(point.get(y.name))]


def within_view(points: Sequence[Point], x: Objective, y: Objective) -> list[Point]:
    """All but those that are far worse in a metric than the front and the rest usually are.

    A few bad ones would squeeze all others into a corner; the front may have such, too.
    """
    known = known_points(points, x, y)
    shown = known
    for item in (axis for axis in (x, y) if not axis.is_cost):
        bound = max(_usual_worst(known, item), _usual_worst([point for point in known if point["front"]], item))
        shown = [point for point in shown if item.loss(point[item.name]) <= bound or point["pick"]]
    return shown


def _usual_worst(points: Sequence[Point], item: Objective) -> float:
    losses = np.array([[item.loss(point[item.name])] for point in points])
    return float(usual_worst(losses)[0]) if len(points) else -np.inf


def _out_of_view(points: Sequence[Point], shown: Sequence[Point]) -> str:
    """How many are not shown, and whether the front loses some of its own."""
    hidden = [point for point in points if not any(point is other for other in shown)]
    on_front = sum(bool(point["front"]) for point in hidden)
    mention = f", {on_front} of the front" if on_front else ""
    return f"{len(hidden)} far worse out of view{mention}" if hidden else _all_in_view(len(points))


def _all_in_view(count: int) -> str:
    return "one configuration" if count == 1 else f"all {count} in view"


def hypervolume_figure(history: Sequence[Mapping[str, Any]], *, name: str, title: str) -> Figure | None:
    """How the front grew with the trials; None before the first.

    Args:
        history: Rows with `trials` and `hypervolume`; `trial`, where there is one, is told by its point.
        name: Of the figure.
        title: What is shown.
    """
    if not history:
        return None
    caption = (
        "The share of the space between the best and the worst losses that the front covers after each trial that "
        "ended: a line that has been flat for long says that more trials would hardly find better."
    )
    return Figure(name, title, caption, (hypervolume_panel(history),))


def hypervolume_panel(history: Sequence[Mapping[str, Any]]) -> alt.LayerChart:
    """How much of the space of losses the front covers, after each trial.

    Args:
        history: Rows with `trials` and `hypervolume`, at least one.
    """
    rows = [
        {"trials": row["trials"], "hypervolume": rounded(row["hypervolume"]), "trial": row.get("trial", "")}
        for row in history
    ]
    last = rows[-1]["trials"]
    base = alt.Chart().encode(
        x=alt.X(
            "trials:Q",
            title="trials ended",
            scale=alt.Scale(domain=[0, last], nice=False),
            axis=alt.Axis(tickMinStep=1, tickCount=6, grid=False, format="d"),
        ),
        y=alt.Y(
            "hypervolume:Q",
            title="hypervolume ↑",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(tickCount=5, gridOpacity=0.4),
        ),
    )
    tooltip = [alt.Tooltip("trial:N"), alt.Tooltip("trials:Q"), alt.Tooltip("hypervolume:Q", format=".4f")]
    end = base.transform_filter(alt.datum.trials == last)
    layers = [
        base.mark_line(interpolate="step-after", color=GREY, strokeWidth=2),
        base.mark_point(filled=True, size=60, color=GREY, opacity=0).encode(tooltip=tooltip),
        end.mark_point(filled=True, size=55, color=GREY, opacity=1),
        end.mark_text(align="right", dy=-11, fontSize=11).encode(text=alt.Text("hypervolume:Q", format=".3f")),
    ]
    return layered(rows, layers, heading("Front over time", "share of the losses' space it covers"))


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
