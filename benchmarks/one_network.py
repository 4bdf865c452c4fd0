"""Does one network match a deep ensemble of four? One resumable queue of trainings, and what they show.

    python -m benchmarks.one_network fashion-fc --out runs/one_network            # train what is not stored yet
    python -m benchmarks.one_network blood-vgg --out runs/one_network --data-root FOLDER
    python -m benchmarks.one_network --table                                      # the tables of docs/reproduction.md

Every row is tuned alike on a seed of its own: two learning rates, then the next one beyond the better of these, and
one more if that is the best so far. The NLL on validation data after temperature scaling decides; then come `SEEDS`
with the best rate. A taught row learns from the ensemble of its own seed. Test data choose nothing. Numbers go to
docs/reproduction/one-network.json; the intervals are computed from the predictions that the runs keep.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from statistics import mean, stdev

import torch
from pydantic import BaseModel

from sae.analysis.bootstrap import compare_samples
from sae.analysis.contestants import Contestant, read_contestant
from sae.analysis.ensemble_equivalent import ensemble_equivalent
from sae.config.run import RunConfig
from sae.config.settings import Layer, merge
from sae.core.errors import SaeError
from sae.data.catalogue import resolve
from sae.records.evaluation import Reading
from sae.records.run import RunRecord
from sae.training.predictions import keep_predictions
from sae.training.run import derive, train
from sae.training.trimming import trim

REPRODUCTION = Path(__file__).parent.parent / "docs" / "reproduction"
STORED = REPRODUCTION / "one-network.json"
RATES = (3e-4, 1e-3)
LADDER = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
"""Learning rates; `RATES` are tried first, then the next ones as long as the best so far has only one neighbour."""
MOST_RATES = 4
TUNING_SEED = 100
SEEDS = (0, 1, 2)
KEPT = ("nll", "nll_scaled", "accuracy", "f1", "ece", "ece_scaled", "cc_ece", "cc_ece_scaled", "brier")

COMPARED = ("nll_scaled", "nll", "cc_ece", "cc_ece_scaled", "accuracy")
MARGIN = 0.01
"""By how much the scaled NLL may be worse at most, in nats, to match; fixed before any test data were read."""


@dataclass(frozen=True)
class Row:
    """A configuration that is tuned and reported.

    Attributes:
        title: In tables.
        settings: What it changes of its set.
        is_taught: Whether it learns from the deep ensemble of its seed.
        rate_of: The row whose learning rate it takes over, instead of being tuned; for ablations.
        epochs: How many times the epochs of the set it trains.
        width: How many times the width of the set its networks have.
        first_of: The row of deep ensembles whose first member it is, where both have the same learning rate.
        weights_of: The row whose trained networks it takes, with weights of the exits fitted on validation data.
    """

    title: str
    settings: Layer
    is_taught: bool = False
    rate_of: str | None = None
    epochs: int = 1
    width: float = 1
    first_of: str | None = None
    weights_of: str | None = None


ENSEMBLE = "ensemble"
RIVALS = (ENSEMBLE, "ema-ensemble", "long-ensemble")
"""Deep ensembles of four networks of the set's width; the best of them on validation data is the one to match."""
FOUR: Layer = {"method": {"name": "ensemble", "members": 4}}
ONE_BY_FIVE: Layer = {"method": {"name": "sae", "inputs": 1, "exits": 5}}
THREE_BY_FIVE: Layer = {
    "method": {"name": "sae", "inputs": 3, "exits": 5, "repeat_fraction": {"start": 0.0, "end": 0.0}}
}
STANDARD: Layer = {"method": {"name": "standard"}}
TAUGHT: Layer = {"teacher": {"weight": 0.9, "temperature": 2.0, "perturb": 0.0}}
PERTURBED: Layer = {"teacher": {"weight": 0.9, "temperature": 2.0, "perturb": 1.0}}
AVERAGED: Layer = {"train": {"ema": 0.999}}
BEST_EPOCH: Layer = {"train": {"keep": "best", "keep_by": "nll_scaled"}}


def taught(title: str, *layers: Layer, like: str | None = None, epochs: int = 1) -> Row:
    """Return a row that learns from the deep ensemble of its seed, with the learning rate of another row if given."""
    return Row(title, reduce(merge, layers), is_taught=True, rate_of=like, epochs=epochs)


