"""CPU time and size of the report of a large study, made up without training.

python -m benchmarks.report_page [TRIALS] [FOLDER]    # 1,000 trials by default; the study stays in FOLDER
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sae.config.study import StudyConfig
from sae.data.catalogue import resolve
from sae.records.evaluation import Evaluation, Reading
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.report.build import report_of
from sae.report.page import write_page

DEPTH = 5
EPOCHS = 15


def make_up(folder: Path, trials: int) -> StudyRecord:
    """Write a study of SAE with made-up results at five numbers of exits for each trial."""
    base = {"data": {"name": "digits"}, "backbone": {"name": "fc"}}
    config = StudyConfig.model_validate(
        {
            **{"id": "large", "task": "classification", "spaces": {"sae": base}, "max": {}, "min": {}, "seed": 0},
            **{"objectives": ("nll", "cc_ece", "flops"), "sampler": "random", "startup": 4, "grid": 1, "rungs": ()},
            **{"reduction": 3, "shift": False},
        }
    )
    record, rng = StudyRecord.create(folder, config), np.random.default_rng(0)
    for number in range(trials):
        inputs, exits = int(rng.integers(1, 5)), int(rng.integers(1, DEPTH + 1))
        method = {"name": "sae", "inputs": inputs, "exits": exits}
        run_config = resolve({**base, "method": method, "train": {"lr": float(rng.uniform(1e-4, 1e-2))}})
        run = record.trial("sae", number, run_config)
        run.make(run_config)
        _fill(run, inputs, exits, rng)
    return record


def _fill(run: RunRecord, inputs: int, exits: int, rng: np.random.Generator) -> None:
    readings = []
    for k in range(1, DEPTH + 1):
        cost = int(rng.integers(100_000, 1_000_000)) * k
        metrics = {name: float(rng.random()) for name in ("nll", "cc_ece", "ece", "f1", "accuracy")}
        costs = dict.fromkeys(("flops", "params", "shipped_flops", "shipped_params"), cost)
        active = (0,) * (DEPTH - k) + (inputs,) * k
        readings.append(Reading(eval_exits=k, active=active, metrics=metrics, **costs))
    evaluation = Evaluation(exits=exits, readings=tuple(readings)).to_json()
    run.write_json(run.METRICS, {"val": evaluation, "test": evaluation})
    theta = {f"theta_{i}_{j}": 1 / DEPTH for i in range(inputs) for j in range(DEPTH)}
    run.write_rows(run.HISTORY, [{"epoch": e + 1, "loss": 1.0, "val_nll": 1.0, **theta} for e in range(EPOCHS)])
    run.end("finished", seconds=1.0)


def main() -> None:
    """Print CPU seconds and megabytes."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else temporary) / "study"
        record = StudyRecord.open(folder) if folder.exists() else make_up(folder, trials)
        start = time.process_time()
        report = report_of([record])
        built = time.process_time()
        write_page(report, folder / record.REPORT)
        end = time.process_time()
        size = (folder / record.REPORT).stat().st_size / 1e6
        print(
            f"{trials:,} trials: {built - start:.1f} s CPU to build, {end - built:.1f} s to write, page {size:.2f} MB"
        )


if __name__ == "__main__":
    main()
