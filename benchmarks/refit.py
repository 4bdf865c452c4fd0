"""Shipping a network that is trained once more, with the validation samples, too: what does it bring?

    python -m benchmarks.refit [NAME …]     # some sets, by default all; stored
    python -m benchmarks.refit --tables     # the table of docs/defaults.md from the stored results

Trains SAE and standard networks on small tables with three seeds, each with its own split, and exports each run as it
is and with `--refit`. Metrics and the coverage of 90 % conformal sets or intervals are those of the two files on the
test split. How a network is trained again was chosen on Auto and Carseats, which are not among the sets.
"""

import json
import tempfile
from pathlib import Path
from statistics import mean, stdev

from benchmarks.docs_tables import write_tables
from benchmarks.small_sets import SETS, train_or_print
from sae.data.catalogue import resolve
from sae.deploy.export import export
from sae.deploy.manifest import Manifest
from sae.training.run import train

STORED = Path(__file__).with_suffix(".json")
NAMES = ("bupa", "heart", "pima", "sonar", "credit", "hitters")
METHODS, SEEDS = ("sae", "standard"), (0, 1, 2)
Measured = dict[str, float]
Results = dict[str, dict[str, list[dict[str, Measured]]]]
"""Numbers by set, method, seed and file: `before` or `after`."""


def measure(name: str, method: str, seed: int) -> dict[str, Measured]:
    """Train a network; return the numbers of its file, and of the one with --refit."""
    item = next(item for item in SETS if item.name == name)
    config = resolve({"data": {**item.settings, "split_seed": seed}, "method": method, "seed": seed})
    with tempfile.TemporaryDirectory() as folder:
        run = train(config, Path(folder) / "run").path
        return {
            label: numbers(export(run, Path(folder) / label / "model.onnx", refit=label == "after"))
            for label in ("before", "after")
        }


def numbers(manifest: Manifest) -> Measured:
    """Return test metrics of a file, with the coverage and size of its conformal sets or intervals."""
    test, conformal = manifest.metrics["test"], manifest.conformal
    assert conformal is not None
    assert conformal.test_coverage is not None
    assert conformal.test_size is not None
    quality = {"accuracy": test["accuracy"]} if "accuracy" in test else {"rmse": test["mse"] ** 0.5}
    return {"nll": test["nll"], **quality, "coverage": conformal.test_coverage, "size": conformal.test_size}


def read_results() -> Results:
    """Read what is stored."""
    stored: Results = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    return stored


def run(names: list[str]) -> None:
    """Measure what is not stored yet."""
    stored = read_results()
    for name in names or NAMES:
        for method in METHODS:
            found = stored.setdefault(name, {}).setdefault(method, [])
            for seed in SEEDS[len(found) :]:
                found.append(measure(name, method, seed))
                print(name, method, seed, found[-1], flush=True)
                STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def tables() -> dict[str, str]:
    """Return the table by its name in the docs: for each set, and over the sets of a task, before → after."""
    stored = read_results()
    titles = ["method", "set", "NLL", "change, ± over runs", "accuracy or RMSE", "coverage of 90 % sets", "their size"]
    lines = [titles, ["---", "---", *["---:"] * (len(titles) - 2)]]
    for method in METHODS:
        of_task: dict[str, list[dict[str, Measured]]] = {}
        for name, results in stored.items():
            runs = results[method]
            quality = "accuracy" if "accuracy" in runs[0]["before"] else "rmse"
            of_task.setdefault(quality, []).extend(runs)
            texts = [change(runs, key) for key in (quality, "coverage", "size")]
            lines.append([method, name, change(runs, "nll"), difference(runs), *texts])
        for quality, runs in of_task.items():
            task = "classes" if quality == "accuracy" else "numbers"
            what = change(runs, quality) if quality == "accuracy" else ""
            lines.append(
                [method, f"**{task}**", change(runs, "nll"), difference(runs), what, change(runs, "coverage"), ""]
            )
    return {"refit": "\n".join(f"| {' | '.join(line)} |" for line in lines)}


def difference(runs: list[dict[str, Measured]]) -> str:
    """Return the mean change of the NLL with its standard deviation over runs."""
    changes = [run["after"]["nll"] - run["before"]["nll"] for run in runs]
    return f"{mean(changes):+.3f} ± {stdev(changes):.3f}"


def change(runs: list[dict[str, Measured]], key: str) -> str:
    """Return the means before and after, `0.403 → 0.313`."""
    return " → ".join(f"{mean(run[label][key] for run in runs):.3f}" for label in ("before", "after"))


def show() -> str:
    """Write the table into the docs and return it."""
    found = tables()
    write_tables("defaults.md", found)
    return found["refit"]


if __name__ == "__main__":
    train_or_print(__doc__, run, show)
