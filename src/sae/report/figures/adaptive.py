"""Figure of adaptive exits: quality over mean FLOPs and over measured time."""

from collections.abc import Mapping, Sequence

import altair as alt

from sae.config.methods import ORANGE

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
    rule = alt.Chart(alt.Data(values=[plain])).mark_rule(color=PLAIN_GREY, strokeDash=[3, 3], opacity=0.6)
    layers = [
        rule.encode(y="y:Q"),
        adaptive.mark_line(color=ORANGE, strokeWidth=1.3, opacity=0.45).encode(order="order:Q"),
        adaptive.mark_point(filled=True, color=ORANGE, size=38, opacity=1),
        base.transform_filter("datum.kind == 'plain' || datum.kind == 'again'").mark_point(
            filled=True, color=PLAIN_GREY, size=55, opacity=0.9, shape="square"
        ),
        base.transform_filter("datum.kind == 'calibrated'").mark_point(size=260, stroke="black", strokeWidth=1.3),
    ]
    return alt.LayerChart(layer=layers, width=PANEL_WIDTH, height=PANEL_HEIGHT)
