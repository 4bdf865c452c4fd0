"""`SAEClassifier` and `SAERegressor` compared with scikit-learn's models on real tables.

    python -m benchmarks.estimators [NAME …]      # fits what is not stored yet, on all reported tables or some
    python -m benchmarks.estimators --tables      # the tables of docs/estimators.md from the stored results

Every model gets the same rows, 80 % of a table, in `fit`, and is tested on the others. Ours hold out a fifth of them
for early stopping; the others train on all. Three seeds; one thread; time is CPU time of `fit`. The sets are the tables
of the reported half of `benchmarks.small_sets`: no setting was chosen on them.

A search inside `fit` is compared with the defaults on seed 0 alone, and on the eight tables that train quickest: it
trains five networks, some of them larger.
"""

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning

from benchmarks.defaults import CLASSIFIERS, REGRESSORS, Measured, Results, _cell, _table, prepared
from benchmarks.small_sets import SETS, SmallSet, half
from sae import SAEClassifier, SAERegressor
from sae.config.run import DataConfig
from sae.core.predictive import Categorical
from sae.data.catalogue import load
from sae.data.dataset import Indices
from sae.data.splits import split_indices
from sae.measure.metrics import measure_all

STORED = Path(__file__).with_suffix(".json")
SEEDS = (0, 1, 2)
OURS = "SAE"
SEARCH = "4 trials"
SEARCHED = f"SAE, {SEARCH}"
NOT_SEARCHED = ("many_classes", "vowel", "abalone20", "credit")  # they take longest to train
RIVALS = tuple(CLASSIFIERS)
CONTESTANTS = (OURS, *RIVALS)


def reported_tables() -> list[SmallSet]:
    """Return the sets of the reported half that are tables."""
    return [item for item in half("reported") if item.target is not None]


def measure_ours(item: SmallSet, name: str, seed: int) -> Measured:
    """Fit an estimator of ours to a data frame; return its numbers on the test rows."""
    frame = pd.read_csv(item.file())
    y, x = frame[item.target], frame.drop(columns=str(item.target))
    fit, test = rows_of(item, y)
    kind: Any = SAEClassifier if item.task == "classification" else SAERegressor
    model = kind(random_state=seed, refit=False, search=SEARCH if name == SEARCHED else None)
    start = time.process_time()
    model.fit(x.iloc[fit], y.iloc[fit])
    seconds = time.process_time() - start
    if item.task == "classification":
        labels = np.searchsorted(model.classes_, y.iloc[test])
        return {"seconds": seconds, **class_metrics(model.predict_proba(x.iloc[test]), labels)}
    means, stds, truth = model.predict(x.iloc[test]), model.predict_std(x.iloc[test]), y.iloc[test].to_numpy()
    lower, upper = model.predict_interval(x.iloc[test], coverage=0.9)
    return {
        "seconds": seconds,
        "mse": float(np.square(truth - means).mean()),
        "nll": float((np.log(stds) + np.square((truth - means) / stds) / 2).mean()),
        "coverage_90": float(((lower <= truth) & (truth <= upper)).mean()),
    }


def measure_theirs(item: SmallSet, name: str, seed: int) -> Measured:
    """Fit a model of scikit-learn to the same rows, encoded and standardised; return its numbers on the test rows."""
    dataset = load(DataConfig.model_validate(item.settings))
    parts = [prepared(dataset, split) for split in (dataset.train, dataset.val, dataset.test)]
    (x, y), (x_test, y_test) = (np.concatenate(both) for both in zip(*parts[:2], strict=True)), parts[2]
    model = (CLASSIFIERS if item.task == "classification" else REGRESSORS)[name](seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, y)
    seconds = time.process_time() - start
    if item.task == "classification":
        probs = np.zeros((len(x_test), int(y.max()) + 1))
        probs[:, model.classes_] = model.predict_proba(x_test)
        return {"seconds": seconds, **class_metrics(probs, y_test)}
    variance = np.square(y - model.predict(x)).mean()
    mse = float(np.square(y_test - model.predict(x_test)).mean())
    return {"seconds": seconds, "mse": mse, "nll": float(0.5 * (math.log(variance) + mse / variance))}


def class_metrics(probs: NDArray[Any], labels: NDArray[Any]) -> Measured:
    """Return accuracy, NLL and ECE; a probability of 0, which forests give, counts as 10⁻¹²."""
    log_probs = torch.from_numpy(probs.clip(1e-12)).double().log()
    measured = measure_all(Categorical(log_probs), torch.from_numpy(labels.astype(np.int64)))
    return {key: measured[key] for key in ("accuracy", "nll", "ece")}


