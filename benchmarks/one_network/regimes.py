"""The regime map: the best method by number of training images and width of the network, raw and scaled.

Every cell has one seed: the training with the learning rate that validation data chose is reported.
"""

import json
from pathlib import Path

import altair as alt
from pydantic import BaseModel, TypeAdapter

from benchmarks.one_network.queue import TUNING_SEED, Queue
from benchmarks.one_network.rows import CELLS, ENSEMBLE, REGIME_ROWS, ROWS, SIZES, WIDTHS, regime

STORED = Path(__file__).parents[2] / "docs" / "reproduction" / "regimes.json"
FIGURE = STORED.with_suffix(".png")
KINDS = {"nll": "NLL as trained", "nll_scaled": "NLL after temperature scaling"}
COLOURS = {"ensemble": "#4c78a8", "standard": "#767676", "sae-1x5": "#e45756", "sae-3x5": "#b07aa1"}


class Cell(BaseModel):
    """One method in one cell of the map.

    Attributes:
        size: Training images.
        width: Width of the network.
        row: The method.
        rate: The learning rate that validation data chose.
        params: Parameters of the trained network, pruned.
        flops: FLOPs of the exported network, for a sample.
        test: Metrics on test data.
    """

    size: int
    width: int
    row: str
    rate: float
    params: int
    flops: int
    test: dict[str, float]


Cells = TypeAdapter(list[Cell])


def work_on_map(out: Path) -> None:
    """Run the missing trainings, cell by cell, and store the results after each."""
    for size, width in CELLS:
        Queue(regime(size, width), out).tune(REGIME_ROWS)
        _store(out)


def _store(out: Path) -> None:
    cells = []
    for size, width in CELLS:
        queue = Queue(regime(size, width), out)
        for row in REGIME_ROWS:
            if not queue.is_tuned(row):
                continue
            rate = queue.best_rate(row)
            found = queue.read(row, rate, TUNING_SEED).test
            kept = {key: found.metrics[key] for key in ("nll", "nll_scaled", "accuracy", "ece", "cc_ece")}
            cells.append(
                Cell(
                    size=size,
                    width=width,
                    row=row,
                    rate=rate,
                    params=found.params,
                    flops=found.shipped_flops,
                    test=kept,
                )
            )
    STORED.write_text(json.dumps([cell.model_dump() for cell in cells], indent=1) + "\n", encoding="utf-8")


def read_map() -> list[Cell]:
    """Return the stored cells."""
    return Cells.validate_json(STORED.read_text(encoding="utf-8")) if STORED.exists() else []


def regime_table() -> str:
    """Return the map as a table: NLL as trained and scaled, the best single network in bold."""
    cells = {(cell.size, cell.width, cell.row): cell for cell in read_map()}
    columns = ["training images", "W", "images per parameter"]
    columns += [f"{ROWS[row].title}: NLL, scaled" for row in REGIME_ROWS]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for size, width in CELLS:
        found = [cells[size, width, row] for row in REGIME_ROWS if (size, width, row) in cells]
        if len(found) < len(REGIME_ROWS):
            continue
        best = {key: min(cell.test[key] for cell in found if cell.row != ENSEMBLE) for key in KINDS}
        shares = next(cell for cell in found if cell.row == "standard").params
        texts = [
            ", ".join(
                f"**{cell.test[key]:.3f}**" if cell.test[key] == best[key] else f"{cell.test[key]:.3f}" for key in KINDS
            )
            for cell in found
        ]
        lines.append(f"| {size:,} | {width} | {size / shares:.2g} | {' | '.join(texts)} |")
    return "\n".join(lines)


def draw_map() -> None:
    """Draw the differences from the standard network over the number of images, a panel for each width and kind."""
    rows = [_panels(kind) for kind in KINDS]
    title = alt.TitleParams(
        "Fashion-MNIST, FC: below the dashed line is better than one standard network",
        subtitle="One seed; the best epoch of each is kept. Only W = 1 was trained on all 55,000 images.",
        anchor="start",
    )
    alt.vconcat(*rows, title=title).save(FIGURE, ppi=144)


def _panels(kind: str) -> alt.HConcatChart:
    """Draw a row of panels, one for each width, with a common scale of differences."""
    cells = {(cell.size, cell.width, cell.row): cell for cell in read_map()}
    differences = {
        (size, width, row): cell.test[kind] - cells[size, width, "standard"].test[kind]
        for (size, width, row), cell in cells.items()
        if row != "standard" and (size, width, "standard") in cells
    }
    ends = [min(differences.values()), max(differences.values())]
    shown = [row for row in COLOURS if row != "standard"]
    panels = []
    for width in WIDTHS:
        own = [
            {"images": size, "method": ROWS[row].title, "difference": difference}
            for (size, of_width, row), difference in differences.items()
            if of_width == width
        ]
        base = alt.Chart(alt.Data(values=own)).encode(
            x=alt.X(
                "images:Q",
                scale=alt.Scale(type="log", domain=[min(SIZES) * 0.8, max(SIZES) * 1.2]),
                axis=alt.Axis(values=list(SIZES), format=","),
                title="training images",
            ),
            y=alt.Y("difference:Q", scale=alt.Scale(domain=ends), title=[KINDS[kind], "− that of a standard network"]),
            color=alt.Color(
                "method:N",
                scale=alt.Scale(domain=[ROWS[row].title for row in shown], range=[COLOURS[row] for row in shown]),
                title=None,
            ),
        )
        zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(strokeDash=[3, 3]).encode(y="zero:Q")
        panel = alt.layer(zero, base.mark_line(), base.mark_point(filled=True, size=40))
        panels.append(panel.properties(width=220, height=170, title=f"W = {width}"))
    return alt.hconcat(*panels)
