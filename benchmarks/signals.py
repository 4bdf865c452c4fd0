"""Signals of aeon's test sets: SAE and a standard network compared with scikit-learn.

Run: python -m benchmarks.signals [SET …]

Each set becomes an `.npz` file as a user would have it, with the published splits, and is trained with the settings
that `sae train` takes by default, on three seeds. Logistic regression and a random forest of 500 trees take the raw
series, standardised per value, and the same training signals without those held out for validation. pip downloads
aeon's wheel into the cache folder; nothing of it is installed. The results are in benchmarks/signals.json, from which
the table of docs/data.md is made:

    python -m benchmarks.signals --table
"""

import json
import sys
import zipfile
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from benchmarks.small_sets import downloaded
from sae.data.catalogue import load, resolve
from sae.data.dataset import Dataset
from sae.records.evaluation import find_exits
from sae.training.run import train

AEON = "aeon==1.6.0"
SETS = {
    "BasicMotions": "BasicMotions/BasicMotions",
    "GunPoint": "GunPoint/GunPoint",
    "ItalyPowerDemand": "ItalyPowerDemand/ItalyPowerDemand",
    "ArrowHead": "ArrowHead/ArrowHead",
    "JapaneseVowels": "JapaneseVowels/JapaneseVowels_eq",
    "OSULeaf": "OSULeaf/OSULeaf",
}
SEEDS = (0, 1, 2)
STORED = Path(__file__).with_name("signals.json")
TITLES = {
    "sae": "SAE",
    "standard": "standard network",
    "logistic": "logistic regression",
    "forest": "random forest",
}

Score = dict[str, float]
Result = dict[str, str | Score]


def read_series(text: str) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Read a `.ts` file: a line is a sample, its channels and then its class, separated by colons."""
    lines = [line.strip() for line in text.splitlines()]
    start = next(number for number, line in enumerate(lines) if line.lower() == "@data") + 1
    cells = [line.split(":") for line in lines[start:] if line and not line.startswith("#")]
    signals = [[[float(value) for value in channel.split(",")] for channel in channels] for *channels, _ in cells]
    return np.array(signals), np.array([label for *_, label in cells])


def read_parts(name: str) -> dict[str, tuple[NDArray[np.float64], NDArray[np.str_]]]:
    """Return signals and labels of the published training and test split."""
    with zipfile.ZipFile(downloaded(AEON, "*.whl")) as wheel:
        members = {split: f"aeon/datasets/data/{SETS[name]}_{split.upper()}.ts" for split in ("train", "test")}
        return {split: read_series(wheel.read(member).decode()) for split, member in members.items()}


def write_set(name: str, folder: Path) -> Path:
    """Write a set as an `.npz` file with the published training and test split."""
    parts = read_parts(name)
    path = folder / f"{name}.npz"
    np.savez(
        path,
        train_signals=parts["train"][0],
        train_labels=parts["train"][1],
        test_signals=parts["test"][0],
        test_labels=parts["test"][1],
    )
    return path


def networks(path: Path, method: str, folder: Path) -> Score:
    """Train a method with its default settings on every seed; return the means on the test split."""
    data = {"name": str(path), "task": "classification"}
    found = []
    for seed in SEEDS:
        config = resolve({"data": data, "method": {"name": method}, "seed": seed})
        evaluation = train(config, folder / f"{path.stem}-{method}-{seed}").read_evaluation().test
        found.append(find_exits(evaluation.readings, evaluation.exits).metrics)
    return {key: mean(metrics[key] for metrics in found) for key in ("accuracy", "nll")}


def baselines(dataset: Dataset) -> dict[str, Score]:
    """Return the scores of scikit-learn on the same splits."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, log_loss
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    inputs, tested = (split.inputs[:].reshape(len(split), -1) for split in (dataset.train, dataset.test))
    models = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
        "forest": RandomForestClassifier(500, random_state=0),
    }
    scores = {}
    for name, model in models.items():
        probs = model.fit(inputs, dataset.train.targets).predict_proba(tested)
        scores[name] = {
            "accuracy": float(accuracy_score(dataset.test.targets, probs.argmax(1))),
            "nll": float(log_loss(dataset.test.targets, probs)),
        }
    return scores


def measure(name: str, folder: Path) -> Result:
    """Return the size of a set, and the scores of all models on it."""
    path = write_set(name, folder)
    dataset = load(resolve({"data": {"name": str(path), "task": "classification"}}).data)
    size = f"{len(dataset.train)}/{len(dataset.val)}/{len(dataset.test)}"
    shape = "×".join(map(str, dataset.spec.shape))
    methods = {method: networks(path, method, folder) for method in ("sae", "standard")}
    return {
        "samples": size,
        "shape": shape,
        "classes": str(dataset.spec.task.num_outputs),
        **methods,
        **baselines(dataset),
    }


def table(results: dict[str, Result]) -> str:
    """Return the results as a table in Markdown; the best of a row is bold, by each score."""
    header = ["set", "train/val/test", "channels × length", "classes", *TITLES.values()]
    lines = [header, ["---"] * len(header)]
    for name, result in results.items():
        scores = {key: score for key in TITLES if isinstance(score := result[key], dict)}
        best = {
            "accuracy": max(score["accuracy"] for score in scores.values()),
            "nll": min(score["nll"] for score in scores.values()),
        }
        cells = [_cell(score, best) for score in scores.values()]
        lines.append([name, str(result["samples"]), str(result["shape"]), str(result["classes"]), *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(score: Score, best: Score) -> str:
    shown = {"accuracy": f"{100 * score['accuracy']:.1f}", "nll": f"{score['nll']:.3f}"}
    return " / ".join(f"**{text}**" if score[key] == best[key] else text for key, text in shown.items())


def main() -> None:
    """Measure the named sets, or all, and store the results; or print the stored table."""
    stored: dict[str, Result] = json.loads(STORED.read_text()) if STORED.exists() else {}
    if "--table" not in sys.argv:
        for name in sys.argv[1:] or SETS:
            with TemporaryDirectory() as folder:
                stored[name] = measure(name, Path(folder))
            ordered = {key: stored[key] for key in SETS if key in stored}
            STORED.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(stored))


if __name__ == "__main__":
    main()
