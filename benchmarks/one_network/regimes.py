"""The regime map: the best method by number of training images and width of the network, raw and scaled.

A learning rate is chosen once, on validation data of the seed for tuning; the reported seeds are others.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import mean

import altair as alt
from pydantic import BaseModel, TypeAdapter

from benchmarks.one_network.queue import Queue
from benchmarks.one_network.results import Difference, difference, spread
from benchmarks.one_network.rows import CELLS, ENSEMBLE, REGIME_ROWS, ROWS, SEEDS, SIZES, WIDTHS, regime
from sae.analysis.bootstrap import compare_samples
from sae.analysis.contestants import Contestant, read_contestant

STORED = Path(__file__).parents[2] / "docs" / "reproduction" / "regimes.json"
FIGURE = STORED.with_suffix(".png")
KINDS = {"nll": "NLL as trained", "nll_scaled": "NLL after temperature scaling"}
KEPT = (*KINDS, "accuracy", "ece", "cc_ece")
STANDARD = "standard"
COLOURS = {ENSEMBLE: "#4c78a8", "sae-1x5": "#e45756", "sae-3x5": "#b07aa1"}
"""Methods that the figure compares with a standard network."""


class Cell(BaseModel):
    """One method in one cell of the map.

    Attributes:
        size: Training images.
        width: Width of the network.
        row: The method.
        rate: The learning rate that validation data chose.
        seeds: The seeds of the trainings.
        params: Parameters of the trained network, pruned; of the first seed.
        flops: FLOPs of the exported network, for a sample; of the first seed.
        test: Metrics on test data, by name and seed.
        from_standard: Differences from the standard network on the same test samples, by metric.
        from_ensemble: Differences from the deep ensemble.
    """

    size: int
    width: int
    row: str
    rate: float
    seeds: list[int]
    params: int
    flops: int
    test: dict[str, list[float]]
    from_standard: dict[str, Difference] = {}
    from_ensemble: dict[str, Difference] = {}


Cells = TypeAdapter(list[Cell])
Place = tuple[int, int, str]
"""Training images, width and method."""


def work_on_map(out: Path) -> None:
    """Run the missing trainings, cell by cell, and store the results after each; stored learning rates are used."""
    for size, width in CELLS:
        stored = read_map()
        queue, rates = Queue(regime(size, width), out), {}
        for row in REGIME_ROWS:
            known = stored.get((size, width, row))
            if known is None:
                queue.tune([row])
            rates[row] = known.rate if known else queue.best_rate(row)
            for seed in SEEDS:
                queue.run(row, rates[row], seed)
        _store({**stored, **_measure(queue, size, width, rates)})


def _measure(queue: Queue, size: int, width: int, rates: Mapping[str, float]) -> dict[Place, Cell]:
    """Return the methods of one cell, compared with each other on the same test samples."""
    runs = {row: [queue.folder(row, rate, seed) for seed in SEEDS] for row, rate in rates.items()}
    sides = {row: read_contestant(folders, as_trained=True) for row, folders in runs.items()}

    def differences(row: str, other: str) -> dict[str, Difference]:
        return {} if row == other else _differences(sides[row], sides[other])

    cells = {}
    for row, rate in rates.items():
        found = [queue.read(row, rate, seed).test for seed in SEEDS]
        cells[size, width, row] = Cell(
            size=size,
            width=width,
            row=row,
            rate=rate,
            seeds=list(SEEDS),
            params=found[0].params,
            flops=found[0].shipped_flops,
            test={key: [item.metrics[key] for item in found] for key in KEPT},
            from_standard=differences(row, STANDARD),
            from_ensemble=differences(row, ENSEMBLE),
        )
    return cells


def _differences(one: Contestant, other: Contestant) -> dict[str, Difference]:
    return {item.metric: (item.value, item.low, item.high) for item in compare_samples(one, other, tuple(KINDS))}


def _store(cells: Mapping[Place, Cell]) -> None:
    places = [(size, width, row) for size, width in CELLS for row in REGIME_ROWS]
    stored = [cells[place].model_dump() for place in places if place in cells]
    STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def read_map() -> dict[Place, Cell]:
    """Return the stored cells."""
    cells = Cells.validate_json(STORED.read_text(encoding="utf-8")) if STORED.exists() else []
    return {(cell.size, cell.width, cell.row): cell for cell in cells}


def _places() -> list[dict[str, Cell]]:
    """Return the places of the map where all methods are trained, as the methods by name."""
    cells = read_map()
    found = [{row: cells[*place, row] for row in REGIME_ROWS if (*place, row) in cells} for place in CELLS]
    return [each for each in found if len(each) == len(REGIME_ROWS)]


def regime_table() -> str:
    """Return the map as a table: NLL after temperature scaling and as trained, the best single network is marked."""
    columns = ["training images", "W", "images per parameter", "seeds"]
    columns += [f"{ROWS[row].title}: scaled (as trained)" for row in REGIME_ROWS]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for cells in _places():
        own, texts = cells[STANDARD], []
        best = {key: min(mean(cells[row].test[key]) for row in cells if row != ENSEMBLE) for key in KINDS}
        for cell in cells.values():
            shown = {key: _number(cell, key) for key in KINDS}
            for key in KINDS:
                if mean(cell.test[key]) == best[key]:
                    shown[key] += " ◂"
            texts.append(f"{shown['nll_scaled']} ({shown['nll']})")
        about = [f"{own.size:,}", f"{own.width}", f"{own.size / own.params:.2g}", f"{len(own.seeds)}"]
        lines.append(f"| {' | '.join([*about, *texts])} |")
    return "\n".join(lines)


def _number(cell: Cell, key: str) -> str:
    """Return the mean of a metric over seeds; of the scaled NLL also the spread, if there are several."""
    has_spread = key == "nll_scaled" and len(cell.seeds) > 1
    return spread(cell.test[key], 3) if has_spread else f"{mean(cell.test[key]):.3f}"


def regime_differences() -> str:
    """Return the differences of the map as a table: in NLL after scaling, from a standard network and the ensemble."""
    saes = [row for row in REGIME_ROWS if row not in (STANDARD, ENSEMBLE)]
    columns = ["training images", "W", f"{ROWS[ENSEMBLE].title} − standard network"]
    columns += [f"{ROWS[row].title} − standard network" for row in saes]
    columns += [f"{ROWS[row].title} − ensemble, at its FLOPs ×" for row in saes]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for cells in _places():
        whole = cells[ENSEMBLE]
        if not whole.from_standard:  # of a single seed there are no intervals
            continue
        texts = [difference(cells[row].from_standard["nll_scaled"]) for row in (ENSEMBLE, *saes)]
        texts += [
            f"{difference(cells[row].from_ensemble['nll_scaled'])}, {cells[row].flops / whole.flops:.2f} ×"
            for row in saes
        ]
        lines.append(f"| {whole.size:,} | {whole.width} | {' | '.join(texts)} |")
    return "\n".join(lines)


def draw_map() -> None:
    """Draw the differences from the standard network over the number of images, a panel for each width and kind."""
    rows = [_panels(kind) for kind in KINDS]
    title = alt.TitleParams(
        "Fashion-MNIST, FC: below the dashed line is better than one standard network",
        subtitle="The best epoch of each is kept. Points with a 95 % interval are means of three seeds, others of one. "
        "Only W = 1 was trained on all 55,000 images.",
        anchor="start",
    )
    alt.vconcat(*rows, title=title).save(FIGURE, ppi=144)


def _from_standard(cell: Cell, standard: Cell, kind: str) -> Difference:
    """Return a difference from the standard network; that of a single seed has no interval, so its ends are equal."""
    single = mean(cell.test[kind]) - mean(standard.test[kind])
    return cell.from_standard.get(kind, (single, single, single))


def _panels(kind: str) -> alt.HConcatChart:
    """Draw a row of panels, one for each width, with a common scale of differences."""
    found = [(each[row], _from_standard(each[row], each[STANDARD], kind)) for each in _places() for row in COLOURS]
    ends = [end for _, numbers in found for end in numbers]
    panels = []
    for width in WIDTHS:
        own = [
            {
                "images": cell.size * (0.94 + 0.06 * list(COLOURS).index(cell.row)),  # so that intervals do not overlap
                "method": ROWS[cell.row].title,
                **dict(zip(("difference", "low", "high"), numbers, strict=True)),
            }
            for cell, numbers in found
            if cell.width == width
        ]
        base = alt.Chart(alt.Data(values=own)).encode(
            x=alt.X(
                "images:Q",
                scale=alt.Scale(type="log", domain=[min(SIZES) * 0.8, max(SIZES) * 1.2]),
                axis=alt.Axis(values=list(SIZES), format=","),
                title="training images",
            ),
            y=alt.Y(
                "difference:Q",
                scale=alt.Scale(domain=[min(ends), max(ends)]),
                title=[KINDS[kind], "− that of a standard network"],
            ),
            color=alt.Color(
                "method:N",
                scale=alt.Scale(domain=[ROWS[row].title for row in COLOURS], range=list(COLOURS.values())),
                title=None,
            ),
        )
        zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(strokeDash=[3, 3]).encode(y="zero:Q")
        intervals = base.mark_rule(strokeWidth=1.5).encode(y="low:Q", y2="high:Q")
        panel = alt.layer(zero, intervals, base.mark_line(), base.mark_point(filled=True, size=40))
        panels.append(panel.properties(width=220, height=170, title=f"W = {width}"))
    return alt.hconcat(*panels)