ROWS: dict[str, Row] = {
    ENSEMBLE: Row("deep ensemble of 4", FOUR),
    "standard": Row("standard network", STANDARD, first_of=ENSEMBLE),
    "sae-1x5": Row("SAE, N=1 K=5", ONE_BY_FIVE),
    "sae-3x5": Row("SAE, N=3 K=5, i=0", THREE_BY_FIVE),
    "mc-dropout": Row("MC dropout, 4 draws", {"method": {"name": "mc_dropout"}}),
    "batch-ensemble": Row("BatchEnsemble of 4", {"method": {"name": "batch_ensemble"}}),
    "packed": Row("packed ensemble of 4, twice the width", {"method": {"name": "packed"}}, width=2),
    "narrow-ensemble": Row("deep ensemble of 4, half the width", FOUR, width=0.5),
    "taught-standard": taught("standard network, distilled", STANDARD, TAUGHT),
    "taught-sae-1x5": taught("SAE, N=1 K=5, distilled", ONE_BY_FIVE, TAUGHT),
    "ema-ensemble": Row("deep ensemble of 4, EMA", merge(FOUR, AVERAGED), rate_of=ENSEMBLE),
    "ema-standard": Row(
        "standard network, EMA", merge(STANDARD, AVERAGED), rate_of="standard", first_of="ema-ensemble"
    ),
    "ema-sae-1x5": Row("SAE, N=1 K=5, EMA", merge(ONE_BY_FIVE, AVERAGED), rate_of="sae-1x5"),
    "em-sae-1x5": Row(
        "SAE, N=1 K=5, weights of exits fitted on validation data", {}, rate_of="sae-1x5", weights_of="sae-1x5"
    ),
    "perturbed-standard": taught(
        "standard network, distilled on perturbed inputs", STANDARD, PERTURBED, like="taught-standard"
    ),
    "perturbed-sae-1x5": taught(
        "SAE, N=1 K=5, distilled on perturbed inputs", ONE_BY_FIVE, PERTURBED, like="taught-sae-1x5"
    ),
    "all-standard": taught("standard network, distilled, EMA", STANDARD, TAUGHT, AVERAGED, like="taught-standard"),
    "all-sae-1x5": taught("SAE, N=1 K=5, distilled, EMA", ONE_BY_FIVE, TAUGHT, AVERAGED, like="taught-sae-1x5"),
    "long-standard": taught(
        "standard network, distilled, 4 × the epochs", STANDARD, TAUGHT, like="taught-standard", epochs=4
    ),
    "long-sae-1x5": taught(
        "SAE, N=1 K=5, distilled, 4 × the epochs", ONE_BY_FIVE, TAUGHT, like="taught-sae-1x5", epochs=4
    ),
    "long-ensemble": Row(
        "deep ensemble of 4, 4 × the epochs, best epoch kept", merge(FOUR, BEST_EPOCH), rate_of=ENSEMBLE, epochs=4
    ),
    "long-alone": Row(
        "standard network, 4 × the epochs, best epoch kept",
        merge(STANDARD, BEST_EPOCH),
        rate_of="standard",
        epochs=4,
        first_of="long-ensemble",
    ),
}
SETS: dict[str, Layer] = {
    "fashion-fc": {
        "data": {"name": "fashionmnist", "crop": 0, "flip": False},
        "backbone": {"name": "fc", "width": 1},
        "train": {"epochs": 12, "batch_size": 128},
    },
    "blood-vgg": {
        "data": {"name": "bloodmnist-rebuilt.npz", "task": "classification", "crop": 0, "flip": True},
        "backbone": {"name": "vgg", "width": 2},
        "train": {"epochs": 10, "batch_size": 128},
    },
}
SETS_TITLES = {
    "fashion-fc": "Fashion-MNIST, FC W=1, 12 epochs",
    "blood-vgg": "blood cells (rebuilt, own split), VGG W=2, 10 epochs",
}


