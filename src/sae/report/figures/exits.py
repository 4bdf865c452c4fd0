"""Figures of exits: depth preference over training, and the trade-offs of adaptive exits and of trimmed networks."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

import altair as alt
import numpy as np

from sae.analysis.depth import DepthPoint
from sae.config.methods import ORANGE
from sae.core.objectives import COSTS, metric_label
from sae.core.table import MISSING
from sae.core.wording import count
from sae.records.evaluation import SPLITS, Split
from sae.records.network import Trimming, TrimPoint
from sae.report.content import Figure
from sae.report.figures.axes import (
    GREY,
    Axes,
    DrawnRow,
    chart_of,
    domain_of,
    heading,
    is_known,
    layered,
    rounded,
    same_axis,
    whole_ticks,
)
from sae.report.figures.curves import end_labels, label_space

SHALLOW_TO_DEEP = ("#5D57B5", "#3A75A8", "#21918C", "#3BA968", "#7FB62F")
"""The part of viridis that is visible on light and on dark pages."""
DEPTH_HEIGHT = 210
SPLIT_NAMES: dict[Split, str] = {"val": "validation", "test": "test"}


class DepthRow(TypedDict):
    """The probability of an exit after an epoch, with the ends of its band."""

    x: float
    y: float
    exit: int
    runs: int
    low: float
    high: float
    std: str


class LabelledRow(DepthRow):
    """The last epoch of an exit."""

    label: str


def depth_figure(points: Sequence[DepthPoint], *, depth: int, name: str, title: str) -> Figure | None:
    """Draw a panel for each group of runs with a line for each exit; None where there is no run.

    Args:
        points: All groups.
        depth: D, the number of exits.
        name: Name of the figure.
        title: Title of the figure.
    """
    known = [point for point in points if is_known(point.mean)]
    if not known:
        return None
    several = any(point.runs > 1 for point in known)
    means = " Line: mean over runs. Band: one standard deviation." if several else ""
    caption = (
        f"The probability of each exit during training, from the first exit (dark) to the last (pale).{means} Dashed: "
        "no preference, all exits equal."
    )
    top = min(1.0, 1.08 * max(band_of(point)[1] for point in known))
    groups = dict.fromkeys(point.group for point in known)
    panels = (
        _depth_panel([point for point in known if point.group == group], group, depth=depth, top=top)
        for group in groups
    )
    return Figure(name, title, caption, tuple(panels))


def band_of(point: DepthPoint) -> tuple[float, float]:
    """Return one standard deviation to each side of the mean, within [0, 1]."""
    mean, std = point.mean or 0.0, point.std if is_known(point.std) else 0.0
    return max(0.0, mean - std), min(1.0, mean + std)


def _depth_panel(points: Sequence[DepthPoint], group: str, *, depth: int, top: float) -> alt.LayerChart:
    """Draw one group; all panels share the top of the vertical axis, so that they can be compared."""
    drawn = [_row(point) for point in points]
    first, last = min(row["x"] for row in drawn), max(row["x"] for row in drawn)
    axes = _axes(first, last, top)
    exits = sorted({row["exit"] for row in drawn})
    scale = alt.Scale(domain=exits, range=[exit_colour(number, depth) for number in exits])
    colour = alt.Color("exit:O", scale=scale, legend=None)
    base = alt.Chart().encode(colour, **axes)
    ends: list[LabelledRow] = [{**row, "label": f"exit {row['exit']}"} for row in drawn if row["x"] == last]
    tooltip = [
        alt.Tooltip("exit:O"),
        alt.Tooltip("x:Q", title="epoch"),
        alt.Tooltip("y:Q", title="probability", format=".3f"),
        alt.Tooltip("std:N", title="± over runs"),
        alt.Tooltip("runs:Q"),
    ]
    equal = chart_of([{"x": first, "last": last, "y": 1 / depth}]).encode(**axes, x2=alt.X2("last:Q"))
    layers = [
        equal.mark_rule(color=GREY, strokeDash=[4, 4], strokeWidth=1.2),
        base.mark_area(opacity=0.16, line=False).encode(y=same_axis(axes["y"], "low"), y2=alt.Y2("high:Q")),
        base.mark_line(strokeWidth=2.2),
        base.mark_point(filled=True, size=70, opacity=0).encode(tooltip=tooltip),
        *end_labels(ends, axes, [colour], (0, top)),
    ]
    runs = max(point.runs for point in points)
    return layered(drawn, layers, heading(group, count(runs, "run")), DEPTH_HEIGHT)


def exit_colour(number: int, depth: int) -> str:
    """Return the colour of an exit from 1 to D, the same in every panel.

    Example:
        >>> exit_colour(1, 5), exit_colour(5, 5), exit_colour(1, 1)
        ('#5d57b5', '#7fb62f', '#5d57b5')
    """
    stops = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in SHALLOW_TO_DEEP])
    place = (number - 1) / max(1, depth - 1) * (len(stops) - 1)
    mixed = [np.interp(place, np.arange(len(stops)), stops[:, channel]) for channel in range(3)]
    return f"#{''.join(f'{round(value):02x}' for value in mixed)}"


def _row(point: DepthPoint) -> DepthRow:
    low, high = map(rounded, band_of(point))
    spread = f"{point.std:.3f}" if is_known(point.std) else MISSING
    return {
        "x": point.epoch,
        "y": rounded(point.mean or 0.0),
        "exit": point.exit,
        "runs": point.runs,
        "low": low,
        "high": high,
        "std": spread,
    }


def _axes(first: float, last: float, top: float) -> Axes:
    """Return axes with room for labels behind the last epoch."""
    span = last - first or 1.0
    across = alt.Scale(domain=[first, first + span / (1 - label_space(["exit 1"]))], nice=False, zero=False)
    return {
        "x": alt.X(
            "x:Q", title="epoch", scale=across, axis=alt.Axis(values=whole_ticks(first, last), format="d", grid=False)
        ),
        "y": alt.Y(
            "y:Q",
            title="probability",
            scale=alt.Scale(domain=[0, top], nice=False),
            axis=alt.Axis(tickCount=5, gridOpacity=0.4),
        ),
    }


PLAIN_GREY = "#595959"
PANEL_WIDTH, PANEL_HEIGHT = 230, 170
ADAPTIVE_METRICS = (("accuracy", "accuracy ↑", ".3f"), ("nll", "NLL ↓", ".3f"), ("ece", "ECE ↓", ".3f"))
ADAPTIVE_COSTS = (
    ("mean_flops", "mean FLOPs, relative to the plain graph"),
    ("ms_batch64", "ms for a batch of 64"),
    ("ms_batch1", "ms for a single sample"),
)

Row = Mapping[str, str | float]


def adaptive_figure(rows: Sequence[Row], *, title: str) -> alt.VConcatChart:
    """Draw accuracy, NLL and ECE (rows of panels) over FLOPs, time per batch of 64 and time per sample (columns).

    Args:
        rows: Thresholds with `kind` (plain, again, adaptive, calibrated), `threshold`, metrics and costs.
        title: Title of the picture.
    """
    chosen = next(row for row in rows if row["kind"] == "calibrated")
    threshold = chosen["threshold"]
    can_leave = not isinstance(threshold, str) and threshold <= 1
    level = f"at confidence {threshold:.3f}" if can_leave else "at the last exit only"
    subtitle = [
        f"Orange: confidence thresholds. Ringed: the calibrated one, which stops {level}.",
        "Grey squares: the plain graph, timed twice; the difference between the two is noise. Test split.",
    ]
    heading = alt.TitleParams(title, subtitle=subtitle, anchor="start", fontSize=15, subtitleColor="#555555", offset=12)
    grid = [
        alt.hconcat(
            *(
                _panel(rows, cost, metric, with_x=metric is ADAPTIVE_METRICS[-1], with_y=cost is ADAPTIVE_COSTS[0])
                for cost in ADAPTIVE_COSTS
            ),
            spacing=18,
        )
        for metric in ADAPTIVE_METRICS
    ]
    chart: alt.VConcatChart = alt.vconcat(*grid, spacing=14, title=heading).configure_view(stroke=None)
    return chart


def _panel(
    rows: Sequence[Row], cost: tuple[str, str], metric: tuple[str, str, str], *, with_x: bool, with_y: bool
) -> alt.LayerChart:
    (x, x_title), (y, y_title, y_format) = cost, metric
    values = [{"x": row[x], "y": row[y], "kind": row["kind"], "order": index} for index, row in enumerate(rows)]
    plain = next(value for value in values if value["kind"] == "plain")
    base = chart_of(values).encode(
        x=alt.X(
            "x:Q",
            title=x_title if with_x else None,
            scale=alt.Scale(zero=False, nice=False, padding=12),
            axis=alt.Axis(tickCount=5, gridOpacity=0.4, labels=with_x, ticks=with_x),
        ),
        y=alt.Y(
            "y:Q",
            title=y_title if with_y else None,
            scale=alt.Scale(zero=False, nice=False, padding=12),
            axis=alt.Axis(
                tickCount=4,
                gridOpacity=0.4,
                labels=with_y,
                ticks=with_y,
                format=y_format,
                minExtent=34 if with_y else 0,
            ),
        ),
    )
    adaptive = base.transform_filter("datum.kind == 'adaptive' || datum.kind == 'calibrated'")
    rule = chart_of([plain]).mark_rule(color=PLAIN_GREY, strokeDash=[3, 3], opacity=0.6)
    layers = [
        rule.encode(y=alt.Y("y:Q")),
        adaptive.mark_line(color=ORANGE, strokeWidth=1.3, opacity=0.45).encode(order=alt.Order("order:Q")),
        adaptive.mark_point(filled=True, color=ORANGE, size=38, opacity=1),
        base.transform_filter("datum.kind == 'plain' || datum.kind == 'again'").mark_point(
            filled=True, color=PLAIN_GREY, size=55, opacity=0.9, shape="square"
        ),
        base.transform_filter("datum.kind == 'calibrated'").mark_point(size=260, stroke="black", strokeWidth=1.3),
    ]
    return alt.LayerChart(layer=layers, width=PANEL_WIDTH, height=PANEL_HEIGHT)


def trim_figure(found: Trimming, *, name: str, title: str) -> Figure:
    """Draw each metric over the limited cost, on validation and on test samples.

    Args:
        found: The choice, with the curve that it is a point of.
        name: Name of the figure.
        title: Title of the figure.
    """
    caption = (
        "Grey squares: the learnt exits at every K′. Orange dots: members chosen greedily within several limits. "
        f"Ringed: this run. The members were chosen on {count(found.val_samples, 'validation sample')}; test samples "
        "took no part."
    )
    panels = tuple(trim_panel(found, metric, split) for metric in found.metrics for split in SPLITS)
    return Figure(name, title, caption, panels)


def trim_panel(found: Trimming, metric: str, split: Split) -> alt.LayerChart:
    """Draw one metric on one split over the limited cost."""
    cost, label = COSTS[found.cost], metric_label(metric)
    rows = [_trim_row(found, point, metric, split) for point in found.of_kind("theta", "greedy", "chosen")]
    low, high = domain_of(point.val.costs[found.cost] / cost.divisor for point in found.points)
    base = alt.Chart().encode(
        x=alt.X(
            "x:Q",
            title=cost.unit,
            scale=alt.Scale(domain=[low, high], nice=False),
            axis=alt.Axis(tickCount=5, gridOpacity=0.4),
        ),
        y=alt.Y(
            "y:Q",
            title=f"{label} ↓",
            scale=alt.Scale(zero=False, nice=False, padding=12),
            axis=alt.Axis(tickCount=4, gridOpacity=0.4, format=".3~g", minExtent=34),
        ),
        tooltip=[
            alt.Tooltip("network:N"),
            alt.Tooltip("members:Q"),
            alt.Tooltip("x:Q", title=cost.unit),
            alt.Tooltip("y:Q", title=label),
        ],
    )
    learnt, greedy, chosen = (
        base.transform_filter(f"datum.kind == '{kind}'") for kind in ("theta", "greedy", "chosen")
    )
    layers = [
        learnt.mark_line(color=GREY, strokeWidth=1.3, opacity=0.6),
        learnt.mark_point(filled=True, color=GREY, size=55, opacity=1, shape="square"),
        greedy.mark_line(color=ORANGE, strokeWidth=1.3, opacity=0.6),
        greedy.mark_point(filled=True, color=ORANGE, size=38, opacity=1),
        chosen.mark_point(size=260, stroke=ORANGE, strokeWidth=2),
    ]
    return layered(rows, layers, heading(f"{label} on {SPLIT_NAMES[split]}"))


def _trim_row(found: Trimming, point: TrimPoint, metric: str, split: Split) -> DrawnRow:
    reading = point.val if split == "val" else point.test
    return {
        "x": rounded(point.val.costs[found.cost] / COSTS[found.cost].divisor),
        "y": rounded(reading.metrics[metric]),
        "kind": point.kind,
        "network": f"learnt, K′ = {point.eval_exits}" if point.kind == "theta" else "chosen",
        "members": point.members,
    }
