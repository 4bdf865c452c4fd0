"""Does the tool say so when a linear model or boosting is better on a user's data?

    python -m benchmarks.verdicts [NAME …]        # all sets of `VERDICT_SETS`, or some; continues what is stored
    python -m benchmarks.verdicts --tables        # the table of docs/defaults.md from the stored results

A seed chooses a fifth of the rows for testing; the others become a file. Its commands are those of a user, with
defaults and in processes of their own: `sae train`, `sae export`, for classes with `--refit` as for a pick, and
`sae predict` on the test rows. `--task` says whether grades or counts are predicted. Ridge or logistic regression and
boosting, with scikit-learn's defaults, are fitted to all rows of the file. The number is RMSE, or NLL of classes; a
network is worse if it is more than `MARGIN` above the better of the two on the test rows. What the tool says it says
from validation rows, in the first line of stdout and in a field of `--json`.
"""

import argparse
import csv
import json
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Literal, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.defaults import REGRESSORS, class_probs, prepared
from benchmarks.learning_curves import TEST_SHARE, encoded_rows
from benchmarks.own_data import SAE
from benchmarks.small_sets import VERDICT_SETS, SmallSet
from sae.config.run import DataConfig
from sae.data.catalogue import load
from sae.data.dataset import SPLITS, Dataset, Split

STORED = Path(__file__).with_suffix(".json")
SEEDS = (0, 1, 2, 3, 4)
MARGIN = 0.1

CONTESTANTS: tuple[Literal["sae", "linear", "boosting"], ...] = ("sae", "linear", "boosting")

Numbers = dict[str, float]


class Row(TypedDict):
    """One set and seed: test numbers of the tool's network and of the models, and what the tool said.

    `verdict` is the field of `--json`, null where no model is called better; `leads`: stdout begins with it.
    """

    set: str
    seed: int
    task: str
    rows: int
    sae: Numbers
    linear: Numbers
    boosting: Numbers
    verdict: str | None
    leads: bool
    seconds: float


@dataclass(frozen=True)
class Parts:
    """The file that a user has, and the rows that are tested on; the latter are the same table or `.npz`."""

    item: SmallSet
    file: Path
    test: Path

    @classmethod
    def write(cls, item: SmallSet, seed: int, folder: Path) -> "Parts":
        """Split a set; classes keep their shares."""
        source = item.file()
        found = cls(item, folder / source.name, folder / f"test{source.suffix}")
        if item.target is None:
            arrays = dict(np.load(source))
            for path, rows in zip(found.paths, cls._split(arrays["labels"], seed), strict=True):
                np.savez(path, allow_pickle=False, **{name: array[rows] for name, array in arrays.items()})
            return found
        frame = pd.read_csv(source, dtype=str, keep_default_na=False)
        labels = frame[item.target] if item.task == "classification" else None
        for path, rows in zip(found.paths, cls._split(labels, seed, len(frame)), strict=True):
            frame.iloc[rows].to_csv(path, index=False)
        return found

    @property
    def paths(self) -> tuple[Path, Path]:
        """Both files."""
        return self.file, self.test

    @staticmethod
    def _split(labels: Any, seed: int, count: int | None = None) -> list[NDArray[np.int64]]:
        rows = np.arange(len(labels) if count is None else count)
        return [
            np.sort(part) for part in train_test_split(rows, test_size=TEST_SHARE, random_state=seed, stratify=labels)
        ]

    def truth(self) -> NDArray[Any]:
        """Return the targets of the test rows: numbers, or names of classes."""
        if self.item.target is None:
            labels: NDArray[Any] = np.load(self.test)["labels"]
            return labels
        targets = pd.read_csv(self.test, dtype=str, keep_default_na=False)[self.item.target]
        return np.asarray(targets, np.float64 if self.item.task == "regression" else str)


def measure(item: SmallSet, seed: int) -> Row:
    """Run the commands on a set, and fit the models to the same rows."""
    start, task = time.monotonic(), item.narrower or item.task
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = Parts.write(item, seed, folder)
        target = [] if item.target is None else ["--target", item.target]
        out, model = folder / "run", folder / "ship" / "model.onnx"
        train = ["train", parts.file, *target, "--task", task, "--seed", seed, "--out", out]
        first_line = said(*train).splitlines()[0].strip()
        verdict = json.loads(said(*train, "--json"))["baselines"]["verdict"]
        said("export", out, "--out", model, *(["--refit"] if item.task == "classification" else []))
        said("predict", model, parts.test, "--out", folder / "answers.csv")
        dataset = load(DataConfig.model_validate({**item.settings, "name": str(parts.file)}))
        return Row(
            set=item.name,
            seed=seed,
            task=task,
            rows=sum(len(dataset.split(split)) for split in SPLITS),
            sae=answered(parts, folder / "answers.csv"),
            linear=fitted("linear", seed, dataset, parts),
            boosting=fitted("boosting", seed, dataset, parts),
            verdict=verdict,
            leads=verdict is not None and first_line.startswith(verdict),
            seconds=round(time.monotonic() - start, 1),
        )


