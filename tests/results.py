"""Run folders and results as runs on several seeds leave them, without any training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sae.analysis.candidates import SHIFTED_TEST, kind_of, summary
from sae.analysis.results import Result, Spread, trained_exits
from sae.config.run import RunConfig
from sae.records.run import RunRecord
from tests.builders import run_config
from tests.studies import DEPTH


def small_config(seed: int = 0, **method: Any) -> RunConfig:
    return run_config(method=method or {"name": "sae"}, backbone={"name": "fc", "depth": DEPTH}, seed=seed)


def write_run(
    path: Path, config: RunConfig, by_exits: Sequence[Mapping[str, float]], state: str = "finished"
) -> RunRecord:
    """A run whose metrics on both splits are `by_exits` at K′ = 1, 2, …; it costs 100 K′ FLOPs."""
    run = RunRecord.create(path, config)
    items = [
        {"exits": k, "active": [1] * k, "flops": 100 * k, "params": 10 * k, "metrics": dict(metrics)}
        for k, metrics in enumerate(by_exits, start=1)
    ]
    exits = trained_exits(config)
    split = {"exits": exits, "metrics": items[exits - 1]["metrics"], "by_exits": items}
    run.write_json(run.METRICS, {"val": split, "test": split})
    run.end(state, seconds=60.0)
    return run


def write_shift(run: RunRecord, by_exits: Sequence[tuple[float, float]]) -> None:
    """Mean and standard deviation of the nll over corrupted sets at K′ = 1, 2, …."""
    items = [
        {"exits": k, "metrics": {"nll": mean}, "std_over_sets": {"nll": std}}
        for k, (mean, std) in enumerate(by_exits, start=1)
    ]
    run.write_json(SHIFTED_TEST, {"exits": len(items), "metrics": items[-1]["metrics"], "by_exits": items})


def write_history(run: RunRecord, theta: Sequence[Sequence[Sequence[float]]]) -> None:
    """θ by epoch, input and exit."""
    rows = [
        {"epoch": epoch, **{f"theta_{i}_{j}": value for i, row in enumerate(rows) for j, value in enumerate(row)}}
        for epoch, rows in enumerate(theta, start=1)
    ]
    run.write_rows(run.HISTORY, rows)


def result(
    label: str,
    test: Mapping[str, float | Spread],
    *,
    method: Mapping[str, Any] | None = None,
    flops: float | None = 1e6,
    shift: Mapping[str, float] | None = None,
    runs: Sequence[RunRecord] = (),
    eval_exits: int | None = None,
    failed: int = 0,
) -> Result:
    """A result that was never a run, unless runs are given."""
    config = small_config(**(method or {"name": "standard"}))
    return Result(
        label=label,
        method=config.method.name,
        kind=kind_of(config),
        config=config,
        settings=summary(config),
        exits=trained_exits(config),
        eval_exits=eval_exits or trained_exits(config),
        active=(1,),
        runs=tuple(runs),
        failed=failed,
        test={key: value if isinstance(value, Spread) else Spread(value, 0.01) for key, value in test.items()},
        costs={} if flops is None else {"flops": Spread(flops, 0.0), "params": Spread(flops / 2, 0.0)},
        shift=None if shift is None else {key: Spread(value, 0.02) for key, value in shift.items()},
        shift_runs=0 if shift is None else len(runs),
    )