@dataclass(frozen=True)
class Queue:
    """The trainings of one set, each in a folder of its own; what is trained stays.

    Attributes:
        name: The set.
        out: The folder that holds the runs of all sets.
    """

    name: str
    out: Path

    def folder(self, row: str, rate: float, seed: int) -> Path:
        """Return the folder of one training."""
        return self.out / self.name / f"{row}-{rate:g}-{seed}"

    def config(self, row: str, rate: float, seed: int) -> RunConfig:
        """Return the settings of one training."""
        own, base = ROWS[row], resolve(SETS[self.name])
        layers: list[Layer] = [SETS[self.name], own.settings, {"train": {"lr": rate}, "seed": seed}]
        layers.append({"train": {"epochs": own.epochs * base.train.epochs}})
        layers.append({"backbone": {"width": own.width * base.backbone.width}})
        if own.is_taught:
            layers.append({"teacher": {"run": str(self.folder(ENSEMBLE, self.best_rate(ENSEMBLE), seed))}})
        return resolve(*layers)

    def run(self, row: str, rate: float, seed: int) -> RunRecord:
        """Train a network unless that is done; it may also be made of a network that another row has trained."""
        own, folder, started = ROWS[row], self.folder(row, rate, seed), time.process_time()
        larger = self.folder(own.first_of, rate, seed) if own.first_of else None
        if own.weights_of:
            trim(self.folder(own.weights_of, rate, seed), folder, {}, weights="em")
            record = RunRecord.open(folder)
        elif larger and (larger / RunRecord.STATUS).exists():
            record = derive(self.config(row, rate, seed), folder, larger)
        else:
            record = train(self.config(row, rate, seed), folder)
        if seed != TUNING_SEED and not record.has(RunRecord.PREDICTIONS):
            keep_predictions(folder)
        reading = record.read_evaluation().val.chosen
        spent = time.process_time() - started
        print(f"{folder.name}: validation NLL, scaled {reading.metrics['nll_scaled']:.4f}, {spent:.0f} s", flush=True)
        return record

    def best_rate(self, row: str) -> float:
        """Return the learning rate of the lowest scaled NLL on validation data; all rates must be trained."""
        like = ROWS[row].rate_of
        return self.best_rate(like) if like else min(self.rates(row), key=lambda rate: self.val_nll(row, rate))

    def rates(self, row: str) -> Iterator[float]:
        """Yield the learning rates that a row is tuned over; each must be trained before the next is asked for."""
        tried = list(RATES)
        yield from tried
        while len(tried) < MOST_RATES:
            best = min(tried, key=lambda rate: self.val_nll(row, rate))
            if best not in (min(tried), max(tried)):
                return
            step = -1 if best == min(tried) else 1
            tried.append(LADDER[LADDER.index(best) + step])
            yield tried[-1]

    def is_done(self, row: str) -> bool:
        """Return whether all seeds of a row are trained."""
        try:
            folders = [self.folder(row, self.best_rate(row), seed) for seed in SEEDS]
        except SaeError:  # not even tuned
            return False
        return all(RunRecord(folder).has(RunRecord.PREDICTIONS) for folder in folders)

    def val_nll(self, row: str, rate: float) -> float:
        """Return the scaled NLL on validation data of the seed for tuning."""
        return self.read(row, rate, TUNING_SEED).val.metrics["nll_scaled"]

    def read(self, row: str, rate: float, seed: int) -> "Splits":
        """Return what was measured of one training."""
        found = RunRecord.open(self.folder(row, rate, seed)).read_evaluation()
        return Splits(found.val.chosen, found.test.chosen)

    def work(self, rows: list[str]) -> None:
        """Tune every row, then train its seeds."""
        for row in rows:
            for rate in self.rates(row) if ROWS[row].rate_of is None else ():
                self.run(row, rate, TUNING_SEED)
            for seed in SEEDS:
                self.run(row, self.best_rate(row), seed)


