"""Figure of adaptive exits: quality over mean FLOPs and over measured time."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.report.labels import ORANGE

GREY = "#595959"
WIDTH, HEIGHT = 230, 170
METRICS = (("accuracy", "accuracy ↑", ".3f"), ("nll", "NLL ↓", ".3f"), ("ece", "ECE ↓", ".3f"))
COSTS = (
    ("mean_flops", "mean FLOPs, share of the plain graph"),
    ("ms_batch64", "ms for a batch of 64"),
    ("ms_batch1", "ms for a single sample"),
)

Row = Mapping[str, Any]


def adaptive_figure(rows: Sequence[Row], *, title: str) -> alt.VConcatChart:
    """Rows of panels for accuracy, NLL and ECE; columns for FLOPs, time in batches of 64 and time alone.

    Args:
        rows: With `kind` (plain, again, adaptive, calibrated), `threshold`, the metrics and costs.
        title: What is shown.
    """
    chosen = next(row for row in rows if row["kind"] == "calibrated")
    level = f"confidence {chosen['threshold']:.3f}" if chosen["threshold"] <= 1 else "the last exit only"
    subtitle = [
        f"orange: thresholds of the confidence; ringed: the calibrated one, leave from {level};",
        "grey square: the plain graph (twice over time: how far the two are apart is the noise). Test split.",
    ]
    heading = alt.TitleParams(title, subtitle=subtitle, anchor="start", fontSize=15, subtitleColor="#555555", offset=12)
    grid = [
        alt.hconcat(
            *(_panel(rows, cost, metric, with_x=metric is METRICS[-1], with_y=cost is COSTS[0]) for cost in COSTS),
            spacing=18,
        )
        for metric in METRICS
    ]
    chart: alt.VConcatChart = alt.vconcat(*grid, spacing=14, title=heading).configure_view(stroke=None)
    return chart


def _panel(
    rows: Sequence[Row], cost: tuple[str, str], metric: tuple[str, str, str], *, with_x: bool, with_y: bool
) -> alt.LayerChart:
    (x, x_title), (y, y_title, y_format) = cost, metric
    values = [{"x": row[x], "y": row[y], "kind": row["kind"], "order": index} for index, row in enumerate(rows)]
    plain = next(value for value in values if value["kind"] == "plain")
    base = alt.Chart(alt.Data(values=values)).encode(
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
    rule = alt.Chart(alt.Data(values=[plain])).mark_rule(color=GREY, strokeDash=[3, 3], opacity=0.6)
    layers = [
        rule.encode(y="y:Q"),
        adaptive.mark_line(color=ORANGE, strokeWidth=1.3, opacity=0.45).encode(order="order:Q"),
        adaptive.mark_point(filled=True, color=ORANGE, size=38, opacity=1),
        base.transform_filter("datum.kind == 'plain' || datum.kind == 'again'").mark_point(
            filled=True, color=GREY, size=55, opacity=0.9, shape="square"
        ),
        base.transform_filter("datum.kind == 'calibrated'").mark_point(size=260, stroke="black", strokeWidth=1.3),
    ]
    return alt.LayerChart(layer=layers, width=WIDTH, height=HEIGHT)
