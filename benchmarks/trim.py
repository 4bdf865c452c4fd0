"""Members chosen after training compared with the learnt exits, at the same cost, on test samples.

    for seed in 0 1 2; do
      sae train --config docs/reproduction/trim-pneumonia.yaml --seed $seed --out runs/pneumonia-$seed
      sae train --config docs/reproduction/trim-blood-cells.yaml --seed $seed --out runs/blood-cells-$seed
    done
    python -m benchmarks.trim pneumonia=runs/pneumonia-0,… blood-cells=runs/blood-cells-0,…
    python -m benchmarks.trim --table             # the table of docs/reproduction.md from the stored results

For every K′, members are chosen within the cost that the learnt top K′ exits of the same run have: its FLOPs, as the
paper counts them, or those of the exported network. Members are chosen on validation samples; results are on test.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Literal

from pydantic import TypeAdapter

from sae.records.evaluation import Part
from sae.records.network import Trimming, TrimPoint
from sae.records.run import RunRecord
from sae.training.trimming import trim

STORED = Path(__file__).parents[1] / "docs" / "reproduction" / "trim.json"
TITLES = {"pneumonia": "PneumoniaMNIST", "blood-cells": "blood cells, rebuilt, own split"}
Cost = Literal["flops", "shipped_flops"]
Kind = Literal["learnt", "chosen"]
Key = Literal["nll", "cc_ece"]
COSTS: tuple[Cost, ...] = ("flops", "shipped_flops")
KINDS: tuple[Kind, ...] = ("learnt", "chosen")
METRICS: dict[Key, str] = {"nll": "NLL", "cc_ece": "CC-ECE"}


class Network(Part):
    """The costs of a network, and its metrics on test samples."""

    cost: float
    nll: float
    cc_ece: float
    members: int
    inputs: int


class Pair(Part):
    """The learnt top K′ exits, and the members chosen within their cost."""

    eval_exits: int
    limit: float
    learnt: Network
    chosen: Network


class Measured(Part):
    """The pairs of every run, by the cost that is limited; the runs differ in their seed."""

    seeds: list[int]
    flops: list[list[Pair]]
    val_samples: int
    shipped_flops: list[list[Pair]]

    def pairs(self, cost: Cost) -> list[list[Pair]]:
        """Return the pairs of each run for a cost."""
        return self.flops if cost == "flops" else self.shipped_flops


Results = dict[str, Measured]
FILE = TypeAdapter(Results)


def read_results(stored: Path) -> Results:
    """Return the stored results."""
    return FILE.validate_json(stored.read_bytes()) if stored.exists() else {}


def pairs_of(found: Trimming, cost: Cost) -> list[Pair]:
    """Return a pair for every K′."""
    greedy = found.of_kind("greedy")
    pairs = []
    for learnt in found.of_kind("theta"):
        assert learnt.eval_exits is not None, "learnt exits have a K′"
        limit = learnt.val.costs[cost]
        chosen = max((point for point in greedy if (point.limit or 0) <= limit), key=lambda point: point.limit or 0)
        both = {"learnt": network_of(learnt, cost), "chosen": network_of(chosen, cost)}
        pairs.append(Pair(eval_exits=learnt.eval_exits, limit=limit, **both))
    return sorted(pairs, key=lambda pair: pair.eval_exits)


def network_of(point: TrimPoint, cost: Cost) -> Network:
    """Return the cost and the metrics of a network on test samples."""
    metrics = {key: point.test.metrics[key] for key in METRICS}
    return Network(cost=point.test.costs[cost], **metrics, members=point.members, inputs=point.inputs)


def measure(runs: list[Path]) -> Measured:
    """Return the pairs of some runs, which differ in their seed, for both costs."""
    found: dict[Cost, list[Trimming]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for cost in COSTS:
            largest = [RunRecord(run).read_evaluation().val.readings[-1].costs[cost] for run in runs]
            found[cost] = [
                trim(run, Path(folder) / f"{cost}-{number}", {cost: limit})
                for number, (run, limit) in enumerate(zip(runs, largest, strict=True))
            ]
    return Measured(
        seeds=[RunRecord(run).read_config().seed for run in runs],
        flops=[pairs_of(item, "flops") for item in found["flops"]],
        val_samples=found["flops"][0].val_samples,
        shipped_flops=[pairs_of(item, "shipped_flops") for item in found["shipped_flops"]],
    )


def spread(values: list[float]) -> str:
    """Format the mean ± standard deviation over seeds."""
    return f"{mean(values):.4f} ± {stdev(values):.4f}"


def table(results: Results) -> str:
    """Return the stored results at equal FLOPs as a table in Markdown; the better mean of a pair is bold."""
    header = ["data", "K′", "MFLOPs: learnt, chosen", "members", "inputs, chosen", *(
        f"{label}, {kind}" for label in METRICS.values() for kind in KINDS
    ), "chosen better, NLL, CC-ECE"]  # fmt: skip
    lines = [header, ["---"] * len(header)]
    for name, result in results.items():
        lines += [_cells(name, list(pairs)) for pairs in zip(*result.flops, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(name: str, pairs: list[Pair]) -> list[str]:
    of_kind: dict[Kind, list[Network]] = {
        "learnt": [pair.learnt for pair in pairs],
        "chosen": [pair.chosen for pair in pairs],
    }
    shown: list[str] = []
    for key in METRICS:
        values = {kind: [getattr(network, key) for network in networks] for kind, networks in of_kind.items()}
        better = min(values, key=lambda kind: mean(values[kind]))
        shown += [f"**{spread(found)}**" if kind == better else spread(found) for kind, found in values.items()]
    return [
        TITLES[name],
        str(pairs[0].eval_exits),
        ", ".join(f"{mean(network.cost for network in of_kind[kind]) / 1e6:.2f}" for kind in KINDS),
        ", ".join(f"{mean(network.members for network in of_kind[kind]):.1f}" for kind in KINDS),
        f"{mean(network.inputs for network in of_kind['chosen']):.1f}",
        *shown,
        ", ".join(f"{num_better(pairs, key)} of {len(pairs)}" for key in METRICS),
    ]


def num_better(pairs: list[Pair], key: Key) -> int:
    """Count the pairs in which the chosen members are better."""
    return sum(getattr(pair.chosen, key) < getattr(pair.learnt, key) for pair in pairs)


def wins(results: Results, cost: Cost) -> str:
    """Return in how many pairs of seed and K′ the chosen members are better, by data set and metric."""
    texts = []
    for name, result in results.items():
        pairs = [pair for run in result.pairs(cost) for pair in run]
        better = [f"{num_better(pairs, key)} in {label}" for key, label in METRICS.items()]
        texts.append(f"{TITLES[name]}: {' and '.join(better)} of {len(pairs)}")
    return "; ".join(texts)


def main() -> None:
    """Trim the named runs and store the results; or print the stored table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help="NAME=RUN,RUN,…")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    stored = read_results(STORED)
    for text in () if given.table else given.sets:
        name, _, runs = text.partition("=")
        stored[name] = measure([Path(run) for run in runs.split(",")])
        STORED.write_text(json.dumps(FILE.dump_python(stored), indent=1) + "\n", encoding="utf-8")
    print(table(stored))
    for cost in COSTS:
        print(cost, wins(stored, cost))


if __name__ == "__main__":
    main()
