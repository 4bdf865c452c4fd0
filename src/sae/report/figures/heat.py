"""Heat maps: metrics over N and K, and over corruptions and severities."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.core.objectives import Objective, Quantity
from sae.report.content import Figure
from sae.report.figures.axes import GREY, domain_of, heading, is_known, layered, objective_label, rounded, same_axis
from sae.report.labels import NAMES, ORANGE, star

PALE_TO_DARK = ("#E1ECF7", "#A9CBE8", "#5E9CD0", "#2A6CAD", "#164A80")
WORSE_TO_BETTER = ("#A6500B", "#EDB27C", "#F2F2F2", "#8FB8DE", "#1F5A96")
"""Orange, grey and blue."""
ON_PALE, ON_DARK = "#1A1A1A", "#FFFFFF"


def heat_scale(values: Sequence[float], item: Objective) -> alt.Scale:
    """Darker is better, from the worst of the values to the best."""
    low, high = (min(values), max(values)) if min(values) < max(values) else domain_of(values)
    colours = PALE_TO_DARK if item.quantity.maximise else PALE_TO_DARK[::-1]
    return alt.Scale(domain=_steps(low, high), range=list(colours), interpolate="lab", clamp=True)


def difference_scale(values: Sequence[float], item: Objective) -> alt.Scale:
    """Blue is better and orange is worse, as far to both sides; no difference is grey."""
    most = max(abs(value) for value in values) or 1.0
    colours = WORSE_TO_BETTER if item.quantity.maximise else WORSE_TO_BETTER[::-1]
    return alt.Scale(domain=_steps(-most, most), range=list(colours), interpolate="lab", clamp=True)


def _steps(low: float, high: float) -> list[float]:
    return [low + (high - low) * step / (len(PALE_TO_DARK) - 1) for step in range(len(PALE_TO_DARK))]


def heat_colour(field: str, scale: alt.Scale, title: str) -> alt.Color:
    """The colour of a cell, and below the panel what it means."""
    legend = alt.Legend(
        title=title,
        orient="bottom",
        direction="horizontal",
        gradientLength=170,
        gradientThickness=9,
        titleLimit=300,
        tickCount=4,
        offset=4,
    )
    return alt.Color(f"{field}:Q", scale=scale, legend=legend)


def ink_on(scale: alt.Scale, field: str) -> Any:
    """The colour of a number on a cell: light on the dark ones."""
    domain, dark = scale.domain, (PALE_TO_DARK[3], PALE_TO_DARK[4], WORSE_TO_BETTER[0], WORSE_TO_BETTER[4])
    ends = [domain[index] for index, colour in enumerate(scale.range) if colour in dark]
    middle = (domain[0] + domain[-1]) / 2
    reach = (domain[-1] - domain[0]) / 8  # half a step: up to where a neighbour's colour begins
    above, below = [end for end in ends if end > middle], [end for end in ends if end < middle]
    tests = [
        *([f"datum.{field} > {min(above) - reach}"] if above else []),
        *([f"datum.{field} < {max(below) + reach}"] if below else []),
    ]
    return alt.when(" || ".join(tests)).then(alt.value(ON_DARK)).otherwise(alt.value(ON_PALE))


def number_format(values: Sequence[float], digits: int = 3) -> str:
    """As many decimals as a cell has room for.

    Example:
        >>> number_format([0.91, 0.88]), number_format([12.4, 8.0]), number_format([3100.0])
        ('.3f', '.2f', '.0f')
    """
    size = max(abs(value) for value in values)
    return f".{max(0, digits - len(str(int(size))) + 1)}f"


def mean_title(item: Objective) -> str:
    """What the colours of a map mean."""
    return f"{objective_label(item)}, darker is better"


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
        alt.Tooltip("value:Q", title=f"mean {objective_label(item)}", format=".4~g"),
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
    return layered(cells, layers, heading(objective_label(item), told_best), (max_inputs + 2 * STRIP) * CELL_HEIGHT)


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


ROW_HEIGHT = 17
FAMILIES: dict[str, tuple[str, ...]] = {
    "Noise": ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
    "Blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "gaussian_blur"),
    "Weather": ("snow", "frost", "fog", "brightness", "spatter"),
    "Digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression", "saturate"),
}
"""Of the benchmark's corruptions."""
OTHERS = "Others"
SAID_BY_FAMILY = ("_noise", "_blur", "_transform", "_compression")


def shift_figure(
    compared: Sequence[Row], item: Objective, *, name: str, title: str, difference_to: str | None = None
) -> Figure | None:
    """A heat map for each configuration, all in the same colours; None where none has a value.

    Args:
        compared: With `label` and `by_set`, rows `corruption`, `severity` and `metrics`; the pick first.
        item: Which of the metrics.
        name: Of the figure.
        title: What is shown.
        difference_to: The label of the one that a last panel compares the first with, set by set.
    """
    maps = {row["label"]: cells_of(row["by_set"], item.key) for row in compared}
    known = {label: cells for label, cells in maps.items() if cells}
    if not known:
        return None
    scale = heat_scale([cell["value"] for cells in known.values() for cell in cells], item)
    panels = [shift_panel(cells, label, scale, mean_title(item)) for label, cells in known.items()]
    first = next(iter(known))
    if difference_to in known and difference_to != first:
        panels.append(difference_panel(known[first], known[difference_to], f"{first} − {difference_to}", item))
    caption = f"{objective_label(item)} on every corrupted test set, severities 1 to 5; darker is better."
    return Figure(name, title, caption, tuple(panels))


