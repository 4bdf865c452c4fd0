"""Correlation of the errors of members against i, N and K, on the test split of PneumoniaMNIST.

    sae train --config docs/reproduction/independence-pneumonia.yaml --set method.inputs=2 --seed 0 --out grid/n2-0
    python -m benchmarks.independence grid        # all runs below a folder → JSON and picture
    python -m benchmarks.independence --table     # the table of docs/reproduction.md from the stored results

The runs vary i (the same at all steps), N or K around one network, each with several seeds. Runs of deep ensembles in
the folder are the reference: networks that are trained independently.
"""

import argparse
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from sae.analysis.trials import CorrelationPoint
from sae.config.methods import SaeConfig
from sae.data.batches import evaluation_batches
from sae.measure.uncertainty import error_correlations
from sae.records.run import RunRecord
from sae.report.figures.search import side_by_side
from sae.report.figures.trials import independence_figure
from sae.training.evaluator import member_outputs
from sae.training.run import preparation, restore
from sae.training.run_evaluation import evaluate
from sae.training.trainer import torch_threads

STORED = Path(__file__).parents[1] / "docs" / "reproduction" / "independence.json"
FIGURE = STORED.with_suffix(".png")
VARIED = {"i end": "i", "inputs": "N", "exits": "K"}

Row = dict[str, Any]


def measure(run: Path) -> Row:
    """Return settings of a run, and the correlation of errors: of all used members, and of two kinds of pairs."""
    record = RunRecord.open(run)
    config = record.read_config()
    settings = config.method
    row: Row = {
        "method": settings.name,
        "seed": config.seed,
        "i end": settings.repeat_fraction.end if isinstance(settings, SaeConfig) else None,
        "inputs": settings.num_inputs,
        "exits": settings.trained_exits,
    }
    evaluation = evaluate(run, eval_exits=record.read_evaluation().exits)
    row |= {key: evaluation.metrics.get(key) for key in ("error_correlation", "accuracy", "nll", "f1")}
    if not settings.has_exits:
        return row
    with torch_threads(config.train.threads):
        method, dataset = restore(record)
        outputs = member_outputs(method, evaluation_batches(dataset.test.inputs, preparation(dataset, "cpu")))
        used = (method.member_weights() > 0).nonzero().flatten()
        matrix = error_correlations(method.task, outputs[:, used], torch.from_numpy(dataset.test.targets))
    input_of = used // method.depth
    pairs = torch.triu(torch.ones_like(matrix, dtype=torch.bool), diagonal=1)
    same = input_of[:, None] == input_of
    for key, mask in {"same_input": pairs & same, "other_input": pairs & ~same}.items():
        row[key] = matrix[mask].nanmean().item() if mask.any() else None
    return row


def variations(rows: list[Row]) -> dict[str, list[Row]]:
    """Return the runs of SAE that differ from the most frequent network in one setting, or in none, by setting."""
    found = [row for row in rows if row["method"] == "sae"]
    common = {key: max({row[key] for row in found}, key=[row[key] for row in found].count) for key in VARIED}
    return {
        key: [row for row in found if all(row[other] == common[other] for other in VARIED if other != key)]
        for key in VARIED
    }


def spread(rows: list[Row], key: str) -> str:
    """Format the mean ± standard deviation over the runs that have a number."""
    values = [row[key] for row in rows if row.get(key) is not None]
    if not values:
        return "–"
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def table(rows: list[Row]) -> str:
    """Return the stored results as a table in Markdown."""
    header = ["", "runs", "all pairs", "same input", "different inputs", "accuracy"]
    lines = [header, ["---"] * len(header)]
    keys = ("error_correlation", "same_input", "other_input", "accuracy")
    for key, found in variations(rows).items():
        for value in sorted({row[key] for row in found}):
            group = [row for row in found if row[key] == value]
            lines.append([f"{VARIED[key]} = {value:g}", str(len(group)), *(spread(group, name) for name in keys)])
    others = [row for row in rows if row["method"] != "sae"]
    if others:
        lines.append(["deep ensemble of 3", str(len(others)), *(spread(others, name) for name in keys)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(rows: list[Row]) -> None:
    """Draw the figure of the report page, with the runs that vary one setting."""
    labels = {"i end": "i end", "inputs": "N", "exits": "K"}
    points = [
        CorrelationPoint(
            labels[key], row[key], row["error_correlation"], f"{labels[key]}={row[key]:g}, seed {row['seed']}"
        )
        for key, found in variations(rows).items()
        for row in found
        if row["error_correlation"] is not None
    ]
    figure = independence_figure(points, name="independence", title="Do members err independently?")
    assert figure is not None
    side_by_side(figure.panels, figure.title).save(FIGURE, ppi=144)


def main() -> None:
    """Measure all runs below a folder and store the results; or print the stored table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.folder is not None:
        finished = [path for path in sorted(given.folder.iterdir()) if RunRecord(path).has_finished()]
        rows = [measure(path) for path in finished]
        STORED.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        draw(rows)
    print(table(json.loads(STORED.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
