"""Round 3 of tuning: why SAE was behind a standard network on small sets, and how to close the gap.

    python -m benchmarks.defaults_tuning [NAME …]     # trains what is not stored yet, on all tuned sets or some
    python -m benchmarks.defaults_tuning --tables     # the tables of docs/defaults.md from the stored results

Varies one setting at a time on two sets, and compares twice the updates with one input on all sets of the tuned half.
Training uses the earlier defaults: 500 updates in batches of 32 at a rate of 0.003, with early stopping.
`defaults_tuning.json` also holds rounds 1 and 2, which chose that training; their scripts were not kept.
"""

import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Literal, NotRequired, TypedDict

from rich.console import Console

from benchmarks.small_sets import SETS, SmallSet, half, train_or_print
from sae.config.run import DataConfig
from sae.config.settings import Layer
from sae.data.batches import evaluation_batches
from sae.data.catalogue import load, resolve
from sae.data.dataset import Dataset, Split
from sae.methods import build_method
from sae.training.evaluator import member_outputs
from sae.training.kept_weights import EarlyStopping, stream_losses
from sae.training.trainer import Trainer

TUNING = Path(__file__).with_suffix(".json")
BATCH_SIZE, FEWEST_EPOCHS, LEARNING_RATE, PATIENCE = 32, 20, 3e-3, 0.25
UPDATES_BEFORE = 500
STANDARD = "standard"
TASKS = {item.name: item.task for item in SETS}
IMAGES_TUNED = sum(item.group == "images" for item in half("tuned"))


class Row(TypedDict):
    """One training: test NLL at the last epoch, at the best validation epoch, and with early stopping.

    Round 0 holds the trivial predictions: class shares, or the mean.
    """

    round: int | str
    candidate: str
    set: str
    seed: int
    epochs: int
    last: NotRequired[float]
    best: NotRequired[float]
    stopped: NotRequired[float]


def sae(inputs: int, exits: int, **more: object) -> Layer:
    """Return an SAE with N inputs, which see different samples, and K exits each."""
    return {"method": {"name": "sae", "inputs": inputs, "exits": exits, "repeat_fraction": constant(0.0), **more}}


def constant(value: float) -> Layer:
    """Return a schedule that stays at a value."""
    return {"start": value, "end": value}


ENDINGS: dict[int, tuple[Literal["last", "best", "stopped"], ...]] = {
    1: ("last", "best"),
    2: ("last", "best", "stopped"),
}
"""What the rows of rounds 1 and 2 hold."""
ROUND = 3
BEFORE = "SAE, N = 2, K = 2"
"""The defaults before this round."""
ON_ALL: dict[str, Layer] = {
    STANDARD: {"method": "standard"},
    f"{STANDARD}, 1000 updates": {"method": "standard", "updates": 1000},
    BEFORE: sae(2, 2),
    f"{BEFORE}, 1000 updates": {**sae(2, 2), "updates": 1000},
    "SAE, N = 1, K = 5": sae(1, 5),
}
"""Compared on all tuned sets; their backbones have five exits."""
ON_FEW: dict[str, Layer] = {
    "SAE, N = 1, K = 1": sae(1, 1),
    "SAE, N = 1, K = 2": sae(1, 2),
    "SAE, N = 2, K = 1": sae(2, 1),
    "SAE, N = 2, K = 5": sae(2, 5),
    f"{BEFORE}, i = 1": sae(2, 2, repeat_fraction=constant(1.0)),
    f"{BEFORE}, R = 4": sae(2, 2, batch_repetition=4),
    f"{BEFORE}, α = 0": sae(2, 2, kl_weight=constant(0.0)),
    f"{BEFORE}, α = 1": sae(2, 2, kl_weight=constant(1.0)),
    f"{BEFORE}, T = 1": sae(2, 2, temperature=constant(1.0)),
    f"{BEFORE}, T = 0.1": sae(2, 2, temperature=constant(0.1)),
    f"{BEFORE}, lr 1e-3": {**sae(2, 2), "train": {"lr": 1e-3}},
    f"{BEFORE}, lr 1e-2": {**sae(2, 2), "train": {"lr": 1e-2}},
    "SAE, N = 1, K = 5, 1000 updates": {**sae(1, 5), "updates": 1000},
}
CANDIDATES = {**ON_ALL, **ON_FEW}
FEW, SEEDS = ("more_classes", "heart"), (0, 1)
"""Sets on which one setting at a time is varied, with two seeds: many clean classes, and two noisy ones."""


def measure(item: SmallSet, candidate: Layer, seed: int) -> tuple[int, float]:
    """Train as a run does, without its files; return the epochs and the NLL on the test split."""
    data = read(item)
    more = {key: value for key, value in candidate.items() if key != "updates"}
    train = training(len(data.train), candidate.get("updates", UPDATES_BEFORE))
    config = resolve({"data": item.settings, "seed": seed, "train": train}, more)
    method = build_method(config.method, config.backbone, data.spec, config.seed)
    trainer, stopping = Trainer(method, data, config), EarlyStopping(config.train.patience)

    def nll(split: Split) -> list[float]:
        batches = evaluation_batches(split.inputs, trainer.prepare)
        return stream_losses(method, member_outputs(method, batches), split)

    epoch = 0
    while epoch < config.train.epochs and not stopping.has_stopped(epoch):
        trainer.train_epoch(epoch)
        epoch += 1
        stopping.update(method, epoch, nll(data.val))
    stopping.restore(method)
    return epoch, nll(data.test)[0]


