"""Figure of a trimmed network: quality over cost of learnt exits and of members chosen after training."""

import altair as alt

from sae.config.methods import ORANGE
from sae.core.objectives import COSTS, metric_label
from sae.core.wording import count
from sae.records.evaluation import SPLITS, Split
from sae.records.trimming import Trimming, TrimPoint
from sae.report.content import Figure
from sae.report.figures.axes import GREY, DrawnRow, domain_of, heading, layered, rounded

SPLIT_NAMES: dict[Split, str] = {"val": "validation", "test": "test"}


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
    rows = [_row(found, point, metric, split) for point in found.of_kind("theta", "greedy", "chosen")]
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


def _row(found: Trimming, point: TrimPoint, metric: str, split: Split) -> DrawnRow:
    reading = point.val if split == "val" else point.test
    return {
        "x": rounded(point.val.costs[found.cost] / COSTS[found.cost].divisor),
        "y": rounded(reading.metrics[metric]),
        "kind": point.kind,
        "network": f"learnt, K′ = {point.eval_exits}" if point.kind == "theta" else "chosen",
        "members": point.members,
    }