def said(*arguments: str | int | Path) -> str:
    """Run a command and return its stdout."""
    command = [*SAE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def answered(parts: Parts, answers: Path) -> Numbers:
    """Return the numbers of what `sae predict` wrote for the test rows."""
    with answers.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if parts.item.task == "regression":
        return numbers_of(parts, np.array([float(row["mean"]) for row in rows]), ())
    names = [name for name in rows[0] if name.startswith("p_")]
    probs = np.array([[float(row[name]) for name in names] for row in rows])
    return numbers_of(parts, probs, tuple(name.removeprefix("p_") for name in names))


def fitted(name: str, seed: int, dataset: Dataset, parts: Parts) -> Numbers:
    """Fit a model of scikit-learn to all rows of the file; return its numbers on the test rows."""
    splits = [prepared(dataset, dataset.split(split)) for split in SPLITS]
    x, y = (np.concatenate(each) for each in zip(*splits, strict=True))
    x_test = prepared(dataset, test_inputs(dataset, parts))[0]
    if parts.item.task == "regression":
        return numbers_of(parts, REGRESSORS[name](seed).fit(x, y).predict(x_test), ())
    probs = class_probs(name, seed, x, y, x_test, dataset.spec.task.num_outputs)
    return numbers_of(parts, probs, dataset.class_names or ())


def test_inputs(dataset: Dataset, parts: Parts) -> Split:
    """Return the test rows, encoded as the tool encodes them; without targets."""
    if parts.item.target is None:
        signals = np.load(parts.test)["signals"]
        return Split(signals, np.zeros(len(signals), np.int64))
    samples = encoded_rows(dataset, pd.read_csv(parts.test, dtype=str, keep_default_na=False))
    return Split(samples, np.zeros(len(samples), np.int64))


def numbers_of(parts: Parts, predicted: NDArray[np.float64], names: tuple[str, ...]) -> Numbers:
    """Return RMSE; or NLL, accuracy and, for two classes, the area under the ROC curve.

    Args:
        parts: For the targets of the test rows.
        predicted: Means, (row,), or probabilities, (row, class).
        names: The names of the classes.
    """
    truth = parts.truth()
    if parts.item.task == "regression":
        return {"rmse": float(np.sqrt(np.square(predicted - truth).mean()))}
    labels = np.array([names.index(str(name)) for name in truth])
    chosen = predicted[np.arange(len(labels)), labels].clip(1e-12)
    found = {"nll": float(-np.log(chosen).mean()), "accuracy": float((predicted.argmax(axis=1) == labels).mean())}
    return {**found, "auroc": float(roc_auc_score(labels, predicted[:, 1]))} if len(names) == 2 else found


def read_rows() -> list[Row]:
    """Return the stored rows."""
    stored: list[Row] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else []
    return stored


def run(names: list[str], seeds: list[int]) -> None:
    """Measure what is not stored yet, seed by seed, and store it one by one."""
    rows = read_rows()
    done = {(row["set"], row["seed"]) for row in rows}
    for seed in seeds:
        for item in VERDICT_SETS:
            if (item.name, seed) not in done and (not names or item.name in names):
                rows.append(row := measure(item, seed))
                STORED.write_text("[\n " + ",\n ".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")
                Console().print(row)


def number(values: Numbers) -> float:
    """Return the number that models are compared by; less is better."""
    return values["rmse"] if "rmse" in values else values["nll"]


def ratio(row: Row) -> float:
    """Return the network's number as a multiple of the better model's."""
    return number(row["sae"]) / min(number(row["linear"]), number(row["boosting"]))


def is_said(row: Row) -> bool:
    """Return whether both places say that a model is better."""
    return row["leads"]


def table(rows: list[Row]) -> str:
    """Return a row for each set: means over seeds, and what was said where the network is worse by the margin."""
    header = [
        "set",
        "task",
        "rows",
        "number",
        "SAE",
        "linear",
        "boosting",
        "to the better",
        f"seeds worse by > {MARGIN:.0%}",
        "said there",
        "said elsewhere",
    ]
    lines = [header, ["---"] * len(header)]
    for item in VERDICT_SETS:
        own = [row for row in rows if row["set"] == item.name]
        if not own:
            continue
        values = {name: mean(number(row[name]) for row in own) for name in CONTESTANTS}
        worse = [row for row in own if ratio(row) > 1 + MARGIN]
        elsewhere = sum(is_said(row) for row in own) - sum(map(is_said, worse))
        lines.append(
            [
                item.name,
                own[0]["task"],
                f"{own[0]['rows']:,}",
                "RMSE" if item.task == "regression" else "NLL",
                *(f"**{value:.4g}**" if value == min(values.values()) else f"{value:.4g}" for value in values.values()),
                f"× {values['sae'] / min(values['linear'], values['boosting']):.2f}",
                f"{len(worse)} of {len(own)}",
                str(sum(map(is_said, worse))) if worse else "–",
                str(elsewhere),
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Measure, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    given = parser.parse_args()
    if not given.tables:
        run(given.names, given.seeds)
    print(table(read_rows()))


if __name__ == "__main__":
    main()
