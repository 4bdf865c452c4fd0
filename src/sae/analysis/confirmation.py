"""What a study keeps of the configurations of its front on other seeds: mean and spread on the test sets."""

from collections.abc import Sequence
from typing import Any

from sae.analysis.candidates import Candidate
from sae.analysis.results import Result, make_result, stds_over_sets, under_shift, usable
from sae.analysis.spread import Spread
from sae.records.run import RunRecord


def summarise(candidate: Candidate, runs: Sequence[RunRecord], eval_exits: int) -> dict[str, Any]:
    """One configuration at K′ exits over the runs that differ in their seed.

    Runs that failed, or that cannot be read, are counted, not used, as in the report.
    """
    finished = usable(runs, eval_exits)
    failed = len(runs) - len(finished)
    return {
        **candidate.describe(),
        "confirmed_in": sorted(str(run.path) for run in runs),
        "seeds": len(finished),
        "failed": failed,
        **_numbers(make_result(candidate.trial.name, finished, failed, eval_exits) if finished else None),
    }


def _numbers(result: Result | None) -> dict[str, Any]:
    """As JSON; empty where no run finished."""
    if result is None:
        return {"test": {}, "costs": {}, "shift": None, "shift_std_over_sets": None, "seconds": None}
    over_sets = stds_over_sets(under_shift(result.runs, result.eval_exits))
    return {
        "test": _described(result.test),
        "costs": _described(result.costs),
        "shift": None if result.shift is None else _described(result.shift),
        "shift_std_over_sets": None if result.shift is None else _described(over_sets),
        "seconds": result.seconds.describe() if result.seconds else None,
    }


def _described(spreads: dict[str, Spread]) -> dict[str, dict[str, float | None]]:
    return {key: spread.describe() for key, spread in spreads.items()}
