"""Figures of trials by their settings: heat maps over N and K, and correlations of members' errors over i, N and K."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import TypedDict

import altair as alt

from sae.analysis.trials import SETTINGS, CellMean, CorrelationPoint
from sae.config.methods import ORANGE
from sae.core.objectives import Objective
from sae.core.wording import count
from sae.report.content import Figure
from sae.report.figures.axes import GREY, Axes, chart_of, domain_of, heading, is_known, layered, rounded, same_axis
from sae.report.figures.heat import Ink, heat_colour, heat_scale, ink_on, mean_title, number_format
from sae.report.labels import MARKERS

CELL_HEIGHT, STRIP = 46, 0.42
"""Height of a cell of N × K in pixels; height, in cells, of the strips above and below that name special cases."""
INSET = 0.045
"""Distance from the edge of a cell to an outline, as a share of the cell."""
ENOUGH_TRIALS = 3
"""Trials from which the mean of a cell is coloured and may be called the best; a single trial may be luck."""
TITLES = {"i end": "i at the end of training", "N": "inputs N", "K": "exits K"}


class Square(TypedDict):
    """A place in a map of N × K: its middle and its sides."""

    inputs: int
    exits: int
    x: float
    x2: float
    y: float
    y2: float


class GridCell(Square):
    """The mean of the trials with N inputs and K exits."""

    trials: int
    value: float
    count: str


class Sides(TypedDict):
    """The other two sides of rectangles that start at the axes' fields."""

    x2: alt.X2
    y2: alt.Y2


@dataclass(frozen=True)
class SpecialCase:
    """A rectangle of cells with its kind of SAE, from the first to the last number of inputs and exits."""

    kind: str
    inputs: tuple[int, int]
    exits: tuple[int, int]


def grid_figure(
    grids: Sequence[tuple[Objective, Sequence[CellMean]]], *, depth: int, max_inputs: int, name: str, title: str
) -> Figure | None:
    """Draw a heat map over N and K for each metric; None where no cell of any has a value.

    Args:
        grids: Metrics with their cells.
        depth: D, the largest possible number of exits.
        max_inputs: The largest number of inputs.
        name: Name of the figure.
        title: Title of the figure.
    """
    known = [(item, cells) for item, cells in grids if any(is_known(cell.value) for cell in cells)]
    if not known:
        return None
    caption = (
        "Mean over the trials with N inputs and K exits; the number of trials is below it. Darker is better; empty "
        f"cells were not tried. {_evidence_text(known)} Outlined: SE (one input, one exit), EE (one input, several "
        "exits), MIMO (several inputs, one exit), MIMMO (several inputs, all exits)."
    )
    panels = (_grid_panel(cells, item, depth=depth, max_inputs=max_inputs) for item, cells in known)
    return Figure(name, title, caption, tuple(panels))


def _evidence_text(grids: Sequence[tuple[Objective, Sequence[CellMean]]]) -> str:
    """Say what the star means, and why cells of few trials look as they do."""
    trials = [cell.trials for _, cells in grids for cell in cells if is_known(cell.value)]
    if max(trials) < ENOUGH_TRIALS:
        return f"No cell has {ENOUGH_TRIALS} trials, so all means may be luck: the hollow star is the best cell so far."
    if min(trials) >= ENOUGH_TRIALS:
        return "Star: the best cell."
    return (
        f"Grey: fewer than {ENOUGH_TRIALS} trials, whose mean may be luck, so it has no colour and no star. Star: the "
        "best of the other cells."
    )


def _grid_panel(means: Sequence[CellMean], item: Objective, *, depth: int, max_inputs: int) -> alt.LayerChart:
    cells = [_grid_row(mean, mean.value) for mean in means if is_known(mean.value)]
    coloured, few = _by_evidence(cells)
    best = min(coloured, key=lambda cell: item.loss(cell["value"]))
    tried = {(cell["inputs"], cell["exits"]) for cell in cells}
    empty = [_square(n, k) for n in range(1, max_inputs + 1) for k in range(1, depth + 1) if (n, k) not in tried]
    sides: Sides = {"x2": alt.X2("x2:Q"), "y2": alt.Y2("y2:Q")}
    axes = _grid_axes(depth, max_inputs)
    values = [cell["value"] for cell in cells]
    scale = heat_scale([cell["value"] for cell in coloured], item)
    base = alt.Chart().encode(**axes)
    ink = ink_on(scale, "value")
    texts = base.encode(x=same_axis(axes["x"], "exits"), y=same_axis(axes["y"], "inputs"), color=alt.ColorValue(**ink))
    tooltip = [
        alt.Tooltip("inputs:Q", title="inputs N"),
        alt.Tooltip("exits:Q", title="exits K"),
        alt.Tooltip("value:Q", title=f"mean {item.label}", format=".4~g"),
        alt.Tooltip("trials:Q"),
    ]
    colour = heat_colour("value", scale, f"mean {mean_title(item)}")
    numbers = number_format(values)
    layers = [
        *([_empty_cells(empty, axes, sides)] if empty else []),
        *(_few_layers(few, axes, sides, tooltip, numbers) if few else []),
        base.mark_rect(stroke=GREY, strokeOpacity=0.35, strokeWidth=0.6).encode(colour, tooltip=tooltip, **sides),
        texts.mark_text(fontSize=12, dy=-3).encode(text=alt.Text("value:Q", format=numbers)),
        texts.mark_text(fontSize=9.5, dy=11).encode(text=alt.Text("count:N")),
        _star_layer(best, axes, ink),
        *_outlines(depth, max_inputs, axes, sides),
    ]
    word = "best" if best["trials"] >= ENOUGH_TRIALS else "best so far"
    subtitle = f"{word}: N={best['inputs']} K={best['exits']}, {best['value']:.4g} over {best['count']}"
    height = (max_inputs + 2 * STRIP) * CELL_HEIGHT
    return layered(coloured, layers, heading(item.label, subtitle), height)


