"""Learning curves: do the defaults of `sae train` get worse when rows are added?

    python -m benchmarks.learning_curves [NAME …]  # all sets of `CURVE_SETS`, or some; continues what is stored
    python -m benchmarks.learning_curves --tables  # the tables of docs/defaults.md from the stored results

A fifth of each set's rows is for testing, the same for every size. Of the others, a seed chooses 500, 1,000, 2,000, …
up to all, at most `MOST`; smaller choices are part of larger ones, and classes keep their shares. They become a CSV,
and `sae train` on it without settings is what is measured: it splits the rows by its own shares, and trains again with
twice the epochs where that helps. Linear models and boosting, with scikit-learn's defaults, take training and
validation rows together, for they stop at no validation row.

A step to more rows is judged on the same test rows, over rows and seeds (`sae.analysis.intervals`), with Holm's
correction for all steps of a curve and both metrics. The losses of single rows stay in the cache.
"""

import json
import math
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import NamedTuple, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from scipy.sparse import csr_array
from sklearn.model_selection import train_test_split

from benchmarks.defaults import REGRESSORS, class_probs, prepared
from benchmarks.small_sets import CURVE_SETS, CURVES_TUNED, SmallSet, train_or_print
from sae.analysis.bootstrap import RESAMPLES, resampled_means
from sae.analysis.evidence import Evidence, corrected
from sae.analysis.intervals import Side, combine
from sae.analysis.statistics import BETTER, WORSE, margin_of
from sae.analysis.temperature import losses
from sae.config.run import DataConfig
from sae.core.objectives import TaskName
from sae.core.predictive import as_numbers
from sae.data.batches import evaluation_batches
from sae.data.catalogue import load, resolve
from sae.data.dataset import Dataset, Features, Split
from sae.data.locations import cache_root
from sae.data.splits import choose_rows
from sae.data.table import reading_of
from sae.data.table_files import read_columns
from sae.deploy.rows import encode_columns
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.length import Training, may_train_longer, train_enough
from sae.training.run import preparation, restore

STORED = Path(__file__).with_suffix(".json")
SEEDS = (0, 1, 2)
SMALLEST, LONG, MOST = 500, 8_000, 20_000
NETWORKS = ("sae", "standard")
MODELS = ("linear", "boosting")
OTHERS = ("ensemble", "mc_dropout", "batch_ensemble", "packed")
OTHERS_ON = ("computers", "phoneme")
"""The smallest set of each task; one of them was tuned on."""
TEST_SHARE = 0.2

Values = NDArray[np.float64]


class Row(TypedDict):
    """One model after one seed's rows: mean losses of the test rows, `error` of classes or `rmse` of numbers.

    Networks have the epochs of the training that was kept, and the seconds of all trainings.
    """

    set: str
    method: str
    size: int
    seed: int
    metrics: dict[str, float]
    epochs: int | None
    seconds: float


class Step(TypedDict):
    """What adding rows did to a metric: the difference with its 95 % interval, and p after Holm's correction."""

    set: str
    method: str
    smaller: int
    larger: int
    metric: str
    before: float
    value: float
    low: float
    high: float
    p: float
    verdict: str


class Results(TypedDict):
    """All that is stored."""

    rows: list[Row]
    steps: list[Step]


class Cell(NamedTuple):
    """What one model is measured on."""

    set: str
    method: str
    size: int
    seed: int

    @property
    def losses_file(self) -> Path:
        """Where the losses of each test row are kept."""
        return cache_root() / "benchmarks" / "learning_curves" / f"{'-'.join(map(str, self))}.npy"


