"""What a study found: every configuration, the front among them, and how the front grew."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from sae.analysis.pareto import usual_worst
from sae.objectives import COST_OBJECTIVES, Objective
from sae.report.kinds import LOOKS

SIZE = 280
FAINT, STRONG = 0.28, 1.0
FLOPS, PARAMS = COST_OBJECTIVES[:2]

Point = Mapping[str, Any]


def pareto_figure(
    points: Sequence[Point], objectives: Sequence[Objective], history: Sequence[Mapping[str, Any]], *, title: str
) -> alt.HConcatChart:
    """The first objective against the next metric and against FLOPs, and the hypervolume over the trials.

    Args:
        points: Rows with `kind`, `label`, `front`, `pick` and a value for each objective.
        objectives: What the front is made of.
        history: Rows with `trials` and `hypervolume`.
        title: What is shown.
    """
    panels = [pareto_scatter(points, x, y) for x, y in panel_axes(objectives)]
    num_front = sum(bool(point["front"]) for point in points)
    names = ", ".join(item.name for item in objectives)
    subtitle = [
        f"strong: the {num_front} on the front of {names}; faint: the other {len(points) - num_front} configurations;",
        "ringed: the pick, nearest to the ideal. All numbers are of the validation split.",
    ]
    heading = alt.TitleParams(title, subtitle=subtitle, anchor="start", fontSize=15, subtitleColor="#555555", offset=12)
    chart = alt.hconcat(*panels, hypervolume_line(history), spacing=36, title=heading)
    shared: alt.HConcatChart = chart.resolve_scale(color="shared", shape="shared").configure_view(stroke=None)
    return shared


def panel_axes(objectives: Sequence[Objective]) -> list[tuple[Objective, Objective]]:
    """The first objective against the next metric, if there is one, and against a cost; the horizontal axis first."""
    first = objectives[0]
    metrics = [item for item in objectives[1:] if not item.is_cost]
    return [*((item, first) for item in metrics[:1]), (PARAMS if first.name == FLOPS.name else FLOPS, first)]


def pareto_scatter(points: Sequence[Point], x: Objective, y: Objective) -> alt.LayerChart:
    """Configurations by two of their values: those of the front strong, the others faint, the pick ringed.

    Args:
        points: Rows with `kind`, `label`, `front`, `pick` and values by the names of objectives.
        x: What the horizontal axis is; costs are on a logarithmic scale.
        y: What the vertical axis is.
    """
    near = within_view(points, x, y)
    kinds = [kind for kind in LOOKS if any(point["kind"] == kind for point in points)]
    rows = [
        {
            "x": point[x.name],
            "y": point[y.name],
            "method": LOOKS[point["kind"]].name,
            **{key: point[key] for key in ("label", "front", "pick")},
        }
        for point in sorted(near, key=lambda point: bool(point["front"]))
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x=_axis(alt.X, "x", x), y=_axis(alt.Y, "y", y))
    names = [LOOKS[kind].name for kind in kinds]
    legend = alt.Legend(title=None, symbolOpacity=1, symbolSize=90, orient="right")
    colour = alt.Color(
        "method:N", scale=alt.Scale(domain=names, range=[LOOKS[kind].colour for kind in kinds]), legend=legend
    )
    shape = alt.Shape(
        "method:N", scale=alt.Scale(domain=names, range=[LOOKS[kind].shape for kind in kinds]), legend=legend
    )
    others = base.transform_filter("!datum.front").mark_point(filled=True, size=45, opacity=FAINT)
    front = base.transform_filter("datum.front").mark_point(
        filled=True, size=130, opacity=STRONG, stroke="white", strokeWidth=0.6
    )
    ring = base.transform_filter("datum.pick").mark_point(filled=False, size=480, stroke="black", strokeWidth=1.3)
    label = base.transform_filter("datum.pick").encode(text="label:N")
    place: dict[str, Any] = {"dx": 14, "dy": -12, "align": "left", "fontSize": 11}
    halo, name = label.mark_text(**place, stroke="white", strokeWidth=4, opacity=0.85), label.mark_text(**place)
    layers = [others.encode(colour, shape), front.encode(colour, shape), ring, halo, name]
    heading = _heading(f"{y.name} and {x.name}", _out_of_view(points, near))
    return alt.LayerChart(layer=layers, width=SIZE, height=SIZE, title=heading)


def within_view(points: Sequence[Point], x: Objective, y: Objective) -> list[Point]:
    """All but those that are far worse in a metric than the front and the rest usually are.

    A few bad ones would squeeze all others into a corner; the front may have such, too.
    """
    known = [point for point in points if x.name in point and y.name in point]
    shown = known
    for item in (axis for axis in (x, y) if not axis.is_cost):
        bound = max(_usual_worst(known, item), _usual_worst([point for point in known if point["front"]], item))
        shown = [point for point in shown if item.loss(point[item.name]) <= bound or point["pick"]]
    return shown


def _usual_worst(points: Sequence[Point], item: Objective) -> float:
    losses = np.array([[item.loss(point[item.name])] for point in points])
    return float(usual_worst(losses)[0]) if len(points) else -np.inf


def hypervolume_line(history: Sequence[Mapping[str, Any]]) -> alt.LayerChart:
    """How much of the space of losses the front covers, after each trial.

    Args:
        history: Rows with `trials` and `hypervolume`.
    """
    rows = [{"trials": row["trials"], "hypervolume": row["hypervolume"]} for row in history]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("trials:Q", title="trials ended", axis=alt.Axis(tickMinStep=1, grid=False, format="d")),
        y=alt.Y("hypervolume:Q", title="hypervolume ↑", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(gridOpacity=0.4)),
    )
    heading = _heading("front over time", "share of the losses' space it covers")
    line = base.mark_line(interpolate="step-after", color="black", strokeWidth=1.5)
    last = base.transform_filter(f"datum.trials == {len(rows)}")
    number = last.mark_text(align="right", dy=-9, fontSize=11).encode(text=alt.Text("hypervolume:Q", format=".3f"))
    layers = [line, last.mark_point(filled=True, size=40, color="black"), number]
    return alt.LayerChart(layer=layers, width=SIZE * 0.7, height=SIZE, title=heading)


def _axis(channel: Any, field: str, item: Objective) -> Any:
    """A value's axis, with the direction in which it gets better."""
    arrow = "↑" if item.quantity.maximise else "↓"
    if item.is_cost:
        unit = "ms for a batch of 64" if item.is_measured else "per sample"
        scale, axis = alt.Scale(type="log", nice=False, padding=14), alt.Axis(format="~s", tickCount=4, gridOpacity=0.4)
        return channel(f"{field}:Q", title=f"{item.name} {unit} {arrow}", scale=scale, axis=axis)
    scale, axis = alt.Scale(zero=False, nice=False, padding=14), alt.Axis(tickCount=5, gridOpacity=0.4)
    return channel(f"{field}:Q", title=f"{item.name} {arrow}", scale=scale, axis=axis)


def _heading(text: str, subtitle: str) -> alt.TitleParams:
    return alt.TitleParams(text, subtitle=subtitle or "\u00a0", anchor="start", subtitleColor="#555555")


def _out_of_view(points: Sequence[Point], shown: Sequence[Point]) -> str:
    """How many are not shown, and whether the front loses some of its own."""
    hidden = [point for point in points if not any(point is other for other in shown)]
    on_front = sum(bool(point["front"]) for point in hidden)
    mention = f", {on_front} of the front" if on_front else ""
    return f"{len(hidden)} far worse out of view{mention}" if hidden else ""