def special_cases(depth: int, max_inputs: int) -> list[SpecialCase]:
    """Return the rectangles of cells with a name of their own.

    Example:
        >>> [(case.kind, case.inputs, case.exits) for case in special_cases(depth=5, max_inputs=4)]
        [('SE', (1, 1), (1, 1)), ('EE', (1, 1), (2, 5)), ('MIMO', (2, 4), (1, 1)), ('MIMMO', (2, 4), (5, 5))]
    """
    cases = (
        SpecialCase("SE", inputs=(1, 1), exits=(1, 1)),
        SpecialCase("EE", inputs=(1, 1), exits=(2, depth)),
        SpecialCase("MIMO", inputs=(2, max_inputs), exits=(1, 1)),
        SpecialCase("MIMMO", inputs=(2, max_inputs), exits=(max(2, depth), depth)),
    )
    return [case for case in cases if all(first <= last for first, last in (case.inputs, case.exits))]


def _grid_row(mean: CellMean, value: float) -> GridCell:
    return {
        **_square(mean.inputs, mean.exits),
        "trials": mean.trials,
        "value": rounded(value),
        "count": count(mean.trials, "trial"),
    }


def _square(inputs: int, exits: int) -> Square:
    across, up = exits - 0.5, inputs - 0.5
    return {"inputs": inputs, "exits": exits, "x": across, "x2": across + 1, "y": up, "y2": up + 1}


def _grid_axes(depth: int, max_inputs: int) -> Axes:
    """Return axes on which cells are squares of side 1 around whole numbers, so that outlines can span several."""
    axis = partial(alt.Axis, grid=False, ticks=False, domain=False, format="d", labelOverlap=False)
    across = alt.Scale(domain=[0.5, depth + 0.5], nice=False, zero=False)
    up = alt.Scale(domain=[0.5 - STRIP, max_inputs + 0.5 + STRIP], nice=False, zero=False)
    exits, inputs = list(range(1, depth + 1)), list(range(1, max_inputs + 1))
    return {
        "x": alt.X("x:Q", scale=across, title="exits K", axis=axis(values=exits)),
        "y": alt.Y("y:Q", scale=up, title="inputs N", axis=axis(values=inputs)),
    }


def _empty_cells(squares: Sequence[Square], axes: Axes, sides: Sides) -> alt.Chart:
    chart = chart_of(squares).encode(**axes, **sides)
    drawn: alt.Chart = chart.mark_rect(filled=False, stroke=GREY, strokeOpacity=0.35, strokeWidth=0.6)
    return drawn


def _by_evidence(cells: Sequence[GridCell]) -> tuple[Sequence[GridCell], Sequence[GridCell]]:
    """Return the cells that have a colour and may be the best, and those of too few trials, which do neither.

    Where no cell has enough trials, all have a colour.
    """
    known_well = [cell for cell in cells if cell["trials"] >= ENOUGH_TRIALS]
    if not known_well:
        return cells, []
    return known_well, [cell for cell in cells if cell["trials"] < ENOUGH_TRIALS]


def _few_layers(
    cells: Sequence[GridCell], axes: Axes, sides: Sides, tooltip: Sequence[alt.Tooltip], numbers: str
) -> list[alt.Chart]:
    """Draw cells of too few trials: their numbers in grey on a dashed, uncoloured cell."""
    base = chart_of(cells).encode(**axes)
    texts = base.encode(x=same_axis(axes["x"], "exits"), y=same_axis(axes["y"], "inputs"))
    frame = base.mark_rect(fill=GREY, fillOpacity=0.1, stroke=GREY, strokeDash=[3, 3], strokeOpacity=0.6)
    return [
        frame.encode(tooltip=list(tooltip), **sides),
        texts.mark_text(fontSize=12, dy=-3, color=GREY).encode(text=alt.Text("value:Q", format=numbers)),
        texts.mark_text(fontSize=9.5, dy=11, color=GREY).encode(text=alt.Text("count:N")),
    ]


