"""Default settings on small real sets, compared with standard networks and scikit-learn.

    python -m benchmarks.defaults [NAME …]        # the reported half, or some of its sets
    python -m benchmarks.defaults --tables        # the tables of docs/defaults.md from the stored results

Trains on each reported set of `benchmarks.small_sets` with three seeds: SAE with the paper's settings, once the
defaults for all data; SAE for 500 updates, later the defaults for small data; SAE and a standard network with the
present defaults of `sae train`; and scikit-learn's linear models, random forests and gradient boosting with their
defaults. The split of a set is the same for all seeds. Stored results are not computed again. The defaults were chosen
on the other half alone; see `benchmarks.defaults_tuning`.
"""

import json
import math
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score

from benchmarks.defaults_tuning import UPDATES_BEFORE, read, training
from benchmarks.small_sets import SETS, SmallSet, half, train_or_print
from sae.config.run import DataConfig, RunConfig
from sae.core.task import Classification
from sae.data.batches import Preparation
from sae.data.catalogue import load, resolve, suggestions
from sae.data.dataset import Dataset, Split
from sae.training.run import train

STORED = Path(__file__).with_suffix(".json")
SEEDS = (0, 1, 2)
PAPER = {"epochs": 50, "batch_size": 64, "lr": 3e-4, "patience": 0}
"""The paper's training settings, for data of any size."""

Measured = dict[str, float]
Results = dict[str, dict[str, list[Measured]]]
"""Test metrics by set, contestant and seed."""


def paper_settings(item: SmallSet, seed: int) -> RunConfig:
    """Return the settings that were once the defaults of SAE for all data."""
    backbone = suggestions(str(item.file()))["backbone"]
    paper = {"name": "sae", "repeat_fraction": {"start": 0.0, "end": 0.5}, "batch_repetition": 2}
    return resolve({"data": item.settings, "backbone": backbone, "train": PAPER, "method": paper, "seed": seed})


def short_settings(item: SmallSet, seed: int) -> RunConfig:
    """Return the earlier defaults of SAE for small data: half as many updates as today."""
    short = training(len(read(item).train), UPDATES_BEFORE)
    return resolve({"data": item.settings, "method": "sae", "train": short, "seed": seed})


def default_settings(method: str, class_weights: str = "none") -> Callable[[SmallSet, int], RunConfig]:
    """Return the settings that `sae train` uses for a method by default."""
    train = {"class_weights": class_weights}
    return lambda item, seed: resolve({"data": item.settings, "method": method, "train": train, "seed": seed})


NETWORKS = {
    "SAE, paper": paper_settings,
    "SAE, 500 updates": short_settings,
    "SAE": default_settings("sae"),
    "standard": default_settings("standard"),
    "SAE, balanced": default_settings("sae", "balanced"),
}
CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "linear": lambda _seed: LogisticRegression(max_iter=1000),
    "forest": lambda seed: RandomForestClassifier(random_state=seed),
    "boosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
}
REGRESSORS: dict[str, Callable[[int], Any]] = {
    "linear": lambda _seed: Ridge(),
    "forest": lambda seed: RandomForestRegressor(random_state=seed),
    "boosting": lambda seed: HistGradientBoostingRegressor(random_state=seed),
}
FOR_RARE = "SAE, balanced"
"""Trained only on sets with a rare class."""
CONTESTANTS = (*(name for name in NETWORKS if name != FOR_RARE), "trivial", *CLASSIFIERS)


def measure_network(item: SmallSet, name: str, seed: int) -> Measured:
    """Train a network in a folder of its own; return its numbers on the test split."""
    with tempfile.TemporaryDirectory() as folder:
        record = train(NETWORKS[name](item, seed), Path(folder) / "run")
        metrics = record.read_evaluation().test.chosen.metrics
        history = record.read_history()
    kept = ("nll", "accuracy", "f1", "mse", "coverage_90")
    return {"epochs": len(history), **{key: metrics[key] for key in kept if key in metrics}}


