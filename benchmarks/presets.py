"""What the small presets of slow backbones confirmed, and how long they took.

    sae experiment docs/reproduction/blood-cells-experiment.yaml   # in the folder of bloodmnist-rebuilt.npz
    python -m benchmarks.presets blood-cells=experiments/blood-cells-experiment-small=MINUTES   # of CPU
    python -m benchmarks.presets --table          # the table of docs/reproduction.md from the stored results

Numbers are of the test split, clean and over its 95 corrupted versions, over the seeds of the confirmation.
"""

import argparse
import json
from pathlib import Path

from pydantic import TypeAdapter

from sae.analysis.selection import select
from sae.records.evaluation import Part
from sae.records.run import RunRecord
from sae.records.study import ConfirmedItem, MeanAndStd, StudyRecord

STORED = Path(__file__).parents[1] / "docs" / "reproduction" / "presets.json"
TITLES = {"retina": "RetinaMNIST, ViT, 3 epochs", "blood-cells": "blood cells (rebuilt, own split), VGG, 5 epochs"}


class Network(Part):
    """A configuration that was trained again: its costs, and metrics on test samples, clean and under shift.

    The learning rate was not stored at first.
    """

    trial: str
    kind: str
    settings: str
    rate: float | None = None
    eval_exits: int
    is_pick: bool
    flops: float
    test: dict[str, MeanAndStd]
    shift: dict[str, MeanAndStd]


class Experiment(Part):
    """An experiment as a whole.

    Attributes:
        metrics: The two metrics that it was searched for.
        trials: Trials that finished.
        runs: Runs on other seeds that finished.
        minutes: Minutes of CPU over all processes.
        networks: What was confirmed.
    """

    metrics: tuple[str, str]
    trials: int
    runs: int
    minutes: float
    networks: list[Network]


Results = dict[str, Experiment]
FILE = TypeAdapter(Results)


def read_results(stored: Path) -> Results:
    """Return the stored results."""
    return FILE.validate_json(stored.read_bytes()) if stored.exists() else {}


def read_experiment(folder: Path, minutes: float) -> Experiment:
    """Return what an experiment confirmed."""
    record = StudyRecord.open(folder)
    confirmed = record.read_confirmed()
    assert confirmed is not None, f"{folder} must have confirmed its front"
    first, second = (item.name for item in record.objectives if not item.is_cost)
    pick = select(record).pick().candidate
    chosen = {(item.trial, item.eval_exits): item for item in (*confirmed.front, *(confirmed.shifted or ()))}
    again = {path for item in chosen.values() for path in item.confirmed_in}
    return Experiment(
        metrics=(first, second),
        trials=sum(run.state == "finished" for run in record.read_runs()),
        runs=len(again),
        minutes=minutes,
        networks=[network_of(record, item, (pick.label, pick.eval_exits)) for item in chosen.values()],
    )


def network_of(record: StudyRecord, item: ConfirmedItem, pick: tuple[str, int]) -> Network:
    """Return the numbers of one configuration."""
    metrics = [objective.name for objective in record.objectives if not objective.is_cost]
    trial = RunRecord(record.path.joinpath(record.TRIALS, *Path(item.run).parts[-2:]))
    return Network(
        trial=item.trial,
        kind=item.kind,
        settings=item.settings,
        rate=trial.read_config().train.lr,
        eval_exits=item.eval_exits,
        is_pick=(item.trial, item.eval_exits) == pick,
        flops=item.costs["flops"].mean,
        test={key: item.test[key] for key in metrics},
        shift={key: (item.shift or {})[key] for key in metrics},
    )


def spread(value: MeanAndStd) -> str:
    """Format the mean ± standard deviation over seeds."""
    return f"{value.mean:.3f} ± {value.std:.3f}"


def table(name: str, result: Experiment) -> str:
    """Return the results of one experiment as a table in Markdown, the cheapest network first."""
    labels = [{"nll": "NLL", "cc_ece": "CC-ECE", "mse": "MSE"}[key] for key in result.metrics]
    has_rates = all(item.rate for item in result.networks)
    header = [
        TITLES[name],
        "settings",
        *(["lr"] if has_rates else []),
        "MFLOPs",
        *labels,
        *(f"{label}, shifted" for label in labels),
    ]
    lines = [header, ["---"] * len(header)]
    for item in sorted(result.networks, key=lambda item: item.flops):
        exits = f", K′={item.eval_exits}" if "K=" in item.settings else ""
        star = " (the pick)" if item.is_pick else ""
        cells = [spread(found[key]) for found in (item.test, item.shift) for key in result.metrics]
        rate = [f"{item.rate:g}"] if has_rates else []
        lines.append([f"{item.kind}{star}", f"{item.settings}{exits}", *rate, f"{item.flops / 1e6:.2f}", *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def effort(name: str, result: Experiment) -> str:
    """Return one sentence on how much was done, and how long it took."""
    return f"{TITLES[name]}: {result.trials} trials and {result.runs} runs, {result.minutes:.0f} minutes of CPU in all"


def main() -> None:
    """Read the named experiments and store their results; or print the stored tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help="NAME=FOLDER=MINUTES of CPU")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    stored = read_results(STORED)
    for text in () if given.table else given.sets:
        name, folder, minutes = text.split("=")
        stored[name] = read_experiment(Path(folder), float(minutes))
        STORED.write_text(json.dumps(FILE.dump_python(stored, mode="json"), indent=1) + "\n", encoding="utf-8")
    for name, result in stored.items():
        print(table(name, result))
        print(effort(name, result))


if __name__ == "__main__":
    main()
