"""Time of the search driver per trial: asking for trials and recording results, without any training.

Jobs end at once: their run folders are filled with made-up results. So only the driver is timed, on an
SQLite file, in a search of a realistic length.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from sae.config.run import RunConfig
from sae.config.study import Sampler, StudyConfig
from sae.core.objectives import objectives
from sae.data.catalogue import load
from sae.records.evaluation import Evaluation, Reading
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.search.driver import Budget, Driver
from sae.search.job import Job, Outcome
from sae.search.method_study import MethodStudy, open_studies
from sae.search.space import Space, build_space

TRIALS, STARTUP, LATE = 45, 10, 10
"""All trials of a search, the random ones at its start, and the timed ones at its end."""
NAMES = ("nll", "cc_ece", "flops")
SAMPLERS: tuple[Sampler, ...] = ("random", "tpe", "scalarized", "gp")


class InstantExecutor:
    """Ends every job at once, with made-up results."""

    capacity = 1

    def __init__(self) -> None:
        self.running: list[Job] = []
        self.seconds = 0.0  # spent here, not in the driver

    def submit(self, job: Job) -> None:
        """Keep the job."""
        self.running.append(job)

    def wait(self, timeout: float) -> list[tuple[Job, Outcome]]:
        """Return all jobs as finished."""
        del timeout
        start = time.perf_counter()
        ended = [(job, Outcome("finished")) for job in self.running]
        for job, _ in ended:
            _make_up_results(job)
        self.running = []
        self.seconds += time.perf_counter() - start
        return ended

    def close(self) -> None:
        """Do nothing: there are no workers."""


def _make_up_results(job: Job) -> None:
    record = RunRecord.create(job.folder, job.config)
    rng = np.random.default_rng(int(job.name.split("/")[1]))
    depth = job.config.backbone.depth
    metrics = dict(zip(("nll", "cc_ece"), rng.random(2).tolist(), strict=True))
    readings = []
    for k in range(1, depth + 1):
        params, flops = 1000 * k, int(rng.integers(100_000, 1_000_000))
        reading = Reading(
            eval_exits=k,
            active=(1,) * depth,
            params=params,
            flops=flops,
            shipped_params=params,
            shipped_flops=flops,
            metrics=metrics,
        )
        readings.append(reading)
    evaluation = Evaluation(exits=job.config.method.trained_exits, readings=tuple(readings)).to_json()
    record.write_json(record.METRICS, {"val": evaluation, "test": evaluation})
    record.end("finished", seconds=1.0)


def open_driver(folder: Path, sampler: Sampler) -> tuple[Driver, InstantExecutor]:
    """Open a search of SAE's whole space."""
    base = {"data": {"name": "digits"}, "backbone": {"name": "fc"}}
    space: Space = build_space("sae", base, {}, {})
    config = StudyConfig(
        id="overhead",
        task="classification",
        spaces={"sae": dict(space.to_yaml())},
        objectives=NAMES,
        max={},
        min={},
        sampler=sampler,
        startup=STARTUP,
        grid=1,
        rungs=(),
        reduction=3,
        shift=False,
        seed=0,
    )
    record = StudyRecord.create(folder, config)
    studies: list[MethodStudy] = open_studies(
        f"sqlite:///{folder / record.STORAGE}", config, [space], objectives(NAMES, "classification")
    )
    run: RunConfig = space.fill(next(space.corners()))
    executor = InstantExecutor()
    return Driver(record, studies, load(run.data, run.seed).spec, executor, Budget(TRIALS, None)), executor


def measure(sampler: Sampler) -> tuple[float, float]:
    """Return the driver's milliseconds per trial over the last trials: for asking, and for the rest."""
    with tempfile.TemporaryDirectory() as folder:
        driver, executor = open_driver(Path(folder) / "study", sampler)
        study = driver.studies["sae"]
        asking, moments = [], []
        ask = study.ask

        def timed_ask() -> object:
            start = time.perf_counter()
            asked = ask()
            asking.append(time.perf_counter() - start)
            moments.append((start, executor.seconds))
            return asked

        study.ask = timed_ask  # type: ignore[assignment, method-assign]
        driver.run()
        moments.append((time.perf_counter(), executor.seconds))
        (start, elsewhere), (end, elsewhere_then) = moments[-LATE - 1], moments[-1]
        whole = (end - start) - (elsewhere_then - elsewhere)
        return 1000 * float(np.median(asking[-LATE:])), 1000 * (whole - sum(asking[-LATE:])) / LATE


def main() -> None:
    """Print a table."""
    print(f"milliseconds of the driver per trial, trials {TRIALS - LATE + 1} to {TRIALS}, {len(NAMES)} objectives\n")
    print("| sampler | asking | all else | together |\n|---|---|---|---|")
    for sampler in SAMPLERS:
        asking, rest = measure(sampler)
        print(f"| {sampler} | {asking:.0f} | {rest:.0f} | {asking + rest:.0f} |")


if __name__ == "__main__":
    main()