class Found(BaseModel):
    """What is reported of a row.

    Attributes:
        rates: The scaled NLL on validation data of the seed for tuning, by learning rate; empty if it was not tuned.
        rate: The learning rate of the reported seeds.
        val_nll_scaled: On validation data, by seed; the best single network is chosen by their mean.
        test: Metrics on test data, by name and seed.
        flops: Per sample of the pruned network, as the paper counts.
        shipped_flops: Per sample of the exported network.
        differences: From the ensemble on the same test samples: metric to the difference and the ends of its interval.
        equivalent: The number of the ensemble's members with the same scaled NLL, and the ends of its interval.
    """

    rates: dict[str, float]
    rate: float
    val_nll_scaled: list[float]
    test: dict[str, list[float]]
    flops: int
    shipped_flops: int
    differences: dict[str, tuple[float, float, float]]
    equivalent: tuple[float | str, float | str, float | str]


Results = dict[str, dict[str, Found]]
"""What was found, by set and row."""


def collect(queue: Queue) -> dict[str, Found]:
    """Return what is reported of every row whose seeds are all trained."""
    ensemble = read_contestant([queue.folder(ENSEMBLE, queue.best_rate(ENSEMBLE), seed) for seed in SEEDS])
    return {row: found_of(queue, row, ensemble) for row in ROWS if queue.is_done(row)}


def found_of(queue: Queue, row: str, ensemble: Contestant) -> Found:
    """Return what is reported of one row."""
    rate = queue.best_rate(row)
    splits = [queue.read(row, rate, seed) for seed in SEEDS]
    own = read_contestant([queue.folder(row, rate, seed) for seed in SEEDS])
    worth = ensemble_equivalent(own, ensemble)
    return Found(
        rates={} if ROWS[row].rate_of else {f"{each:g}": queue.val_nll(row, each) for each in queue.rates(row)},
        rate=rate,
        val_nll_scaled=[item.val.metrics["nll_scaled"] for item in splits],
        test={key: [item.test.metrics[key] for item in splits] for key in KEPT},
        flops=splits[0].test.flops,
        shipped_flops=splits[0].test.shipped_flops,
        differences={
            item.metric: (item.value, item.low, item.high) for item in compare_samples(own, ensemble, COMPARED)
        },
        equivalent=(worth.exact(worth.members), worth.exact(worth.low), worth.exact(worth.high)),
    )


def table(name: str, results: Results) -> str:
    """Return the Markdown table of one set."""
    found = results[name]
    columns = [SETS_TITLES[name], "NLL, scaled", "difference, 95 %", f"within {MARGIN:g}", "worth in members"]
    columns += ["NLL", "CC-ECE", "accuracy", "FLOPs", "lr"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    whole = found[ENSEMBLE].shipped_flops
    for row, item in found.items():
        value, low, high = item.differences["nll_scaled"]
        is_same = row == ENSEMBLE
        cells = [
            ROWS[row].title,
            spread(item.test["nll_scaled"], 4),
            "" if is_same else f"{value:+.4f} ({low:+.4f} to {high:+.4f})",
            "" if is_same else "yes" if high < MARGIN else "no",
            "{} ({} to {})".format(*(shown(each) for each in item.equivalent)),
            spread(item.test["nll"], 4),
            spread(item.test["cc_ece"], 4),
            spread(item.test["accuracy"], 4),
            f"{item.shipped_flops / whole:.2f} ×",
            f"{item.rate:g}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def spread(values: list[float], digits: int) -> str:
    """Return mean ± standard deviation over seeds."""
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def shown(members: float | str) -> str:
    """Return a number of members."""
    return members if isinstance(members, str) else f"{members:.1f}"


def read_results() -> Results:
    """Return the stored results."""
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    return {name: {row: Found.model_validate(item) for row, item in rows.items()} for name, rows in stored.items()}


def store(results: Results) -> None:
    """Store the results."""
    stored = {name: {row: item.model_dump() for row, item in rows.items()} for name, rows in results.items()}
    STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Splits:
    """A network on validation and on test data, at the trained number of exits."""

    val: Reading
    test: Reading


def main() -> None:
    """Train, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=SETS)
    parser.add_argument("--table", action="store_true", help="only print the tables of what is stored")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--out", type=Path, default=Path("runs/one_network"))
    given = parser.parse_args()
    results = read_results()
    if given.name and not given.table:
        torch.set_num_threads(1)
        queue = Queue(given.name, given.out)
        queue.work(given.rows)
        results[given.name] = collect(queue)
        store(results)
    for name in results:
        print(table(name, results), end="\n\n")


if __name__ == "__main__":
    main()
