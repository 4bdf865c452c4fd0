"""Which number of inputs and exits does well: a heat map over N and K, with the paper's special cases outlined."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.core.objectives import Objective
from sae.report.axes import GREY, heading, is_known, layered, name_of, rounded, same_axis
from sae.report.content import Figure
from sae.report.heat import heat_colour, heat_scale, ink_on, mean_title, number_format
from sae.report.kinds import ORANGE, star

CELL_HEIGHT, STRIP = 46, 0.42
"""Height of a cell, and of the strips above and below them that hold the names of special cases, in cells."""
INSET = 0.045
"""From the edge of a cell to an outline: a share of the cell."""
ENOUGH = 3
"""Trials of a cell whose mean may be called the best: that of one is luck."""

Row = Mapping[str, Any]


def grid_figure(
    grids: Sequence[tuple[Objective, Sequence[Row]]], *, depth: int, max_inputs: int, name: str, title: str
) -> Figure | None:
    """A heat map for each metric over N and K; None where no cell of any has a value.

    Args:
        grids: Metrics with rows `inputs`, `exits`, `trials` and the mean `value`, or None where it is not known.
        depth: D, how many exits there can be.
        max_inputs: How many inputs there can be.
        name: Of the figure.
        title: What is shown.
    """
    known = [(item, rows) for item, rows in grids if any(is_known(row["value"]) for row in rows)]
    if not known:
        return None
    caption = (
        "Means over the trials of each number of inputs N and exits K, with the number of trials below; darker is "
        "better, and empty cells were not tried. The star is the best cell of at least "
        f"{ENOUGH} trials; a hollow star, where no cell has so many, is the best of fewer. Outlined: SE (one input, "
        "one exit), EE (one input, several exits), MIMO (several inputs, one exit), MIMMO (several inputs, all exits)."
    )
    panels = (grid_panel(rows, item, depth=depth, max_inputs=max_inputs) for item, rows in known)
    return Figure(name, title, caption, tuple(panels))


def grid_panel(rows: Sequence[Row], item: Objective, *, depth: int, max_inputs: int) -> alt.LayerChart:
    """The heat map of one metric."""
    cells = [_cell(row) for row in rows if is_known(row["value"])]
    best = _best_cell(cells, item)
    tried = {(cell["inputs"], cell["exits"]) for cell in cells}
    empty = [_square(n, k) for n in range(1, max_inputs + 1) for k in range(1, depth + 1) if (n, k) not in tried]
    sides = {"x2": "x2:Q", "y2": "y2:Q"}
    axes = _axes(depth, max_inputs)
    values = [cell["value"] for cell in cells]
    scale = heat_scale(values, item)
    base = alt.Chart().encode(**axes)
    centre = {"x": same_axis(axes["x"], "exits"), "y": same_axis(axes["y"], "inputs"), "color": ink_on(scale, "value")}
    told = [
        alt.Tooltip("inputs:Q", title="inputs N"),
        alt.Tooltip("exits:Q", title="exits K"),
        alt.Tooltip("value:Q", title=f"mean {name_of(item)}", format=".4~g"),
        alt.Tooltip("trials:Q"),
    ]
    colour = heat_colour("value", scale, f"mean {mean_title(item)}")
    layers = [
        *([_empty_cells(empty, axes, sides)] if empty else []),
        base.mark_rect(stroke=GREY, strokeOpacity=0.35, strokeWidth=0.6).encode(colour, tooltip=told, **sides),
        base.mark_text(fontSize=12, dy=-3).encode(text=alt.Text("value:Q", format=number_format(values)), **centre),
        base.mark_text(fontSize=9.5, dy=11).encode(text=alt.Text("count:N"), **centre),
        _star(best, axes, centre["color"]),
        *_outlines(depth, max_inputs, axes, sides),
    ]
    told_best = f"best: N={best['inputs']} K={best['exits']}, {best['value']:.4g} over {best['count']}"
    return layered(cells, layers, heading(name_of(item), told_best), (max_inputs + 2 * STRIP) * CELL_HEIGHT)


def special_cases(depth: int, max_inputs: int) -> list[dict[str, Any]]:
    """Rectangles of cells, from the first input and exit to the last, with the class of those inside.

    Example:
        >>> [(case["kind"], case["inputs"], case["exits"]) for case in special_cases(depth=5, max_inputs=4)]
        [('SE', (1, 1), (1, 1)), ('EE', (1, 1), (2, 5)), ('MIMO', (2, 4), (1, 1)), ('MIMMO', (2, 4), (5, 5))]
    """
    cases: list[dict[str, Any]] = [
        {"kind": "SE", "inputs": (1, 1), "exits": (1, 1)},
        {"kind": "EE", "inputs": (1, 1), "exits": (2, depth)},
        {"kind": "MIMO", "inputs": (2, max_inputs), "exits": (1, 1)},
        {"kind": "MIMMO", "inputs": (2, max_inputs), "exits": (max(2, depth), depth)},
    ]
    return [case for case in cases if all(case[side][0] <= case[side][1] for side in ("inputs", "exits"))]


def _cell(row: Row) -> dict[str, Any]:
    return {
        **_square(row["inputs"], row["exits"]),
        "trials": row["trials"],
        "value": rounded(row["value"]),
        "count": f"{row['trials']} {'trial' if row['trials'] == 1 else 'trials'}",
    }


def _square(inputs: int, exits: int) -> dict[str, Any]:
    sides = {"x": exits - 0.5, "x2": exits + 0.5, "y": inputs - 0.5, "y2": inputs + 0.5}
    return {"inputs": inputs, "exits": exits, **sides}


def _axes(depth: int, max_inputs: int) -> dict[str, Any]:
    """Cells are squares of side 1 around whole numbers, so that an outline may go around several."""
    flat: dict[str, Any] = {"grid": False, "ticks": False, "domain": False, "format": "d", "labelOverlap": False}
    across = alt.Scale(domain=[0.5, depth + 0.5], nice=False, zero=False)
    up = alt.Scale(domain=[0.5 - STRIP, max_inputs + 0.5 + STRIP], nice=False, zero=False)
    exits, inputs = list(range(1, depth + 1)), list(range(1, max_inputs + 1))
    return {
        "x": alt.X("x:Q", scale=across, title="exits K", axis=alt.Axis(values=exits, **flat)),
        "y": alt.Y("y:Q", scale=up, title="inputs N", axis=alt.Axis(values=inputs, **flat)),
    }


def _empty_cells(squares: Sequence[Row], axes: Mapping[str, Any], sides: Mapping[str, str]) -> alt.Chart:
    chart = alt.Chart(alt.Data(values=list(squares))).encode(**axes, **sides)
    drawn: alt.Chart = chart.mark_rect(filled=False, stroke=GREY, strokeOpacity=0.35, strokeWidth=0.6)
    return drawn


def _best_cell(cells: Sequence[Row], item: Objective) -> Row:
    """The best of those with enough trials, or where there is none of all."""
    known_well = [cell for cell in cells if cell["trials"] >= ENOUGH]
    return min(known_well or cells, key=lambda cell: item.loss(cell["value"]))


def _star(cell: Row, axes: Mapping[str, Any], colour: Any) -> alt.Chart:
    """A star in the upper right corner of a cell, hollow where its mean is of few trials."""
    place = {**cell, "right": cell["x2"] - 0.14, "above": cell["y2"] - 0.2}
    chart = alt.Chart(alt.Data(values=[place])).encode(x=same_axis(axes["x"], "right"), y=same_axis(axes["y"], "above"))
    is_sure = cell["trials"] >= ENOUGH
    mark = chart.mark_point(shape=star(5), filled=is_sure, size=45, opacity=1, strokeWidth=0 if is_sure else 1)
    drawn: alt.Chart = mark.encode(fill=colour) if is_sure else mark.encode(stroke=colour)
    return drawn


def _outlines(depth: int, max_inputs: int, axes: Mapping[str, Any], sides: Mapping[str, str]) -> list[alt.Chart]:
    """Around the special cases, each with its name above or below."""
    rows = [
        {
            "kind": case["kind"],
            "x": case["exits"][0] - 0.5 + INSET,
            "x2": case["exits"][1] + 0.5 - INSET,
            "y": case["inputs"][0] - 0.5 + INSET,
            "y2": case["inputs"][1] + 0.5 - INSET,
            "middle": sum(case["exits"]) / 2,
            "beside": 0.5 - STRIP / 2 if case["inputs"][1] == 1 else max_inputs + 0.5 + STRIP / 2,
        }
        for case in special_cases(depth, max_inputs)
    ]
    base = alt.Chart(alt.Data(values=rows))
    around = base.mark_rect(filled=False, stroke=ORANGE, strokeWidth=2, cornerRadius=3).encode(**axes, **sides)
    names = base.mark_text(fontSize=11, fontWeight="bold", color=ORANGE)
    return [around, names.encode(x=same_axis(axes["x"], "middle"), y=same_axis(axes["y"], "beside"), text="kind:N")]
