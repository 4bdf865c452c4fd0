"""What configurations come to over seeds: the one road from runs to means and spreads."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sae.analysis.candidates import SHIFTED_TEST, check_report, kind_of, measured_costs, summary
from sae.analysis.spread import Spread as Spread  # whoever reads results finds it here
from sae.analysis.spread import spread_of, spreads_of
from sae.config.run import RunConfig
from sae.core.errors import RecordError
from sae.core.objectives import COSTS
from sae.records.run import RunRecord
from sae.records.study import Derived, StudyRecord

Split = Literal["val", "test"]
"""What every finished run is evaluated on."""
Where = Literal["test", "shift"]
"""On the test split as it is, or on its 95 corrupted versions."""


@dataclass(frozen=True)
class Result:
    """A configuration at K′ exits, over runs that differ only in their seed; at least one of them finished.

    Attributes:
        label: `sae/17`, or the names of the run folders.
        method: What was trained.
        kind: The class of method, see `kind_of`.
        config: How it was trained, with the seed of one of the runs.
        settings: What people tell it from others by.
        exits: K, exits per input that it was trained for; 1 for methods without exits.
        eval_exits: K′, exits per input that it predicts with.
        active: How many inputs use each exit then, in the first run; other seeds may choose otherwise.
        runs: Those that finished and can be read.
        failed: How many others there are.
        test: Metrics on the test split.
        costs: Counted and, where that was asked for, measured.
        seconds: Of training.
        shift: Mean over the corrupted sets; the standard deviation is over seeds. None if no run was measured so.
        shift_over_sets: The same means; the standard deviation is over the sets, mean of the seeds'.
        shift_runs: How many of the runs `shift` is over.
    """

    label: str
    method: str
    kind: str
    config: RunConfig
    settings: str
    exits: int
    eval_exits: int
    active: tuple[int, ...]
    runs: tuple[RunRecord, ...]
    failed: int
    test: dict[str, Spread]
    costs: dict[str, Spread]
    seconds: Spread | None = None
    shift: dict[str, Spread] | None = None
    shift_over_sets: dict[str, Spread] | None = None
    shift_runs: int = 0

    def get(self, name: str, where: Where = "test") -> Spread | None:
        """A metric, measured there, or a cost, which is the same everywhere; None if it was not recorded."""
        measured = self.test if where == "test" else self.shift or {}
        return self.costs[name] if name in self.costs else measured.get(name)


def study_results(record: StudyRecord) -> list[Result]:
    """What a study has confirmed, in the order of its `confirmed.json`; nothing if it has not.

    Runs are looked for in the study folder, wherever that is now. Configurations of which no run
    finished are left out, `unconfirmed` names them.
    """
    return [
        make_result(label, runs, failed, eval_exits)
        for label, eval_exits, runs, failed in _confirmed_runs(record)
        if runs
    ]


def unconfirmed(record: StudyRecord) -> list[str]:
    """Configurations that were to be confirmed, but no run of which finished and can be read."""
    return list(dict.fromkeys(label for label, _, runs, _ in _confirmed_runs(record) if not runs))


def run_results(runs: Sequence[RunRecord]) -> list[Result]:
    """Loose runs at the K that they were trained for; those that differ only in their seed are one result.

    A seed counts once, however many runs there are of it: they are the same. Seeds without a run that finished and
    can be read count as failed where others of the same config have one.
    """
    groups: dict[str, dict[int, RunRecord | None]] = {}
    for run in runs:
        with suppress(RecordError):
            config = run.config
            seeds = groups.setdefault(config.model_copy(update={"seed": 0}).model_dump_json(), {})
            seeds[config.seed] = seeds.get(config.seed) or (run if is_whole(run) else None)
    wholes = [([run for run in seeds.values() if run], len(seeds)) for seeds in groups.values()]
    kept = [(whole, total) for whole, total in wholes if whole]
    labels = _labels([whole for whole, _ in kept])
    return [
        make_result(label, whole, total - len(whole), trained_exits(whole[0].config))
        for label, (whole, total) in zip(labels, kept, strict=True)
    ]


def make_result(label: str, runs: Sequence[RunRecord], failed: int, eval_exits: int) -> Result:
    """One configuration at K′ exits.

    Args:
        label: What it is called.
        runs: Finished ones that differ in their seed; at least one.
        failed: How many did not finish.
        eval_exits: K′.
    """
    assert runs, f"{label} has no finished run to make a result of"
    config, items = runs[0].config, [found_at(run.report("test"), eval_exits) or {} for run in runs]
    shifted = under_shift(runs, eval_exits)
    shift, std_over_sets = spreads_of(item["metrics"] for item in shifted), stds_over_sets(shifted)
    over_sets = {key: Spread(shift[key].mean, std_over_sets[key].mean) for key in shift if key in std_over_sets}
    return Result(
        label=label,
        method=config.method.name,
        kind=kind_of(config),
        config=config,
        settings=summary(config),
        exits=trained_exits(config),
        eval_exits=eval_exits,
        active=tuple(items[0].get("active", ())),
        runs=tuple(runs),
        failed=failed,
        test=spreads_of(item.get("metrics", {}) for item in items),
        costs=spreads_of(_costs(run, item) for run, item in zip(runs, items, strict=True)),
        seconds=spread_of((run.status or {}).get("seconds", 0.0) for run in runs),
        shift=shift if shifted else None,
        shift_over_sets=over_sets if shifted else None,
        shift_runs=len(shifted),
    )


def under_shift(runs: Iterable[RunRecord], eval_exits: int) -> list[dict[str, Any]]:
    """What runs measured on the corrupted test sets at K′ exits, of those that did and whose files can be read."""
    found = []
    for run in runs:
        with suppress(RecordError):
            item = shifted_at(run, eval_exits)
            found += [item] if item is not None else []
    return found


def shifted_at(run: RunRecord, eval_exits: int) -> dict[str, Any] | None:
    """What a run measured on the corrupted test sets at K′ exits; None if it did not."""
    if not (run.path / SHIFTED_TEST).exists():
        return None
    with run.expecting(SHIFTED_TEST):
        item = found_at(run.read_json(SHIFTED_TEST), eval_exits)
        return None if item is None else {**item, "metrics": dict(item["metrics"])}


def stds_over_sets(shifted: Iterable[Mapping[str, Any]]) -> dict[str, Spread]:
    """Standard deviations over the corrupted sets, each with its mean and spread over seeds."""
    return spreads_of(item.get("std_over_sets", {}) for item in shifted)


def found_at(report: Mapping[str, Any], eval_exits: int) -> dict[str, Any] | None:
    """What a report says of K′ exits; older ones may say it only of the trained K."""
    for item in (*report.get("by_exits", ()), report):
        if item.get("exits") == eval_exits:
            return dict(item)
    return None


def trained_exits(config: RunConfig) -> int:
    """K, exits per input that a network is trained for; 1 for methods without exits."""
    return config.method.trained_exits


def headline(task: str, data_name: str) -> tuple[str, ...]:
    """The metrics that come first: quality, calibration, and the likelihood that is both.

    Example:
        >>> headline("classification", "bloodmnist"), headline("regression", "retinamnist")
        (('f1', 'cc_ece', 'nll'), ('nll', 'mse'))
    """
    if task == "regression":
        return ("nll", "mse")
    return ("accuracy", "ece", "nll") if data_name == "tinyimagenet" else ("f1", "cc_ece", "nll")


def is_whole(run: RunRecord) -> bool:
    """Whether a run finished and all that a result needs of it can be read."""
    try:
        if not run.is_finished:
            return False
        check_report(run, "test")
        _ = run.config, measured_costs(run)
    except RecordError:
        return False
    return True


def usable(runs: Iterable[RunRecord], eval_exits: int) -> list[RunRecord]:
    """Those of some runs that a result at K′ exits can be made of."""
    return [run for run in runs if is_whole(run) and found_at(run.report("test"), eval_exits)]


def _confirmed_runs(record: StudyRecord) -> list[tuple[str, int, list[RunRecord], int]]:
    """By configuration of `confirmed.json`: its label, K′, the runs that can be used, and how many others."""
    if not (record.path / record.CONFIRMED).exists():
        return []
    folder = Derived(record.path)
    confirmed = folder.read_json(record.CONFIRMED)
    with folder.expecting(record.CONFIRMED):
        return [_runs_of(item, confirmed["seeds"], record) for item in confirmed["front"]]


def _runs_of(
    item: Mapping[str, Any], seeds: Sequence[int], record: StudyRecord
) -> tuple[str, int, list[RunRecord], int]:
    method, folder = Path(item["run"]).parts[-2:]  # the rest of the path is where the study was once
    place = record.path / record.CONFIRM / method / folder
    runs = [RunRecord(place / f"seed-{seed}") for seed in seeds]
    whole = usable(runs, item["eval_exits"])
    label = item.get("trial") or f"{method}/{int(folder.split('-')[0])}"
    return label, item["eval_exits"], whole, len(runs) - len(whole)


def _costs(run: RunRecord, item: Mapping[str, Any]) -> dict[str, float]:
    return {key: item[key] for key in COSTS if key in item} | measured_costs(run).get(item.get("exits", 0), {})


def _labels(groups: Sequence[Sequence[RunRecord]]) -> list[str]:
    """The folder names of each group, behind those of their parents where that leaves two alike."""
    short = [", ".join(run.path.name for run in group) for group in groups]
    parents = [", ".join(dict.fromkeys(run.path.absolute().parent.name for run in group)) for group in groups]
    return [name if short.count(name) == 1 else f"{parent}/{name}" for name, parent in zip(short, parents, strict=True)]
