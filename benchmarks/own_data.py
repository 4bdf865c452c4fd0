"""The whole chain of commands on data as users have them, compared with scikit-learn.

    python -m benchmarks.own_data [NAME …]        # all sets, or some
    python -m benchmarks.own_data --table         # the table of docs/data.md from the stored results

Each set is a file or a folder as a user would have it, made from packages of the index and from scikit-learn (see
`benchmarks.small_sets`). The commands are those of a user, in processes of their own, and any that fails stops the
benchmark. `train` is `sae train` without settings; `pick` is what `sae search` with a few trials of SAE and of
standard networks picks for NLL, exported as ONNX and applied by `sae predict` to the test rows of the file.
scikit-learn's models have their defaults and take the same prepared samples. One seed.
"""

import argparse
import csv
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.defaults import REGRESSORS, class_probs, prepared
from benchmarks.signals import write_set
from benchmarks.small_sets import PENGUINS, SETS, packaged, write_table
from sae.core.task import Classification
from sae.data.binding import Binding, load_bound
from sae.data.dataset import Dataset
from sae.records.run import RunRecord

STORED = Path(__file__).with_name("own_data.json")
SAE = [sys.executable, "-m", "sae"]
SEARCH = (
    *("--method", "sae,standard", "--objectives", "nll,flops", "--trials", "4", "--sampler", "random"),
    *("--grid", "1", "--set", "backbone.width=1"),
)
MODELS = ("linear", "forest", "boosting")

MOST_BOOSTED = 1000
"""Most features for gradient boosting; the pixels of images would take many minutes."""

Numbers = dict[str, float]
Result = dict[str, Any]


@dataclass(frozen=True)
class OwnSet:
    """A set of the benchmark.

    Attributes:
        what: The purpose of the set.
        write: Writes it into a folder and returns the path of the data.
        flags: The flags that a user gives for it.
    """

    what: str
    write: Callable[[Path], Path]
    flags: str


def raw_penguins() -> list[list[str]]:
    """Return the raw records of the penguins: texts, dates, missing values, comments and identifiers."""
    text = packaged(PENGUINS, "palmerpenguins/data/penguins-raw.csv").decode()
    return list(csv.reader(io.StringIO(text)))


def penguin_records(folder: Path) -> Path:
    """Write the raw records as they are."""
    return write_table(folder / "penguins-raw", raw_penguins())


def laying_dates(folder: Path) -> Path:
    """Write the date on which a nest had eggs in Unix seconds, beside measures of the bird."""
    header, *rows = raw_penguins()
    kept = [
        "Species",
        "Island",
        "Culmen Length (mm)",
        "Culmen Depth (mm)",
        "Flipper Length (mm)",
        "Body Mass (g)",
        "Sex",
    ]
    when = header.index("Date Egg")
    chosen = [[*(row[header.index(name)] for name in kept), _unix(row[when])] for row in rows]
    return write_table(folder / "laying", [[*kept, "egg_unix"], *chosen])


def _unix(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())


def mixed_digits(folder: Path) -> Path:
    """Write 600 digits as PNG and JPEG files of many sizes, gray and colour, in one folder per class."""
    from sklearn.datasets import load_digits

    loaded, rng = load_digits(), np.random.default_rng(0)
    for number in range(600):
        side, kind = int(rng.integers(12, 49)), number % 3
        place = folder / "digits" / str(loaded.target[number])
        place.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray((loaded.images[number] * 255 / 16).astype(np.uint8)).resize((side, side + number % 5))
        (image.convert("RGB") if kind else image).save(place / f"{number}.{'jpg' if kind == 2 else 'png'}")
    return folder / "digits"


def wages(folder: Path) -> Path:
    """Write ISLP's wages as Parquet."""
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    path = folder / "wage.parquet"
    parquet.write_table(arrow_csv.read_csv(_file("wage")), path)
    return path


def power(folder: Path) -> Path:
    """Write aeon's daily power demand in Italy, with its published test split."""
    return write_set("ItalyPowerDemand", folder)


def _file(name: str) -> Path:
    return next(item for item in SETS if item.name == name).file()


OWN = {
    "mixed images": OwnSet("600 digits, 12–48 pixels, gray and colour, PNG and JPEG", mixed_digits, "--resize 32"),
    "records": OwnSet(
        "raw records of 344 penguins: texts, dates, missing values, comments, identifiers",
        penguin_records,
        "--target Species --task classification --ignore Comments,studyName --ignore 'Individual ID'",
    ),
    "unix time": OwnSet(
        "the same penguins: the day on which a nest had eggs, in Unix seconds",
        laying_dates,
        "--target egg_unix --task regression",
    ),
    "parquet": OwnSet("3,000 wages in Parquet", wages, "--target wage --task regression"),
    "signals": OwnSet("1,096 days of power demand, 24 hours each", power, "--task classification"),
    "300 classes": OwnSet(
        "300 synthetic classes × 5 samples", lambda _: _file("many_classes"), "--target target --task classification"
    ),
    "1 in 130": OwnSet(
        "4,174 abalones, 32 of them rare", lambda _: _file("abalone19"), "--target target --task classification"
    ),
}