@dataclass(frozen=True)
class Rows:
    """The rows of a set: those that sizes are chosen from, and those that are tested on."""

    item: SmallSet
    pool: pd.DataFrame
    test: pd.DataFrame

    @classmethod
    def of(cls, item: SmallSet) -> "Rows":
        """Read a set and hold out its test rows."""
        frame = pd.read_csv(item.file(), dtype=str, keep_default_na=False)
        labels = frame[item.target] if item.task == "classification" else None
        pool, test = train_test_split(frame, test_size=TEST_SHARE, random_state=0, stratify=labels)
        return cls(item, pool, test)

    def sizes(self) -> list[int]:
        """Return the numbers of rows of a curve, each at least 1.4 times the one before."""
        most, doubled = min(len(self.pool), MOST), [SMALLEST * 2**power for power in range(10)]
        return [*(size for size in doubled if size < most / math.sqrt(2)), most]

    def chosen(self, size: int, seed: int) -> pd.DataFrame:
        """Return this many rows; a smaller choice of a seed is part of a larger one."""
        targets = self.pool[self.item.target]
        is_classes = self.item.task == "classification"
        codes = pd.factorize(targets, sort=True)[0] if is_classes else targets.to_numpy(np.float64)
        return self.pool.iloc[choose_rows(codes, size, seed)]


def planned(names: list[str]) -> list[Cell]:
    """Return what is to be measured, seed by seed, so that an early end leaves whole curves; the longest come last."""
    sets = sorted(
        (item for item in CURVE_SETS if not names or item.name in names), key=lambda item: item.name in CURVES_TUNED
    )
    cells = [
        Cell(item.name, method, size, seed)
        for seed in SEEDS
        for item, sizes in [(item, Rows.of(item).sizes()) for item in sets]
        for method in (*MODELS, *NETWORKS, *(OTHERS if item.name in OTHERS_ON else ()))
        for size in sizes
    ]
    return sorted(cells, key=lambda cell: (cell.size > LONG, cell.method in OTHERS))


def measure(cell: Cell, rows: Rows) -> Row:
    """Train one model; keep the losses of each test row, and return their means."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{cell.set}.csv"
        rows.chosen(cell.size, cell.seed).to_csv(path, index=False)
        data = {**rows.item.settings, "name": str(path)}
        fit = fit_model if cell.method in MODELS else fit_network
        numbers, test, epochs = fit(cell, data, rows)
    task: TaskName = rows.item.task
    second = numbers.argmax(axis=1) != test.targets if task == "classification" else numbers[:, 0] - test.targets
    found = np.stack([losses(task, numbers, test.targets), np.square(second.astype(np.float64))], axis=1)
    cell.losses_file.parent.mkdir(parents=True, exist_ok=True)
    np.save(cell.losses_file, found)
    metrics = dict(zip(metrics_of(task), finish(task, found.mean(axis=0)).tolist(), strict=True))
    seconds = round(time.process_time() - start, 1)
    return Row(
        set=cell.set,
        method=cell.method,
        size=cell.size,
        seed=cell.seed,
        metrics=metrics,
        epochs=epochs,
        seconds=seconds,
    )


def metrics_of(task: TaskName) -> tuple[str, str]:
    """Return the metrics of a task; less is better."""
    return ("nll", "error") if task == "classification" else ("nll", "rmse")


def finish(task: TaskName, means: Values) -> Values:
    """Return the metrics from mean losses of rows, (…, metric)."""
    return means if task == "classification" else np.stack([means[..., 0], np.sqrt(means[..., 1])], axis=-1)


def fit_network(cell: Cell, data: Mapping[str, object], rows: Rows) -> tuple[Values, Split, int]:
    """Do what `sae train` does by default; return predictions for the test rows, these, and the epochs."""
    layer = {"data": data, "method": cell.method, "seed": cell.seed}
    config, out = resolve(layer), Path(str(data["name"])).with_name("run")
    training = Training(config)
    record = train_enough(training, out) if may_train_longer(config, layer) else training.run(config, out)
    method, dataset = restore(record)
    test = test_split(dataset, rows)
    outputs = member_outputs(method, evaluation_batches(test.inputs, preparation(dataset, "cpu")))
    numbers = as_numbers(predictive_at(method, outputs, method.exits)).double().numpy()
    return numbers, test, record.read_config().train.epochs


def fit_model(cell: Cell, data: Mapping[str, object], rows: Rows) -> tuple[Values, Split, None]:
    """Fit a model of scikit-learn to training and validation rows; return predictions for the test rows, and these."""
    dataset = load(DataConfig.model_validate(data))
    test = test_split(dataset, rows)
    parts = [prepared(dataset, split) for split in (dataset.train, dataset.val)]
    x, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    x_test = prepared(dataset, test)[0]
    if rows.item.task == "classification":
        probs = class_probs(cell.method, cell.seed, x, y, x_test, dataset.spec.task.num_outputs)
        return np.log(probs.clip(1e-12)), test, None
    model = REGRESSORS[cell.method](cell.seed).fit(x, y)
    variance = np.square(y - model.predict(x)).mean()
    return np.stack([model.predict(x_test), np.full(len(x_test), variance)], axis=1), test, None


def test_split(dataset: Dataset, rows: Rows) -> Split:
    """Return the test rows, encoded like the training rows."""
    samples, targets = encoded_rows(dataset, rows.test), rows.test[rows.item.target]
    if rows.item.task == "regression":
        return Split(samples, targets.to_numpy(np.float64))
    labels = {name: label for label, name in enumerate(dataset.class_names or ())}
    return Split(samples, targets.map(labels).to_numpy(np.int64))


def encoded_rows(dataset: Dataset, frame: pd.DataFrame) -> Features:
    """Return other rows of a table, encoded as a data set encoded its own, (row, feature)."""
    assert dataset.columns is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        frame.to_csv(path, index=False)
        columns = read_columns(path, reading_of(dataset.columns))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that few rows did not have
        return encode_columns(columns, dataset.columns, "the test rows", dataset.spec.shape).samples


def judged(item: SmallSet, method: str, rows: list[Row]) -> list[Step]:
    """Return what each step of a curve does to both metrics, with Holm's correction for all of them."""
    sizes = sorted({row["size"] for row in rows})
    sides = {size: sides_of(item, [row for row in rows if row["size"] == size]) for size in sizes}
    found = {pair: [evidence(item, name, sides, *pair) for name in metrics_of(item.task)] for pair in pairwise(sizes)}
    return [
        Step(
            set=item.name,
            method=method,
            smaller=smaller,
            larger=larger,
            metric=each.metric,
            before=sides[smaller][each.metric].mean,
            value=each.value,
            low=each.low,
            high=each.high,
            p=each.p,
            verdict=each.verdict,
        )
        for (smaller, larger), both in corrected(found).items()
        for each in both
    ]