def shift_heatmap(by_set: Sequence[Row], metric: str, *, maximise: bool, title: str) -> alt.LayerChart:
    """One metric for every corruption and severity; darker is better.

    Args:
        by_set: Rows with `corruption`, `severity` and `metrics`.
        metric: Which of the metrics.
        maximise: Whether more of it is better.
        title: What is shown.
    """
    item = Objective(metric, Quantity(maximise=maximise))
    cells = cells_of(by_set, metric)
    scale = heat_scale([cell["value"] for cell in cells], item)
    return shift_panel(cells, title, scale, f"{NAMES.get(metric, metric)}, darker is better")


def cells_of(by_set: Sequence[Row], metric: str) -> list[dict[str, Any]]:
    """Rows `corruption`, `severity` and `value` of the sets whose value is known."""
    return [
        {"corruption": row["corruption"], "severity": row["severity"], "value": rounded(row["metrics"][metric])}
        for row in by_set
        if is_known(row["metrics"].get(metric))
    ]


def difference_panel(cells: Sequence[Row], others: Sequence[Row], title: str, item: Objective) -> alt.LayerChart:
    """By how much the first differ from the second, on the sets that both have."""
    second = {(cell["corruption"], cell["severity"]): cell["value"] for cell in others}
    both = [cell for cell in cells if (cell["corruption"], cell["severity"]) in second]
    apart = [{**cell, "value": rounded(cell["value"] - second[cell["corruption"], cell["severity"]])} for cell in both]
    scale = difference_scale([cell["value"] for cell in apart], item)
    return shift_panel(apart, title, scale, f"{objective_label(item)}: blue is better, orange worse", sign="+")


def shift_panel(cells: Sequence[Row], title: str, scale: alt.Scale, meaning: str, sign: str = "") -> alt.LayerChart:
    """A heat map, corruptions by their families.

    Args:
        cells: Rows `corruption`, `severity` and `value`, at least one.
        title: What is shown.
        scale: Of the colours.
        meaning: Of the colours.
        sign: `+` where numbers are differences.
    """
    values = [cell["value"] for cell in cells]
    rows = rows_of({cell["corruption"] for cell in cells})
    drawn = [{**cell, "name": cell["corruption"].replace("_", " ")} for cell in cells]
    shown = f"{sign}{number_format(values)}"
    base = alt.Chart().encode(
        x=alt.X("severity:O", title="severity", axis=alt.Axis(labelAngle=0, orient="top", domain=False, ticks=False)),
        y=alt.Y("corruption:N", title=None, scale=alt.Scale(domain=rows), axis=_corruption_axis()),
    )
    told = [
        alt.Tooltip("name:N", title="corruption"),
        alt.Tooltip("severity:O"),
        alt.Tooltip("value:Q", title=meaning.split(",")[0].split(":")[0], format=f"{sign}.4f"),
    ]
    layers = [
        base.mark_rect(stroke=GREY, strokeOpacity=0.3, strokeWidth=0.5).encode(
            heat_colour("value", scale, meaning), tooltip=told
        ),
        base.mark_text(fontSize=10).encode(text=alt.Text("value:Q", format=shown), color=ink_on(scale, "value")),
    ]
    mean = format(sum(values) / len(values), shown)
    return layered(drawn, layers, heading(title, f"mean of {len(values)} sets {mean}"), ROW_HEIGHT * len(rows))


def rows_of(corruptions: set[str]) -> list[str]:
    """Corruptions from top to bottom, above those of each family its name.

    Example:
        >>> rows_of({"fog", "glass_blur", "hail"})
        ['Blur', 'glass_blur', 'Weather', 'fog', 'Others', 'hail']
    """
    known = {name for names in FAMILIES.values() for name in names}
    families = {**FAMILIES, OTHERS: tuple(sorted(corruptions - known))}
    present = {family: [name for name in names if name in corruptions] for family, names in families.items()}
    return [row for family, names in present.items() if names for row in (family, *names)]


def _corruption_axis() -> alt.Axis:
    """Names without what their family says already; families in bold."""
    is_family = f"indexof({[*FAMILIES, OTHERS]}, datum.value) >= 0"
    spoken = "datum.value"
    for ending in SAID_BY_FAMILY:
        spoken = f"replace({spoken}, '{ending}', '')"
    weight = {"condition": {"test": is_family, "value": "bold"}, "value": "normal"}
    return alt.Axis(labelExpr=spoken, labelFontWeight=weight, domain=False, ticks=False, labelOverlap=False)