def sae(*arguments: str | Path) -> Any:
    """Run a command and return its JSON output."""
    command = [*SAE, *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def chain(item: OwnSet, folder: Path) -> Result:
    """Run all commands on a set; return their numbers on its test split, and scikit-learn's."""
    import shlex

    data, flags = item.write(folder), shlex.split(item.flags)
    run, study, model = folder / "run", folder / "study", folder / "ship" / "model.onnx"
    sae("train", "--data", data, *flags, "--out", run)
    trained = sae("evaluate", run, "--calibrate")
    sae("search", "--data", data, *flags, *SEARCH, "--workers", "1", "--out", study)
    pick = sae("pick", study, "--prefer", "nll")
    shipped = sae("export", study, "--prefer", "nll", "--out", model)
    dataset = _dataset(run)
    predicted = sae("predict", model, data, "--out", folder / "answers.csv")
    return {
        "what": item.what,
        "samples": f"{len(dataset.train)}/{len(dataset.val)}/{len(dataset.test)}",
        "train": _kept(trained["metrics"]),
        "pick": {**_kept(shipped["metrics"]["test"]), "trial": pick["trial"], "flops": shipped["cost"]["flops"]},
        "predicted": predicted["samples"],
        **{name: model_numbers(name, dataset) for name in ("trivial", *MODELS)},
    }


def _dataset(run: Path) -> Dataset:
    record = RunRecord.open(run)
    config = record.read_config()
    return load_bound(config.data, config.seed, Binding.read(record))


def _kept(metrics: dict[str, float]) -> Numbers:
    return {key: metrics[key] for key in ("nll", "accuracy", "f1", "rmse", "coverage_90") if key in metrics}


def model_numbers(name: str, dataset: Dataset) -> Numbers:
    """Fit a model of scikit-learn, or none, to the prepared training samples; return its numbers on the test split."""
    from sklearn.metrics import f1_score

    (x, y), (x_test, y_test) = (prepared(dataset, split) for split in (dataset.train, dataset.test))
    if name == "boosting" and x.shape[1] > MOST_BOOSTED:
        return {}
    if isinstance(dataset.spec.task, Classification):
        probs = class_probs(name, 0, x, y, x_test, dataset.spec.task.num_classes)
        chosen = probs[np.arange(len(y_test)), y_test].clip(1e-12)
        found = probs.argmax(axis=1)
        f1 = float(f1_score(y_test, found, average="macro", zero_division=0))
        return {"nll": float(-np.log(chosen).mean()), "accuracy": float((found == y_test).mean()), "f1": f1}
    mean = np.full(len(x_test), y.mean()) if name == "trivial" else REGRESSORS[name](0).fit(x, y).predict(x_test)
    return {"rmse": float(np.sqrt(np.square(y_test - mean).mean()))}


def table(results: dict[str, Result]) -> str:
    """Return the results as a table in Markdown: NLL and accuracy, or RMSE; the best of a row is bold."""
    names = ("train", "pick", "trivial", *MODELS)
    header = [
        "data",
        "train/val/test",
        "number",
        "`sae train`",
        "pick, shipped",
        "trivial",
        "linear",
        "forest",
        "boosting",
    ]
    lines = [header, ["---"] * len(header)]
    for name, result in results.items():
        keys = ("rmse",) if "rmse" in result["train"] else ("nll", "accuracy")
        for key in keys:
            values = [result[each].get(key) for each in names]
            best = (max if key == "accuracy" else min)(value for value in values if value is not None)
            cells = [
                "–" if value is None else f"**{value:.4g}**" if value == best else f"{value:.4g}" for value in values
            ]
            title = [f"{name}: {result['what']}", result["samples"]] if key == keys[0] else ["", ""]
            lines.append([*title, {"nll": "NLL", "rmse": "RMSE"}.get(key, key), *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Run the named sets, or all, and store the results; or print the stored table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    stored: dict[str, Result] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    for name in () if given.table else given.names or OWN:
        with tempfile.TemporaryDirectory() as folder:
            stored[name] = chain(OWN[name], Path(folder))
        ordered = {key: stored[key] for key in OWN if key in stored}
        STORED.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(name, stored[name]["train"], stored[name]["pick"], flush=True)
    print(table({key: stored[key] for key in OWN if key in stored}))


if __name__ == "__main__":
    main()