def sides_of(item: SmallSet, rows: list[Row]) -> dict[str, Side]:
    """Return both metrics of a size, on the test rows and on resamples of them."""
    kept = [np.load(Cell(row["set"], row["method"], row["size"], row["seed"]).losses_file) for row in rows]
    points = finish(item.task, np.stack([each.mean(axis=0) for each in kept]))
    drawn = resampled_means([csr_array(each) for each in kept], RESAMPLES, seed=0)
    resampled = finish(item.task, np.stack(list(drawn), axis=1))
    return {name: Side(points[:, at], resampled[..., at]) for at, name in enumerate(metrics_of(item.task))}


def evidence(
    item: SmallSet, metric: str, sides: Mapping[int, Mapping[str, Side]], smaller: int, larger: int
) -> Evidence:
    """Return the difference that a step makes."""
    before, after = sides[smaller][metric], sides[larger][metric]
    found = combine([after, before], [1, -1])
    margin, seeds = margin_of(metric, item.task, before.mean), (len(after.points), len(before.points))
    return Evidence(metric, "test", found.value, *found.interval, found.p, margin, True, seeds, None)


def read_results() -> Results:
    """Return the stored results."""
    stored: Results = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {"rows": [], "steps": []}
    return stored


def run(names: list[str]) -> None:
    """Measure what is not stored yet, store it one by one, and judge the steps."""
    results = read_results()
    done = {Cell(row["set"], row["method"], row["size"], row["seed"]) for row in results["rows"]}
    sets = {item.name: item for item in CURVE_SETS}
    for cell in planned(names):
        if cell not in done:
            results["rows"].append(row := measure(cell, Rows.of(sets[cell.set])))
            write_results(results)
            Console().print(*cell, row["metrics"], row["epochs"], row["seconds"])
    results["steps"] = [
        step for (name, method), rows in curves(results["rows"]) for step in judged(sets[name], method, rows)
    ]
    write_results(results)