def training(num_samples: int, updates: int) -> Layer:
    """Return the training that rounds 1 and 2 chose, for this many updates."""
    epochs = max(FEWEST_EPOCHS, math.ceil(updates / math.ceil(num_samples / BATCH_SIZE)))
    return {"epochs": epochs, "batch_size": BATCH_SIZE, "lr": LEARNING_RATE, "patience": math.ceil(PATIENCE * epochs)}


@lru_cache(maxsize=1)
def read(item: SmallSet) -> Dataset:
    """Return the data of a set."""
    return load(DataConfig.model_validate(item.settings))


def read_rows() -> list[Row]:
    """Return the stored rows of all rounds."""
    rows: list[Row] = json.loads(TUNING.read_text(encoding="utf-8"))
    return rows


def write_rows(rows: list[Row]) -> None:
    """Store rows, one on each line."""
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    TUNING.write_text("[\n " + ",\n ".join(lines) + "\n]\n", encoding="utf-8")


def planned() -> Iterator[tuple[str, str, int]]:
    """Yield the candidate, set and seed of all trainings, set by set."""
    for item in half("tuned"):
        is_shown = item.name in FEW
        for seed in SEEDS if is_shown else SEEDS[:1]:
            yield from ((name, item.name, seed) for name in (CANDIDATES if is_shown else ON_ALL))


def run(names: list[str]) -> None:
    """Run the trainings that are not stored yet, and store each at once."""
    rows, items = read_rows(), {item.name: item for item in half("tuned")}
    stored = {(row["candidate"], row["set"], row["seed"]) for row in rows if row["round"] == ROUND}
    for candidate, name, seed in planned():
        if (candidate, name, seed) in stored or (names and name not in names):
            continue
        epochs, nll = measure(items[name], CANDIDATES[candidate], seed)
        rows.append(Row(round=ROUND, candidate=candidate, set=name, seed=seed, epochs=epochs, stopped=round(nll, 4)))
        write_rows(rows)
        Console().print(name, candidate, seed, epochs, round(nll, 4))


def training_tables(rows: list[Row]) -> str:
    """Return a Markdown table of rounds 1 and 2, as means over sets.

    Classification: NLL as a ratio to that of class shares. Regression: NLL minus that of the mean. Candidates that
    were tried on images only are left out.
    """
    trivial = {row["set"]: row["last"] for row in rows if row["candidate"] == "trivial"}
    found = []
    for number, endings in ENDINGS.items():
        tried: dict[str, dict[str, Row]] = {}
        for row in rows:
            if row["round"] == number:
                tried.setdefault(row["candidate"], {})[row["set"]] = row
        tried = {name: results for name, results in tried.items() if len(results) > IMAGES_TUNED}
        common = set.intersection(*(set(results) for results in tried.values()))
        columns = [(task, key) for task in ("classification", "regression") for key in endings]
        columns = [(task, key) for task, key in columns if any(TASKS[name] == task for name in common)]
        titles = " | ".join(f"{task}, {key} epoch" if key != "stopped" else f"{task}, stopped" for task, key in columns)
        lines = [f"| round {number} | {titles} |", "|---" * (1 + len(columns)) + "|"]
        for candidate, results in tried.items():
            cells = []
            for task, key in columns:
                pairs = [(results[name][key], trivial[name]) for name in common if TASKS[name] == task]
                cells.append(f"{mean(x / y if task == 'classification' else x - y for x, y in pairs):.3f}")
            lines.append(f"| {candidate} | {' | '.join(cells)} |")
        found.append("\n".join(lines))
    return "\n\n".join(found)


def input_tables(rows: list[Row]) -> tuple[str, str]:
    """Return Markdown tables of round 3: one setting at a time on two sets, and the best answers on all tuned sets.

    The first has NLL as means over seeds, the second ratios of NLL to that of a standard network as geometric means
    over the sets of a group; for regression, whose NLL has no zero, mean differences.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row["round"] == ROUND:
            found.setdefault(row["candidate"], {}).setdefault(row["set"], []).append(row["stopped"])
    nll = {candidate: {name: mean(values) for name, values in sets.items()} for candidate, sets in found.items()}
    few = [f"| round 3 | {' | '.join(FEW)} |", "|---" * (1 + len(FEW)) + "|"]
    few += [f"| {name} | {' | '.join(f'{nll[name][key]:.3f}' for key in FEW)} |" for name in CANDIDATES]
    groups: dict[str, list[str]] = {}
    for item in half("tuned"):
        groups.setdefault(item.group, []).append(item.name)
    groups["all but regression"] = [name for name in nll[STANDARD] if TASKS[name] == "classification"]
    titles = " | ".join(f"{group} ({len(names)})" for group, names in groups.items())
    many = [f"| against a standard network | {titles} |", "|---" * (1 + len(groups)) + "|"]
    for candidate in list(ON_ALL)[1:]:
        cells = (_against(nll[candidate], nll[STANDARD], names) for names in groups.values())
        many.append(f"| {candidate} | {' | '.join(cells)} |")
    return "\n".join(few), "\n".join(many)


def _against(nll: Mapping[str, float], standard: Mapping[str, float], names: list[str]) -> str:
    if TASKS[names[0]] == "regression":
        return f"{mean(nll[name] - standard[name] for name in names):+.3f}"
    return f"× {geometric_mean(nll[name] / standard[name] for name in names):.3f}"


if __name__ == "__main__":
    train_or_print(__doc__, run, lambda: "\n\n".join([training_tables(read_rows()), *input_tables(read_rows())]))