def rows_of(item: SmallSet, y: "pd.Series[Any]") -> tuple[Indices, Indices]:
    """Return the rows to fit (train and val of a run) and to test."""
    labels = np.unique(y, return_inverse=True)[1] if item.task == "classification" else None
    train, val, test = split_indices(len(y), 0, labels)
    return np.concatenate([train, val]), test


def read_results() -> Results:
    """Return the stored results."""
    stored: Results = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    return stored


def run(names: list[str], contestants: list[str]) -> None:
    """Run the fits that are not stored yet, and store each at once."""
    for name in contestants:
        for item in reported_tables():
            if (names and item.name not in names) or (name == SEARCHED and item.name in NOT_SEARCHED):
                continue
            measure = measure_ours if name in (OURS, SEARCHED) else measure_theirs
            for seed in (SEEDS[:1] if name == SEARCHED else SEEDS)[
                len(read_results().get(item.name, {}).get(name, [])) :
            ]:
                found = measure(item, name, seed)
                results = read_results()  # another process may have stored some
                results.setdefault(item.name, {}).setdefault(name, []).append(found)
                STORED.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
                Console().print(item.name, name, seed, {key: round(value, 3) for key, value in found.items()})


def tables(results: Results) -> str:
    """Return the Markdown tables of docs/estimators.md: means over seeds, the best of a row in bold."""
    classes = [item for item in SETS if item.name in results and item.task == "classification"]
    numbers = [item for item in SETS if item.name in results and item.task == "regression"]
    everything = [*classes, *numbers]
    return "\n\n".join(
        [
            _table("accuracy", classes, results, lambda each: each["accuracy"], CONTESTANTS, max),
            _table("NLL", classes, results, lambda each: each["nll"], CONTESTANTS),
            _table("ECE", classes, results, lambda each: each["ece"], CONTESTANTS),
            _table("RMSE", numbers, results, lambda each: math.sqrt(each["mse"]), CONTESTANTS),
            _table("coverage of 90 %", numbers, results, lambda each: each["coverage_90"], (OURS,), None),
            _table("seconds of fit", everything, results, lambda each: each["seconds"], CONTESTANTS, None),
            wins(results),
            searched(everything, results),
        ]
    )


def searched(items: list[SmallSet], results: Results) -> str:
    """Return how a search inside `fit` compares with the defaults, on the same seed."""
    lines = [
        f"| seed 0 | error or RMSE: SAE | {SEARCHED} | NLL: SAE | {SEARCHED} | seconds: SAE | {SEARCHED} |",
        "|---" * 7 + "|",
    ]
    better: dict[str, list[bool]] = {"error or RMSE": [], "NLL": []}
    for item in items:
        if SEARCHED not in results[item.name]:
            continue
        both = [results[item.name][name][0] for name in (OURS, SEARCHED)]
        errors = [1 - each["accuracy"] if "accuracy" in each else math.sqrt(each["mse"]) for each in both]
        columns = {"error or RMSE": errors, "NLL": [each["nll"] for each in both]}
        cells = []
        for title, (default, found) in columns.items():
            if default != found:
                better[title].append(found < default)
            cells += [_cell([value], is_best=value < other) for value, other in ((default, found), (found, default))]
        cells += [f"{each['seconds']:.0f}" for each in both]
        lines.append(f"| {item.name} | {' | '.join(cells)} |")
    counts = ", ".join(f"{title} {sum(each)} : {len(each) - sum(each)}" for title, each in better.items())
    return "\n".join([*lines, "", f"With the search better : worse than without: {counts}."])


def wins(results: Results) -> str:
    """Return how often `SAE` is better and worse than each rival, by means over seeds."""
    values: dict[str, tuple[str, Callable[[Measured], float]]] = {
        "accuracy": ("accuracy", lambda each: -each["accuracy"]),
        "NLL": ("ece", lambda each: each["nll"]),
        "ECE": ("ece", lambda each: each["ece"]),
        "RMSE": ("mse", lambda each: each["mse"]),
    }
    lines = [f"| SAE better : worse than | {' | '.join(RIVALS)} |", "|---" * (1 + len(RIVALS)) + "|"]
    for title, (key, loss) in values.items():
        found = [result for result in results.values() if key in result[OURS][0]]
        cells = []
        for rival in RIVALS:
            pairs = [(mean(map(loss, each[OURS])), mean(map(loss, each[rival]))) for each in found]
            cells.append(f"{sum(a < b for a, b in pairs)} : {sum(a > b for a, b in pairs)}")
        lines.append(f"| {title} ({len(found)} sets) | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--only", choices=(*CONTESTANTS, SEARCHED), action="append")
    parser.add_argument("--tables", action="store_true")
    given = parser.parse_args()
    if not given.tables:
        torch.set_num_threads(1)
        run(given.names, given.only or [*CONTESTANTS, SEARCHED])
    print(tables(read_results()))


if __name__ == "__main__":
    main()
