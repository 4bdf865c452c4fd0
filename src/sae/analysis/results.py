"""Results: configurations over seeds, the one road from runs to means and spreads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sae.analysis.candidates import Candidate, Configured, Network
from sae.analysis.statistics import Spread, spread_of, spreads_of
from sae.config.run import RunConfig
from sae.records.evaluation import ShiftReading, best_exits
from sae.records.run import Run, RunRecord, read_run
from sae.records.study import ConfirmedItem, MeanAndStd, StudyRecord

Tested = Literal["test", "shift"]
"""The test split, clean or as the mean over its 95 corrupted versions."""


@dataclass(frozen=True)
class Result(Configured):
    """A configuration at K′ exits over runs that differ only in their seed; at least one finished.

    Attributes:
        label: `sae/17`, or the names of the run folders.
        config: How it was trained, with the seed of the first run.
        exits: K, the number of exits per input that it was trained for; 1 for methods without exits.
        eval_exits: K′, the number of exits per input that it predicts with.
        active: Number of inputs that use each exit in the first run; other seeds may use others.
        runs: The runs that finished and can be read.
        failed: Number of other runs.
        test: Metrics on the test split.
        costs: Counted and, if that was asked for, measured costs.
        seconds: Training time.
        shifted: Readings on the corrupted test sets, one per run that has them.
        shift: Means over the corrupted test sets, spread over seeds; None if no run has them.
    """

    label: str
    config: RunConfig
    exits: int
    eval_exits: int
    active: tuple[int, ...]
    runs: tuple[Run, ...]
    failed: int
    test: Mapping[str, Spread]
    costs: Mapping[str, Spread]
    seconds: Spread | None = None
    shifted: tuple[ShiftReading, ...] = ()
    shift: Mapping[str, Spread] | None = None

    @property
    def network(self) -> Network:
        """Its identity in a study."""
        return self.label, self.eval_exits

    @property
    def settings(self) -> str:
        """The settings that distinguish it, `N=2 K=3 W=4`."""
        return self.config.summary

    def get(self, name: str, where: Tested = "test") -> Spread | None:
        """Return a metric on the clean or corrupted test split, or a cost; None if it was not measured."""
        if name in self.costs:
            return self.costs[name]
        return (self.test if where == "test" else self.shift or {}).get(name)

    def std_over_sets(self) -> dict[str, Spread]:
        """Return the standard deviations over the corrupted sets, each with its mean and spread over seeds."""
        return spreads_of(item.std_over_sets for item in self.shifted)

    def shift_over_sets(self) -> dict[str, Spread]:
        """Return the means under shift with the standard deviation over sets (its mean over seeds)."""
        stds = self.std_over_sets()
        return {key: Spread(value.mean, stds[key].mean) for key, value in (self.shift or {}).items() if key in stds}


@dataclass(frozen=True)
class SetMeans:
    """One corrupted test set: means over the seeds of a configuration."""

    corruption: str
    severity: int
    metrics: Mapping[str, float]


def means_by_set(result: Result) -> list[SetMeans]:
    """Return every corrupted test set with the mean of each metric over seeds."""
    values = [{(item.corruption, item.severity): item.metrics for item in run.sets} for run in result.shifted]
    places = dict.fromkeys(place for found in values for place in found)
    return [
        SetMeans(*place, {key: spread.mean for key, spread in spreads.items()})
        for place in places
        if (spreads := spreads_of(found[place] for found in values if place in found))
    ]


def study_results(record: StudyRecord, *, shift: bool = False) -> tuple[list[Result], list[str]]:
    """Return what a study has confirmed of its front, or of its front under shift, and what it has not.

    The order is that of `confirmed.json`. Runs are looked for in the study folder, wherever that is now. Configurations
    without a finished run are the second part.
    """
    confirmed = record.read_confirmed()
    if confirmed is None:
        return [], []
    results, missing = [], []
    again = [(item, record.confirmed_run) for item in ((confirmed.shifted or ()) if shift else confirmed.front)]
    taught = [(item, record.distilled_run) for item in (() if shift else confirmed.distilled or ())]
    for item, run_of in (*again, *taught):
        runs = [read_run(run_of(Path(item.run), seed), with_shift=True) for seed in confirmed.seeds]
        whole = usable(runs, item.eval_exits)
        if whole:
            results.append(make_result(item.trial, whole, len(runs) - len(whole), item.eval_exits))
        else:
            missing.append(item.trial)
    return results, list(dict.fromkeys(missing))


def confirmed_results(record: StudyRecord) -> list[Result]:
    """Return all that a study has confirmed, whichever front chose it."""
    return [item for shift in (False, True) for item in study_results(record, shift=shift)[0]]


def run_results(records: Iterable[RunRecord]) -> list[Result]:
    """Return loose runs at the K′ that is best on validation; runs that differ only in their seed are one result.

    A seed counts once, however many runs it has, because they are the same. A seed without a readable
    finished run counts as failed if another seed of the same config has one.
    """
    groups: dict[str, dict[int, Run | None]] = {}
    for run in (read_run(record, with_shift=True) for record in records):
        if run.config is not None:
            seeds = groups.setdefault(run.config.over_seeds.model_dump_json(), {})
            seeds[run.config.seed] = seeds.get(run.config.seed) or (run if run.evaluation else None)
    wholes = [([run for run in seeds.values() if run], len(seeds)) for seeds in groups.values()]
    kept = [(whole, total) for whole, total in wholes if whole]
    labels = _labels([whole for whole, _ in kept])
    return [make_result(label, whole, total - len(whole)) for label, (whole, total) in zip(labels, kept, strict=True)]


def make_result(label: str, runs: Sequence[Run], failed: int, eval_exits: int | None = None) -> Result:
    """Make one configuration at K′ exits into a result.

    Args:
        label: What it is called.
        runs: Finished runs that differ in their seed, read with shift; at least one.
        failed: Number of runs that did not finish.
        eval_exits: K′; by default the best on validation.
    """
    assert runs, f"{label} has no finished run"
    config, first = runs[0].config, runs[0].evaluation
    assert config is not None and first is not None, f"{label} must have finished"  # noqa: PT018
    found = [run.evaluation for run in runs if run.evaluation is not None]
    at = best_exits(found) if eval_exits is None else eval_exits
    shifted = tuple(reading for item in found if (reading := item.shift_at(at)) is not None)
    return Result(
        label=label,
        config=config,
        exits=first.exits,
        eval_exits=at,
        active=first.test.at(at).active,
        runs=tuple(runs),
        failed=failed,
        test=spreads_of(item.test.at(at).metrics for item in found),
        costs=spreads_of(item.costs(at) for item in found),
        seconds=spread_of(run.seconds or 0.0 for run in runs),
        shifted=shifted,
        shift=spreads_of(item.metrics for item in shifted) if shifted else None,
    )


def usable(runs: Iterable[Run], eval_exits: int) -> list[Run]:
    """Return the runs that finished and were read at K′ exits."""
    return [run for run in runs if run.evaluation is not None and eval_exits in run.evaluation.eval_exits]


def summarise(candidate: Candidate, runs: Sequence[Run]) -> ConfirmedItem:
    """Summarise a candidate over runs on other seeds, for `confirmed.json`.

    Runs that failed, or that cannot be read, are counted but not used.
    """
    finished = usable(runs, candidate.eval_exits)
    failed = len(runs) - len(finished)
    result = make_result(candidate.label, finished, failed, candidate.eval_exits) if finished else None
    has_shift = result is not None and result.shift is not None
    return ConfirmedItem(
        trial=candidate.label,
        run=str(candidate.run.record.path),
        method=candidate.method,
        kind=candidate.kind,
        exits=candidate.exits,
        eval_exits=candidate.eval_exits,
        active=candidate.active,
        settings=candidate.config.summary,
        values=candidate.values,
        confirmed_in=tuple(sorted(str(run.record.path) for run in runs)),
        seeds=len(finished),
        failed=failed,
        test=kept_spreads(result.test if result else {}),
        costs=kept_spreads(result.costs if result else {}),
        shift=kept_spreads(result.shift) if result and result.shift is not None else None,
        shift_std_over_sets=kept_spreads(result.std_over_sets()) if result and has_shift else None,
        seconds=_mean_and_std(result.seconds) if result and result.seconds else None,
    )


def kept_spreads(spreads: Mapping[str, Spread]) -> dict[str, MeanAndStd]:
    """Return spreads as they are kept in files."""
    return {key: _mean_and_std(spread) for key, spread in spreads.items()}


def _mean_and_std(spread: Spread) -> MeanAndStd:
    return MeanAndStd(mean=spread.mean, std=spread.std)


def _labels(groups: Sequence[Sequence[Run]]) -> list[str]:
    """Name each group by its folders, and by their parents too where two groups would share a name."""
    paths = [[run.record.path for run in group] for group in groups]
    short = [", ".join(path.name for path in group) for group in paths]
    parents = [", ".join(dict.fromkeys(path.absolute().parent.name for path in group)) for group in paths]
    return [name if short.count(name) == 1 else f"{parent}/{name}" for name, parent in zip(short, parents, strict=True)]