def write_results(results: Results) -> None:
    """Store the results, a line each."""
    parts = ("rows", results["rows"]), ("steps", results["steps"])
    texts = (f' "{name}": [\n  ' + ",\n  ".join(json.dumps(item) for item in items) + "\n ]" for name, items in parts)
    STORED.write_text("{\n" + ",\n".join(texts) + "\n}\n", encoding="utf-8")


def curves(rows: list[Row]) -> Iterator[tuple[tuple[str, str], list[Row]]]:
    """Yield set and method of each curve, with its rows."""
    for item in CURVE_SETS:
        for method in (*NETWORKS, *MODELS, *OTHERS):
            if own := [row for row in rows if (row["set"], row["method"]) == (item.name, method)]:
                yield (item.name, method), own


def tables(results: Results) -> str:
    """Return the tables of docs/defaults.md: what happened in all steps, and a curve a row, of means over seeds."""
    return "\n\n".join([verdicts(results["steps"]), *(curve_table(results, names) for names in (NETWORKS, OTHERS))])


def verdicts(steps: list[Step]) -> str:
    """Return how many steps of each method were better, worse, or neither, and the largest rise of a mean."""
    tasks = {item.name: item.task for item in CURVE_SETS}

    def rise(step: Step) -> float:
        return step["value"] / margin_of(step["metric"], tasks[step["set"]], step["before"])

    lines = ["| steps | better | worse | neither, beyond noise | largest rise |", "|---|---|---|---|---|"]
    for method in (*NETWORKS, *OTHERS, *MODELS):
        for is_tuned in (False, True):
            found = [each for each in steps if (each["method"], each["set"] in CURVES_TUNED) == (method, is_tuned)]
            if not found:
                continue
            told = [each["verdict"] for each in found]
            counts = told.count(BETTER), told.count(WORSE), len(told) - told.count(BETTER) - told.count(WORSE)
            most, label = max(found, key=rise), f"{method}, {'tuned' if is_tuned else 'reported'} sets"
            where = (
                f"{most['set']}, {most['larger']:,} rows: {most['metric']} {most['before']:.3g} {most['value']:+.2g}"
            )
            lines.append(f"| {' | '.join([label, *map(str, counts), where if rise(most) > 0 else 'none'])} |")
    return "\n".join(lines)


def curve_table(results: Results, methods: tuple[str, ...]) -> str:
    """Return a row for each curve of some methods; a number is marked where the step to it made a metric worse."""
    sizes = [SMALLEST * 2**power for power in range(5)]
    titles = ["set", "number", "method", *(f"{size:,}" for size in sizes), "all", *(f"{name}, all" for name in MODELS)]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    means = {(name, method): _means(rows) for (name, method), rows in curves(results["rows"])}
    worse = {(step["set"], step["method"], step["larger"]) for step in results["steps"] if step["verdict"] == WORSE}
    for (name, method), curve in means.items():
        if method not in methods:
            continue
        most = max(means[name, MODELS[0]])
        cells = {size: f"{curve[size]:.3g}{' ↑' if (name, method, size) in worse else ''}" for size in curve}
        row = [cells.get(size, "") if size != most else "" for size in sizes]
        models = [f"{means[name, model].get(most, math.nan):.3g}" for model in MODELS]
        seeds = len({row["seed"] for row in results["rows"] if (row["set"], row["method"]) == (name, method)})
        remarks = [*(["tuned"] if name in CURVES_TUNED else []), *(["1 seed"] if seeds == 1 else [])]
        label = f"{name} ({', '.join(remarks)})" if remarks else name
        metric = "NLL" if name in {item.name for item in CURVE_SETS if item.task == "classification"} else "RMSE"
        lines.append(f"| {' | '.join([label, metric, method, *row, cells.get(most, ''), *models])} |")
    return "\n".join(lines)


def _means(rows: list[Row]) -> dict[int, float]:
    """Return RMSE, or NLL of classes, by size."""
    metric = "rmse" if "rmse" in rows[0]["metrics"] else "nll"
    return {
        size: mean(row["metrics"][metric] for row in rows if row["size"] == size)
        for size in sorted({row["size"] for row in rows})
    }


if __name__ == "__main__":
    train_or_print(__doc__, run, lambda: tables(read_results()))