def _star_layer(cell: GridCell, axes: Axes, colour: Ink) -> alt.Chart:
    """Draw a star in the upper right corner of a cell, hollow if the cell has few trials."""
    place = {**cell, "right": cell["x2"] - 0.14, "above": cell["y2"] - 0.2}
    chart = chart_of([place]).encode(x=same_axis(axes["x"], "right"), y=same_axis(axes["y"], "above"))
    is_sure = cell["trials"] >= ENOUGH_TRIALS
    mark = chart.mark_point(shape=MARKERS["star"], filled=is_sure, size=45, opacity=1, strokeWidth=0 if is_sure else 1)
    drawn: alt.Chart = mark.encode(alt.FillValue(**colour) if is_sure else alt.StrokeValue(**colour))
    return drawn


def _outlines(depth: int, max_inputs: int, axes: Axes, sides: Sides) -> list[alt.Chart]:
    """Draw outlines around the special cases, with their names above or below."""
    rows = [
        {
            "kind": case.kind,
            "x": case.exits[0] - 0.5 + INSET,
            "x2": case.exits[1] + 0.5 - INSET,
            "y": case.inputs[0] - 0.5 + INSET,
            "y2": case.inputs[1] + 0.5 - INSET,
            "middle": sum(case.exits) / 2,
            "beside": 0.5 - STRIP / 2 if case.inputs[1] == 1 else max_inputs + 0.5 + STRIP / 2,
        }
        for case in special_cases(depth, max_inputs)
    ]
    base = chart_of(rows)
    around = base.mark_rect(filled=False, stroke=ORANGE, strokeWidth=2, cornerRadius=3).encode(**axes, **sides)
    names = base.mark_text(fontSize=11, fontWeight="bold", color=ORANGE)
    return [
        around,
        names.encode(x=same_axis(axes["x"], "middle"), y=same_axis(axes["y"], "beside"), text=alt.Text("kind:N")),
    ]


def independence_figure(points: Sequence[CorrelationPoint], *, name: str, title: str) -> Figure | None:
    """Draw a panel for each setting that varies; None if no run has several members, or nothing varies.

    Args:
        points: The correlations of runs.
        name: Name of the figure.
        title: Title of the figure.
    """
    by_setting = {key: [point for point in points if point.setting == key] for key in SETTINGS}
    varied = {key: found for key, found in by_setting.items() if len({point.value for point in found}) > 1}
    if not varied:
        return None
    line = "; a line is the mean at each value" if any(map(has_means, varied.values())) else ""
    caption = (
        "Mean correlation of the errors of two members on the test split: 0 for independent members, as the paper "
        f"assumes, 1 for members that err together. A dot is a network{line}. Networks differ in other settings, too."
    )
    return Figure(name, title, caption, tuple(correlation_panel(found, key) for key, found in varied.items()))


def has_means(points: Sequence[CorrelationPoint]) -> bool:
    """Return whether values have several networks each; else a line through their means would join noise."""
    return len({point.value for point in points}) <= len(points) / 2


def correlation_panel(points: Sequence[CorrelationPoint], setting: str) -> alt.LayerChart:
    """Draw the correlations over one setting."""
    rows = [
        {"x": rounded(point.value), "y": rounded(point.correlation), "run": point.run, "kind": "run"}
        for point in points
    ]
    values = sorted({point.value for point in points})
    means = [
        {
            "x": rounded(value),
            "y": rounded(mean(point.correlation for point in points if point.value == value)),
            "run": "mean",
            "kind": "mean",
        }
        for value in (values if has_means(points) else [])
    ]
    low, high = domain_of(values)
    whole = all(value == int(value) for value in values) and setting != "i end"
    base = alt.Chart().encode(
        x=alt.X(
            "x:Q",
            title=TITLES[setting],
            scale=alt.Scale(domain=[low, high], nice=False),
            axis=alt.Axis(values=values, format="d", grid=False) if whole else alt.Axis(tickCount=5, grid=False),
        ),
        y=alt.Y(
            "y:Q",
            title="correlation of errors",
            scale=alt.Scale(domain=[min(0.0, *(point.correlation for point in points)), 1], nice=False),
            axis=alt.Axis(tickCount=5, gridOpacity=0.4),
        ),
    )
    tooltip = [alt.Tooltip("run:N"), alt.Tooltip("x:Q", title=setting), alt.Tooltip("y:Q", title="correlation")]
    averaged = base.transform_filter(alt.datum.kind == "mean")
    layers = [
        averaged.mark_line(color=ORANGE, strokeWidth=2),
        base.transform_filter(alt.datum.kind == "run")
        .mark_point(filled=True, size=45, color=GREY, opacity=0.7)
        .encode(tooltip=tooltip),
        averaged.mark_point(filled=True, size=60, color=ORANGE, opacity=1),
    ]
    subtitle = count(len({point.run for point in points}), "network")
    return layered([*rows, *means], layers, heading(f"By {TITLES[setting]}", subtitle))
