"""Figure of a trimmed network: quality over cost of learnt exits and of members chosen after training."""

import altair as alt

from sae.config.methods import ORANGE
from sae.core.objectives import COSTS, metric_label
from sae.core.wording import count
from sae.records.trimming import Trimming
from sae.report.figures.depth import PANEL_HEIGHT, PANEL_WIDTH, PLAIN_GREY


def trim_figure(found: Trimming, *, title: str) -> alt.VConcatChart:
    """Draw each metric (rows of panels) over the limited cost, on validation and on test samples (columns)."""
    subtitle = [
        "Grey: the learnt exits at every K′. Orange: members chosen greedily at several limits. Ringed: this run.",
        f"The members were chosen on {count(found.val_samples, 'validation sample')}; test samples took no part.",
    ]
    heading = alt.TitleParams(title, subtitle=subtitle, anchor="start", fontSize=15, subtitleColor="#555555", offset=12)
    rows = [
        alt.hconcat(*(_panel(found, metric, split) for split in ("val", "test")), spacing=18)
        for metric in found.metrics
    ]
    chart: alt.VConcatChart = alt.vconcat(*rows, spacing=14, title=heading).configure_view(stroke=None)
    return chart


def _panel(found: Trimming, metric: str, split: str) -> alt.LayerChart:
    cost = COSTS[found.cost]
    values = [
        {
            "x": point.val.costs[found.cost] / cost.divisor,
            "y": getattr(point, split).metrics[metric],
            "kind": point.kind,
        }
        for point in found.of_kind("theta", "greedy", "chosen")
    ]
    scale = alt.Scale(zero=False, nice=False, padding=12)
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X("x:Q", title=cost.unit, scale=scale, axis=alt.Axis(tickCount=5, gridOpacity=0.4)),
        y=alt.Y(
            "y:Q",
            title=f"{metric_label(metric)} on {'validation' if split == 'val' else 'test'} ↓",
            scale=scale,
            axis=alt.Axis(tickCount=4, gridOpacity=0.4, format=".3~g", minExtent=34),
        ),
    )
    greedy, learnt = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("greedy", "theta"))
    layers = [
        learnt.mark_line(color=PLAIN_GREY, strokeWidth=1.3, opacity=0.45),
        learnt.mark_point(filled=True, color=PLAIN_GREY, size=55, opacity=0.9, shape="square"),
        greedy.mark_line(color=ORANGE, strokeWidth=1.3, opacity=0.45),
        greedy.mark_point(filled=True, color=ORANGE, size=38, opacity=1),
        base.transform_filter("datum.kind == 'chosen'").mark_point(size=260, stroke="black", strokeWidth=1.3),
    ]
    return alt.LayerChart(layer=layers, width=PANEL_WIDTH, height=PANEL_HEIGHT)
