"""Runs and results as several seeds leave them, without any training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sae.analysis.results import Result
from sae.analysis.statistics import Spread
from sae.config.run import RunConfig
from sae.records.evaluation import Evaluation, Metrics, RunEvaluation, ShiftedSet, ShiftReading
from sae.records.run import Ending, Run, RunRecord, State, Status
from tests.builders import run_config
from tests.studies import DEPTH, alike_sets, reading, write_metrics, write_sets


def small_config(seed: int = 0, **method: Any) -> RunConfig:
    return run_config(method=method or {"name": "sae"}, backbone={"name": "fc", "depth": DEPTH}, seed=seed)


def write_run(path: Path, config: RunConfig, by_exits: Sequence[Metrics], state: Ending = "finished") -> RunRecord:
    """A run whose metrics on both splits are `by_exits` at K′ = 1, 2, …; it costs 100 K′ FLOPs."""
    run = RunRecord.create(path, config)
    readings = [
        reading(k, {**metrics, "flops": 100 * k, "params": 10 * k}) for k, metrics in enumerate(by_exits, start=1)
    ]
    write_metrics(run, readings, readings)
    run.end(state, seconds=60.0)
    return run


def write_shift(run: RunRecord, by_exits: Sequence[tuple[float, float]]) -> None:
    """Mean and standard deviation of the nll over two corrupted test sets at K′ = 1, 2, …."""
    readings = []
    for k, (mean, std) in enumerate(by_exits, start=1):
        away = std / 2**0.5
        sets = tuple(
            ShiftedSet(corruption="fog", severity=severity, metrics={"nll": nll})
            for severity, nll in ((1, mean - away), (5, mean + away))
        )
        readings.append(
            ShiftReading(eval_exits=k, metrics={"nll": mean}, std_over_sets={"nll": std}, sets=sets),
        )
    write_sets(run, "test", readings)


def write_history(run: RunRecord, theta: Sequence[Sequence[Sequence[float]]]) -> None:
    """θ by epoch, input and exit."""
    rows = [
        {"epoch": epoch, **{f"theta_{i}_{j}": value for i, row in enumerate(rows) for j, value in enumerate(row)}}
        for epoch, rows in enumerate(theta, start=1)
    ]
    run.write_rows(run.HISTORY, rows)


def run_of(
    config: RunConfig, metrics: Metrics, state: State = "finished", *, label: str = "x/0", flops: int = 100
) -> Run:
    """A run without a folder, with the same metrics on both splits and at every K′."""
    record = RunRecord(Path("nowhere") / label, label=label)
    if state not in ("finished", "stopped", "failed"):
        return Run(record, state, config)
    values = {**metrics, "flops": flops, "params": flops // 2}
    readings = tuple(reading(k, values) for k in range(1, DEPTH + 1))
    split = Evaluation(exits=config.method.trained_exits, readings=readings)
    evaluation = RunEvaluation(val=split, test=split, has_shift=True) if state == "finished" else None
    return Run(record, state, config, Status(state=state, seconds=60.0), evaluation)


def result(
    label: str,
    test: Mapping[str, float | Spread],
    *,
    method: Mapping[str, Any] | None = None,
    flops: float | None = 1e6,
    shift: Mapping[str, float] | None = None,
    runs: Sequence[Run] = (),
    eval_exits: int | None = None,
    failed: int = 0,
) -> Result:
    """A result that was never a run, unless runs are given; all of them have the same metrics under shift."""
    config = small_config(**(method or {"name": "standard"}))
    exits = config.method.trained_exits
    at = eval_exits or exits
    return Result(
        label=label,
        config=config,
        exits=exits,
        eval_exits=at,
        active=(1,),
        runs=tuple(runs),
        failed=failed,
        test={key: value if isinstance(value, Spread) else Spread(value, 0.01) for key, value in test.items()},
        costs={} if flops is None else {"flops": Spread(flops, 0.0), "params": Spread(flops / 2, 0.0)},
        shifted=() if shift is None else tuple(alike_sets(at, shift) for _ in runs),
        shift=None if shift is None else {key: Spread(value, 0.02) for key, value in shift.items()},
    )
