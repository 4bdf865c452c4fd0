"""How runs went: loss and validation NLL over the epochs."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.report.axes import domain_of, heading, is_known, layered, round_ticks, rounded
from sae.report.content import Figure
from sae.report.lines import curve_layers, curve_looks, end_labels, label_space

CURVES = (("loss", "Training loss", "loss ↓"), ("val_nll", "Validation NLL", "NLL ↓"))

Row = Mapping[str, Any]


def training_figure(rows: Sequence[Row], *, name: str, title: str) -> Figure | None:
    """A panel for the loss and one for validation; None where no epoch has ended.

    Args:
        rows: With `label`, `kind`, `epoch`, `loss` and `val_nll`; of the last two one may be missing.
        name: Of the figure.
        title: What is shown.
    """
    panels = [_panel(rows, *curve) for curve in CURVES if any(is_known(row.get(curve[0])) for row in rows)]
    if not panels:
        return None
    caption = (
        "The loss on training samples and the negative log-likelihood on validation samples after each epoch. Losses "
        "of different methods have different terms: only those of the same method may be compared."
    )
    return Figure(name, title, caption, tuple(panels))


def _panel(rows: Sequence[Row], key: str, text: str, axis: str) -> alt.LayerChart:
    drawn = [
        {"label": row["label"], "x": row["epoch"], "y": rounded(row[key])} for row in rows if is_known(row.get(key))
    ]
    kinds = {row["label"]: row["kind"] for row in rows if is_known(row.get(key))}
    first, last = min(row["x"] for row in drawn), max(row["x"] for row in drawn)
    low, high = domain_of(row["y"] for row in drawn)
    room = label_space(list(kinds))
    behind = last + (last - first or 1.0) * room / (1 - room)
    axes: dict[str, Any] = {
        "x": alt.X(
            "x:Q",
            title="epoch",
            scale=alt.Scale(domain=[first, behind], nice=False, zero=False),
            axis=alt.Axis(values=round_ticks(first, last), grid=False, format="d", titleAnchor="start"),
        ),
        "y": alt.Y(
            "y:Q",
            title=axis,
            scale=alt.Scale(domain=[low, high], nice=False, zero=False),
            axis=alt.Axis(tickCount=5, gridOpacity=0.4),
        ),
    }
    base = alt.Chart().encode(**axes)
    looks = curve_looks(kinds)
    told = [
        alt.Tooltip("label:N", title="run"),
        alt.Tooltip("x:Q", title="epoch"),
        alt.Tooltip("y:Q", title=text, format=".4~g"),
    ]
    ends = [[row for row in drawn if row["label"] == label][-1] for label in kinds]
    layers = [*curve_layers(base, looks, told), *end_labels(ends, axes, looks, (low, high))]
    return layered(drawn, layers, heading(text, f"{len(kinds)} {'run' if len(kinds) == 1 else 'runs'}"))
