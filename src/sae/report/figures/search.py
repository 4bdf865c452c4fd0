"""Figures of a search: all candidates on validation, and the growth of the Pareto front."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import altair as alt
import numpy as np

from sae.analysis.candidates import Candidate
from sae.analysis.pareto import usual_worst
from sae.analysis.progress import Milestone
from sae.analysis.selection import Selection
from sae.core.objectives import Objective
from sae.core.wording import count
from sae.report.content import Chart, Figure
from sae.report.figures.axes import FEWEST_WITH_OUTLIERS, GREY, heading, layered, rounded, whole_ticks
from sae.report.figures.scatter import FLOPS, PARAMS, Pair, Point, axes_note, known_pairs, known_points, scatter_panel
from sae.report.labels import shown_exits

Item = TypeVar("Item")

PANEL_SPACING = 36
MOST_SOLID = 100
"""Candidates that are all drawn as strong ones where none is; more would cover each other."""
MOST_FAINT = 1000
"""Candidates beside the strong ones that a figure draws; more look the same, and make pages of many megabytes."""


def thinned(found: Sequence[Item], is_strong: Callable[[Item], bool]) -> list[Item]:
    """Return the candidates that a figure draws, in their order: all strong ones, and up to `MOST_FAINT` of the rest.

    The rest is drawn from at random, always in the same way.
    """
    faint = [index for index, item in enumerate(found) if not is_strong(item)]
    if len(faint) <= MOST_FAINT:
        return list(found)
    left_out = set(faint) - set(np.random.default_rng(0).choice(faint, MOST_FAINT, replace=False).tolist())
    return [item for index, item in enumerate(found) if index not in left_out]


def search_scatter(
    points: Sequence[Point],
    pairs: Sequence[Pair],
    *,
    name: str,
    title: str,
    place: str = "validation",
    total: int | None = None,
) -> Figure | None:
    """Draw all candidates of a study by pairs of their values; None where no pair is known.

    Args:
        points: Candidates; those on the Pareto front are strong.
        pairs: One panel each.
        name: Name of the figure.
        title: Title of the figure.
        place: What the candidates were measured on.
        total: The number of all candidates, if `points` are some of them.
    """
    known = known_pairs(points, pairs)
    if not known:
        return None
    front = sum(point.is_strong for point in points)
    solid = "None of them is Pareto-optimal yet."
    if front:
        number = "" if front == 1 else f"{front} "
        solid = f"Solid: the {number}Pareto-optimal candidate{'s' * (front > 1)}."
    rest = f" Faint: {_rest_text(points, total)}." if 0 < front < len(points) else ""
    ring = " Ringed: the pick." if any(point.is_pick for point in points) else ""
    caption = f"All candidates, measured on {place}. {solid}{rest}{ring}{axes_note(known)}"
    return Figure(name, title, caption, tuple(search_panel(points, pair, known, total=total) for pair in known))


def tried_scatter(
    points: Sequence[Point],
    pairs: Sequence[Pair],
    *,
    name: str,
    title: str,
    place: str,
    remark: str,
    total: int | None = None,
) -> Figure | None:
    """Draw all candidates of a study with those that were trained again; None where no pair is known.

    Args:
        points: Candidates; those that were trained again on new seeds are strong.
        pairs: One panel each.
        name: Name of the figure.
        title: Title of the figure.
        place: What the candidates were measured on.
        remark: What to know about these numbers.
        total: The number of all candidates, if `points` are some of them.
    """
    known = known_pairs(points, pairs)
    if not known:
        return None
    again = sum(point.is_strong for point in points)
    marked = points if again or len(points) > MOST_SOLID else [replace(point, is_strong=True) for point in points]
    faint = _rest_text(points, total)
    solid = f"Solid: the {again} trained again on new seeds. Faint: {faint}." if again else "None was trained again."
    caption = f"All candidates of the search, on {place}, with the search's own seed. {solid} {remark}"
    panels = (search_panel(marked, pair, known, "trained again" if again else "", total) for pair in known)
    return Figure(name, title, caption, tuple(panels))


def _rest_text(points: Sequence[Point], total: int | None) -> str:
    """Name the points that are not strong: `the rest`, or how many of the rest are drawn."""
    if total is None or total <= len(points):
        return "the rest"
    strong = sum(point.is_strong for point in points)
    return f"{len(points) - strong:,} of the other {total - strong:,}, chosen at random"


def search_panel(
    points: Sequence[Point],
    pair: Pair,
    pairs: Sequence[Pair],
    strong: str = "Pareto-optimal",
    total: int | None = None,
) -> alt.LayerChart:
    """Draw candidates over two of their values, without those that are far worse than the rest.

    Args:
        points: All candidates.
        pair: What the panel shows.
        pairs: All panels of the figure.
        strong: What the strong points are; nothing if all are.
        total: The number of all candidates, if `points` are some of them.
    """
    drawn = within_view(points, *pair)
    sample = f"{len(points):,} of {total:,} candidates; " if total is not None and total > len(points) else ""
    subtitle = sample + _view_text(known_points(points, *pair), drawn, strong)
    return scatter_panel(points, pair, drawn=drawn, pairs=pairs, subtitle=subtitle)


def within_view(points: Sequence[Point], x: Objective, y: Objective) -> list[Point]:
    """Return the points that are not far worse in a metric than the front and the rest usually are.

    A few bad points, some of them perhaps on the front, would squeeze all others into a corner.
    """
    known = known_points(points, x, y)
    if len(known) < FEWEST_WITH_OUTLIERS:
        return list(known)
    shown = known
    for item in (axis for axis in (x, y) if not axis.is_cost):
        bound = max(_usual_worst(known, item), _usual_worst([point for point in known if point.is_strong], item))
        shown = [point for point in shown if item.loss(point.value(item)) <= bound or point.is_pick]
    return shown


def _usual_worst(points: Sequence[Point], item: Objective) -> float:
    losses = np.array([[item.loss(point.value(item))] for point in points])
    return float(usual_worst(losses)[0]) if len(points) else -np.inf


def _view_text(points: Sequence[Point], shown: Sequence[Point], strong: str) -> str:
    """Return how many candidates are not shown, and how many of these are strong."""
    seen = {id(point) for point in shown}
    hidden = [point for point in points if id(point) not in seen]
    if not hidden:
        return "1 candidate" if len(points) == 1 else f"all {len(points)} candidates"
    number = sum(point.is_strong for point in hidden)
    mention = f", {number} of them {strong}" if number and strong else ""
    return f"{len(hidden)} much worse not shown{mention}"


def hypervolume_figure(history: Sequence[Milestone], *, name: str, title: str) -> Figure | None:
    """Draw the growth of the Pareto front over the trials; None before the first.

    Args:
        history: The front after each trial.
        name: Name of the figure.
        title: Title of the figure.
    """
    if not history:
        return None
    caption = (
        "Hypervolume: the share of the space between the best and the worst losses that the Pareto front covers, after "
        "each trial. If the line has been flat for long, more trials are unlikely to find better networks."
    )
    return Figure(name, title, caption, (hypervolume_panel(history),))


def hypervolume_panel(history: Sequence[Milestone]) -> alt.LayerChart:
    """Draw the hypervolume after each trial.

    Args:
        history: The front after each trial, at least one.
    """
    rows = [{"trials": item.trials, "hypervolume": rounded(item.hypervolume), "trial": item.trial} for item in history]
    last = history[-1].trials
    base = alt.Chart().encode(
        x=alt.X(
            "trials:Q",
            title="finished trials",
            scale=alt.Scale(domain=[0, last], nice=False),
            axis=alt.Axis(values=whole_ticks(0, last), grid=False, format="d"),
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
    return layered(rows, layers, heading("Hypervolume of the front", "share of the space of losses that it covers"))


def pareto_figure(selection: Selection, *, title: str) -> alt.HConcatChart:
    """Draw a Pareto front as one picture: the first objective over the next metric and over FLOPs, and its growth.

    Args:
        selection: Candidates and their front.
        title: Title of the picture.
    """
    front, pick = {id(item) for item in selection.front}, selection.pick().candidate
    points = [
        Point(
            item.kind,
            candidate_label(item),
            item.values,
            is_strong=id(item) in front,
            is_pick=item.network == pick.network,
        )
        for item in thinned(selection.candidates, lambda item: id(item) in front)
    ]
    total = len(selection.candidates)
    pairs = known_pairs(points, panel_axes(selection.objectives))
    panels = [search_panel(points, pair, pairs, total=total) for pair in pairs]
    names = ", ".join(item.name for item in selection.objectives)
    rest = f"the other {total - len(front)}" if total == len(points) else _rest_text(points, total)
    subtitle = [
        f"Solid: the {count(len(front), 'Pareto-optimal candidate')} in {names}. Faint: {rest}.",
        "Ringed: the pick, the best compromise. All numbers are from the validation split.",
    ]
    return side_by_side([*panels, hypervolume_panel(selection.history())], title, subtitle)


def candidate_label(item: Candidate) -> str:
    """Return the name of a candidate with its K′, if it has one: `sae/17, K′=2`."""
    exits = shown_exits(item.config, item.eval_exits)
    return item.label if exits is None else f"{item.label}, K′={exits}"


def panel_axes(objectives: Sequence[Objective]) -> list[Pair]:
    """Return the first objective over the next metric, if there is one, and over a cost."""
    first = objectives[0]
    metrics = [item for item in objectives[1:] if not item.is_cost]
    return [*((item, first) for item in metrics[:1]), (PARAMS if first.name == FLOPS.name else FLOPS, first)]


def side_by_side(panels: Sequence[Chart], title: str, subtitle: Sequence[str] = ()) -> alt.HConcatChart:
    """Join panels to one picture, each with its own legend if it has one."""
    top = alt.TitleParams(title, subtitle=list(subtitle), anchor="start", fontSize=15, offset=12)
    chart = alt.hconcat(*panels, spacing=PANEL_SPACING, title=top)
    joined: alt.HConcatChart = chart.resolve_scale(color="independent", shape="independent", strokeDash="independent")
    return joined
