"""Members chosen after training against the learnt exits, at the same cost, on test samples.

    for seed in 0 1 2; do
      sae train --config docs/reproduction/trim-pneumonia.yaml --seed $seed --out runs/pneumonia-$seed
      sae train --config docs/reproduction/trim-blood-cells.yaml --seed $seed --out runs/blood-cells-$seed
    done
    python -m benchmarks.trim pneumonia=runs/pneumonia-0,… blood-cells=runs/blood-cells-0,…
    python -m benchmarks.trim --table             # the table of docs/reproduction.md from the stored results

For every K′, members are chosen within the cost that the learnt top K′ exits of the same run have: its FLOPs, as the
paper counts them, or those of the exported network. Validation samples choose, test samples are reported.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from sae.records.evaluation import Reading
from sae.records.run import RunRecord
from sae.records.trimming import Trimming
from sae.training.trimming import trim

STORED = Path(__file__).parents[1] / "docs" / "reproduction" / "trim.json"
TITLES = {"pneumonia": "PneumoniaMNIST", "blood-cells": "blood cells, rebuilt, own split"}
COSTS = ("flops", "shipped_flops")
METRICS = {"nll": "NLL", "cc_ece": "CC-ECE"}

Row = dict[str, Any]


def rows_of(found: Trimming, cost: str) -> list[Row]:
    """Return a row for every K′: the learnt exits, and the members chosen within their cost."""
    greedy = found.of_kind("greedy")
    rows = []
    for learnt in found.of_kind("theta"):
        limit = learnt.val.costs[cost]
        chosen = max((point for point in greedy if (point.limit or 0) <= limit), key=lambda point: point.limit or 0)
        rows.append(
            {
                "eval_exits": learnt.eval_exits,
                "limit": limit,
                "learnt": numbers(learnt.test, cost) | {"members": learnt.members, "inputs": learnt.inputs},
                "chosen": numbers(chosen.test, cost) | {"members": chosen.members, "inputs": chosen.inputs},
            }
        )
    return sorted(rows, key=lambda row: row["eval_exits"])


def numbers(reading: Reading, cost: str) -> dict[str, float]:
    """Return the cost and the metrics of a network on test samples."""
    return {"cost": reading.costs[cost], **{key: reading.metrics[key] for key in METRICS}}


def measure(runs: list[Path]) -> Row:
    """Return the rows of some runs, which differ in their seed, for both costs."""
    found: Row = {"seeds": [RunRecord(run).read_config().seed for run in runs]}
    with tempfile.TemporaryDirectory() as folder:
        for cost in COSTS:
            largest = [RunRecord(run).read_evaluation().val.readings[-1].costs[cost] for run in runs]
            trimmed = [
                trim(run, Path(folder) / f"{cost}-{number}", {cost: limit})
                for number, (run, limit) in enumerate(zip(runs, largest, strict=True))
            ]
            found[cost] = [rows_of(item, cost) for item in trimmed]
            found["val_samples"] = trimmed[0].val_samples
    return found


def spread(values: list[float]) -> str:
    """Format the mean ± standard deviation over seeds."""
    return f"{mean(values):.4f} ± {stdev(values):.4f}"


def table(results: dict[str, Row]) -> str:
    """Return the stored results at equal FLOPs as a table in Markdown; the better mean of a pair is bold."""
    header = ["data", "K′", "MFLOPs: learnt, chosen", "members", "inputs, chosen", *(
        f"{label}, {kind}" for label in METRICS.values() for kind in ("learnt", "chosen")
    ), "chosen better, NLL, CC-ECE"]  # fmt: skip
    lines = [header, ["---"] * len(header)]
    for name, result in results.items():
        lines += [_cells(name, list(rows)) for rows in zip(*result["flops"], strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(name: str, rows: list[Row]) -> list[str]:
    def values(kind: str, key: str) -> list[float]:
        return [row[kind][key] for row in rows]

    pairs: list[str] = []
    for key in METRICS:
        texts = {kind: spread(values(kind, key)) for kind in ("learnt", "chosen")}
        better = min(texts, key=lambda kind: mean(values(kind, key)))
        pairs += [f"**{text}**" if kind == better else text for kind, text in texts.items()]
    wins = [sum(row["chosen"][key] < row["learnt"][key] for row in rows) for key in METRICS]
    return [
        TITLES[name],
        str(rows[0]["eval_exits"]),
        ", ".join(f"{mean(values(kind, 'cost')) / 1e6:.2f}" for kind in ("learnt", "chosen")),
        ", ".join(f"{mean(values(kind, 'members')):.1f}" for kind in ("learnt", "chosen")),
        f"{mean(values('chosen', 'inputs')):.1f}",
        *pairs,
        ", ".join(f"{count} of {len(rows)}" for count in wins),
    ]


def wins(results: dict[str, Row], cost: str) -> str:
    """Say in how many pairs of a seed and a K′ the chosen members are better, by data set and metric."""
    texts = []
    for name, result in results.items():
        pairs = [row for rows in result[cost] for row in rows]
        better = [
            f"{sum(row['chosen'][key] < row['learnt'][key] for row in pairs)} in {label}"
            for key, label in METRICS.items()
        ]
        texts.append(f"{TITLES[name]}: {' and '.join(better)} of {len(pairs)}")
    return "; ".join(texts)


def main() -> None:
    """Trim the named runs and store the results; or print the stored table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help="NAME=RUN,RUN,…")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    stored: dict[str, Row] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    for text in () if given.table else given.sets:
        name, _, runs = text.partition("=")
        stored[name] = measure([Path(run) for run in runs.split(",")])
        STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    print(table(stored))
    for cost in COSTS:
        print(cost, wins(stored, cost))


if __name__ == "__main__":
    main()
