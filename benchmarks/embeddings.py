"""Ideas of TabM and RealMLP on small tables: embedded numbers, robust scales, many light members.

    python -m benchmarks.embeddings [NAME …]      # trains what is not stored yet, on all tuned tables or some
    python -m benchmarks.embeddings --tables      # the table of docs/estimators.md from the stored results

Trains with the defaults of `sae train` on the small tables of the tuned half of `benchmarks.small_sets`, with one seed,
and varies the encoding of numbers, or the members. Categories need no embedding: with one-hot features, the columns of
the first Linear's weights are embeddings.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean, mean
from typing import TypedDict

import numpy as np
from rich.console import Console

from benchmarks.defaults_tuning import TASKS, constant, read, training
from benchmarks.small_sets import SmallSet, half, train_or_print
from sae.config.settings import Layer
from sae.data.batches import evaluation_batches
from sae.data.catalogue import resolve
from sae.data.dataset import DATE_FEATURES, Dataset, Features, Split, standardisation
from sae.data.defaults import UPDATES
from sae.methods import build_method
from sae.training.evaluator import member_outputs
from sae.training.kept_weights import EarlyStopping, stream_losses
from sae.training.trainer import Trainer

STORED = Path(__file__).with_suffix(".json")
SEEDS = (0,)
LARGE = ("abalone19", "segment", "yeast6")
"""Left out to save time: tables of more than 1,000 rows in the tuned half."""
BINS, FREQUENCIES = 8, 4

Embed = Callable[[Features, Features], list[Features]]
"""From a number in the training rows and in other rows, (row,) each, to its features in the other rows."""


class Row(TypedDict):
    """One training: test NLL with early stopping."""

    candidate: str
    set: str
    seed: int
    epochs: int
    nll: float


def as_it_is(_training: Features, values: Features) -> list[Features]:
    """Return the number itself."""
    return [values]


def piecewise(training: Features, values: Features) -> list[Features]:
    """Return the position of the number in each of `BINS` bins of equal counts, from 0 to 1, like TabM."""
    edges = np.unique(np.quantile(training, np.linspace(0, 1, BINS + 1)))
    if len(edges) < 3:
        return [values]
    shares = [(values - low) / (high - low) for low, high in pairwise(edges)]
    first, last = shares[0].clip(max=1.0), shares[-1].clip(min=0.0)  # open ends, so that nothing is cut off
    return [first, *(share.clip(0.0, 1.0) for share in shares[1:-1]), last]


def clipped(training: Features, values: Features) -> list[Features]:
    """Return the number on a scale of quartiles, smoothly clipped to ±3, as RealMLP does."""
    low, middle, high = np.quantile(training, [0.25, 0.5, 0.75])
    scale = (high - low) / 1.349 or training.std() or 1.0
    scaled = (values - middle) / scale
    return [scaled / np.sqrt(1 + np.square(scaled / 3))]


def periodic(training: Features, values: Features) -> list[Features]:
    """Return the number, and sine and cosine of it at fixed frequencies: 1/4, 1/2, 1 and 2 turns per 4 deviations."""
    scaled = (values - training.mean()) / (training.std() or 1.0)
    turns = [2.0 ** (power - 2) * np.pi / 2 * scaled for power in range(FREQUENCIES)]
    return [values, *(wave(turn) for turn in turns for wave in (np.sin, np.cos))]


def both(training: Features, values: Features) -> list[Features]:
    """Return the number and its piecewise features."""
    return [values, *piecewise(training, values)]


def sae(inputs: int, exits: int) -> Layer:
    """Return an SAE with N inputs, which see different samples, and K exits each."""
    return {"method": {"name": "sae", "inputs": inputs, "exits": exits, "repeat_fraction": constant(0.0)}}


BEFORE = "today: numbers as they are, N = 2, K = 2"
CANDIDATES: dict[str, tuple[Embed, Layer]] = {
    BEFORE: (as_it_is, {}),
    f"piecewise linear, {BINS} bins": (piecewise, {}),
    f"numbers, and piecewise linear, {BINS} bins": (both, {}),
    "scaled by quartiles and clipped": (clipped, {}),
    f"numbers, and periodic, {FREQUENCIES} frequencies": (periodic, {}),
    "many light members: N = 4, K = 5": (as_it_is, sae(4, 5)),
    "many light members: BatchEnsemble, M = 16": (as_it_is, {"method": {"name": "batch_ensemble", "members": 16}}),
}


def tuned_tables() -> list[SmallSet]:
    """Return the tuned sets that are small tables."""
    return [item for item in half("tuned") if item.target is not None and item.name not in LARGE]


def embedded(dataset: Dataset, embed: Embed) -> Dataset:
    """Return a table with its numbers embedded, fitted on its training rows; texts, dates and marks do not change."""
    splits = [dataset.train, dataset.val, dataset.test]
    learnt = dataset.train.inputs[:].astype(np.float64)
    arrays = []
    for split in splits:
        inputs = split.inputs[:].astype(np.float64)
        features: list[Features] = []
        for index, is_number in enumerate(number_features(dataset)):
            column = inputs[:, index]
            features += embed(learnt[:, index], column) if is_number else [column]
        arrays.append(np.stack(features, axis=1))
    train, val, test = (Split(array, split.targets) for array, split in zip(arrays, splits, strict=True))
    spec = replace(dataset.spec, shape=(arrays[0].shape[1],))
    normalisation = standardisation(arrays[0], np.arange(len(arrays[0])))
    return replace(dataset, spec=spec, normalisation=normalisation, train=train, val=val, test=test, columns=None)


def number_features(dataset: Dataset) -> Iterator[bool]:
    """Yield for each feature whether it is the number of a column."""
    for encoding in dataset.columns or ():
        is_number = encoding.is_numeric and not encoding.is_date
        values = DATE_FEATURES if encoding.is_date else 1 if encoding.is_numeric else len(encoding.categories)
        yield from [is_number] * values + [False] * encoding.marks_missing


def measure(item: SmallSet, candidate: str, seed: int) -> Row:
    """Train as a run does, without its files."""
    embed, layer = CANDIDATES[candidate]
    data = embedded(read(item), embed)
    base = {"data": item.settings, "seed": seed, "train": training(len(data.train), UPDATES)}
    config = resolve(base, layer)
    method = build_method(config.method, config.backbone, data.spec, config.seed)
    trainer, stopping = Trainer(method, data, config), EarlyStopping(config.train.patience)

    def nll(split: Split) -> list[float]:
        return stream_losses(method, member_outputs(method, evaluation_batches(split.inputs, trainer.prepare)), split)

    epoch = 0
    while epoch < config.train.epochs and not stopping.has_stopped(epoch):
        trainer.train_epoch(epoch)
        epoch += 1
        stopping.update(method, epoch, nll(data.val))
    stopping.restore(method)
    return Row(candidate=candidate, set=item.name, seed=seed, epochs=epoch, nll=round(nll(data.test)[0], 4))


def read_rows() -> list[Row]:
    """Return the stored rows."""
    rows: list[Row] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else []
    return rows


def planned() -> list[tuple[str, str, int]]:
    """Return the candidate, set and seed of all trainings."""
    return [(name, item.name, seed) for seed in SEEDS for item in tuned_tables() for name in CANDIDATES]


def run(names: list[str]) -> None:
    """Run the trainings that are not stored yet, and store each at once."""
    rows, items = read_rows(), {item.name: item for item in tuned_tables()}
    stored = {(row["candidate"], row["set"], row["seed"]) for row in rows}
    for candidate, name, seed in planned():
        if (candidate, name, seed) in stored or (names and name not in names):
            continue
        rows.append(measure(items[name], candidate, seed))
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        STORED.write_text("[\n " + ",\n ".join(lines) + "\n]\n", encoding="utf-8")
        Console().print(rows[-1])


def table(rows: list[Row]) -> str:
    """Return a Markdown table of ratios of NLL to today's defaults, as geometric means over sets.

    For regression, whose NLL has no zero, mean differences. The last column counts the sets on which a candidate is
    better and worse.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        found.setdefault(row["candidate"], {}).setdefault(row["set"], []).append(row["nll"])
    nll = {candidate: {name: mean(values) for name, values in sets.items()} for candidate, sets in found.items()}
    today = nll[BEFORE]
    classes = [name for name in today if TASKS[name] == "classification"]
    numbers = [name for name in today if TASKS[name] == "regression"]
    lines = [
        f"| against today | classes ({len(classes)}) | regression ({len(numbers)}) | better : worse |",
        "|---|---|---|---|",
    ]
    for candidate in list(CANDIDATES)[1:]:
        own = nll[candidate]
        ratio = geometric_mean(own[name] / today[name] for name in classes)
        difference = mean(own[name] - today[name] for name in numbers)
        better = sum(own[name] < today[name] for name in today), sum(own[name] > today[name] for name in today)
        lines.append(f"| {candidate} | × {ratio:.3f} | {difference:+.3f} | {better[0]} : {better[1]} |")
    return "\n".join(lines)


if __name__ == "__main__":
    train_or_print(__doc__, run, lambda: table(read_rows()))