def measure_model(item: SmallSet, name: str, seed: int) -> Measured:
    """Fit a model of scikit-learn to the same prepared training samples; return its numbers on the test split."""
    dataset = load(DataConfig.model_validate(item.settings))
    (x, y), (x_test, y_test) = (prepared(dataset, split) for split in (dataset.train, dataset.test))
    if isinstance(dataset.spec.task, Classification):
        probs = class_probs(name, seed, x, y, x_test, dataset.spec.task.num_classes)
        chosen = probs[np.arange(len(y_test)), y_test].clip(1e-12)  # forests give a probability of 0
        found = probs.argmax(axis=1)
        return {
            "nll": float(-np.log(chosen).mean()),
            "accuracy": float((found == y_test).mean()),
            "f1": float(f1_score(y_test, found, average="macro", zero_division=0)),
        }
    means = [np.full(len(part), y.mean()) for part in (x, x_test)]
    if name != "trivial":
        model = REGRESSORS[name](seed).fit(x, y)
        means = [model.predict(part) for part in (x, x_test)]
    variance = np.square(y - means[0]).mean()
    mse = float(np.square(y_test - means[1]).mean())
    return {"mse": mse, "nll": float(0.5 * (math.log(variance) + mse / variance))}


def class_probs(
    name: str, seed: int, x: NDArray[Any], y: NDArray[Any], x_test: NDArray[Any], num_classes: int
) -> NDArray[Any]:
    """Return the probabilities of all classes, (sample, class)."""
    if name == "trivial":
        counts = np.bincount(y, minlength=num_classes) + 1
        return np.tile(counts / counts.sum(), (len(x_test), 1))
    model = CLASSIFIERS[name](seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, y)
    probs = np.zeros((len(x_test), num_classes))
    probs[:, model.classes_] = model.predict_proba(x_test)
    return probs


def prepared(dataset: Dataset, split: Split) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return samples as a network sees them, (sample, feature), and their targets."""
    prepare = Preparation(dataset.normalisation, len(dataset.spec.shape), torch.device("cpu"))
    return prepare(split.inputs[:]).flatten(1).numpy(), split.targets


def read_results() -> Results:
    """Return the stored results."""
    stored: Results = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    return stored


def run(names: list[str]) -> None:
    """Measure the results that are not stored yet, and store them one by one."""
    results = read_results()
    for item in half("reported"):
        if names and item.name not in names:
            continue
        found = results.setdefault(item.name, {})
        for name in contestants_for(item):
            measure = measure_network if name in NETWORKS else measure_model
            for seed in SEEDS[len(found.setdefault(name, [])) :]:
                found[name].append(measure(item, name, seed))
                STORED.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            Console().print(item.name, name, [round(each["nll"], 3) for each in found[name]])


def contestants_for(item: SmallSet) -> tuple[str, ...]:
    """Return the contestants that are measured on a set."""
    return (*CONTESTANTS, FOR_RARE) if item.group == "rare class" else CONTESTANTS


def tables(results: Results) -> str:
    """Return the Markdown tables of docs/defaults.md: means over seeds, the best of a row in bold."""
    classes = [item for item in SETS if item.name in results and item.task == "classification"]
    numbers = [item for item in SETS if item.name in results and item.task == "regression"]
    rare, networks = [item for item in classes if item.group == "rare class"], CONTESTANTS[: len(NETWORKS) - 1]
    return "\n\n".join(
        [
            _table("NLL", classes, results, lambda each: each["nll"], CONTESTANTS),
            _table("RMSE", numbers, results, lambda each: math.sqrt(each["mse"]), CONTESTANTS),
            _table("coverage of 90 %", numbers, results, lambda each: each["coverage_90"], networks, None),
            _table("macro F1", rare, results, lambda each: each["f1"], (*CONTESTANTS, FOR_RARE), None),
        ]
    )


def _table(
    title: str,
    items: list[SmallSet],
    results: Results,
    value: Callable[[Measured], float],
    contestants: tuple[str, ...],
    choose: Callable[..., str] | None = min,  # chooses the best
) -> str:
    lines = [f"| {title} | {' | '.join(contestants)} |", "|---" * (1 + len(contestants)) + "|"]
    for item in items:
        values = {name: [value(each) for each in results[item.name][name]] for name in contestants}
        means = {name: mean(values[name]) for name in contestants}
        best = choose(means, key=lambda name: means[name]) if choose else None
        cells = (_cell(values[name], is_best=name == best) for name in contestants)
        lines.append(f"| {item.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: list[float], *, is_best: bool) -> str:
    middle, digits = mean(values), 3 if mean(values) < 10 else 1
    text = f"**{middle:.{digits}f}**" if is_best else f"{middle:.{digits}f}"
    return text + (f" ± {stdev(values):.{digits}f}" if len(set(values)) > 1 else "")


if __name__ == "__main__":
    train_or_print(__doc__, run, lambda: tables(read_results()))
