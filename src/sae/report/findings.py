"""Findings of a study for its report: the pick, what it is compared with, and what is missing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from sae.analysis.baselines import compare_with_baselines, verdict
from sae.analysis.candidates import Candidate, Network, candidates
from sae.analysis.contestants import Contestant
from sae.analysis.evidence import read_predictions
from sae.analysis.headline import Headline, compare_headline
from sae.analysis.recommendation import Recommendation, recommend
from sae.analysis.results import Result, Tested, make_result, study_results
from sae.analysis.selection import Selection, select
from sae.config.methods import rivals
from sae.core.errors import ConfigError, NothingFoundError, RecordError
from sae.core.objectives import TaskName
from sae.records.baselines import Measured
from sae.records.receipt import PICK, Receipt
from sae.records.run import Run
from sae.records.study import StudyRecord
from sae.report.commands import train_commands
from sae.report.labels import headline

Read = TypeVar("Read")


@dataclass(frozen=True)
class Findings:
    """A study as its report presents it.

    Attributes:
        record: The study.
        runs: Its trials, in whatever state, read with their results under shift.
        selection: Its candidates and Pareto front; None while nothing can be chosen.
        missing: Why nothing can be chosen, if so.
        pick: The network to ship.
        why: The reason for this pick.
        results: Configurations that were confirmed on new seeds.
        chosen: The pick and its rivals, by role, each with the run that is shipped.
        shown: Their results by role, `pick`, `ensemble` and `standard`: over new seeds, or else of the trial.
        receipt: Measurements from shipping the pick, if it was shipped.
        is_receipt_of_others: Whether there is a receipt, but about another pick or other rivals.
        lost: Why a file cannot be read, by file name.
        candidates: Every finished trial at every K′, even if none can be chosen.
        unconfirmed: Trials that were to be confirmed, but have no finished run on a new seed.
        shifted: The same candidates and their Pareto front on corrupted validation images, if these were measured.
        shifted_results: Configurations of that front that were confirmed on new seeds; None if the study has not
            chosen any.
        recommendation: Whether the pick may be shipped, or leads only provisionally, or on too little evidence.
        kept: Predictions for each sample of the pick and of confirmed rivals, where they were kept.
        tolerance: Share of a cost by which candidates that are one row of the front may differ; None for the default.
        baselines: Simple baselines on the same data; empty if they were not measured.
        verdict: A sentence if one of them is better than the pick on validation, beyond noise.
    """

    record: StudyRecord
    runs: Sequence[Run]
    selection: Selection | None = None
    missing: str = ""
    pick: Candidate | None = None
    why: str = ""
    results: Sequence[Result] = ()
    chosen: Mapping[str, Candidate] = field(default_factory=dict)
    shown: Mapping[str, Result] = field(default_factory=dict)
    receipt: Receipt | None = None
    is_receipt_of_others: bool = False
    lost: Mapping[str, str] = field(default_factory=dict)
    candidates: Sequence[Candidate] = ()
    unconfirmed: Sequence[str] = ()
    shifted: Selection | None = None
    shifted_results: Sequence[Result] | None = None
    recommendation: Recommendation | None = None
    kept: Mapping[Network, Contestant] = field(default_factory=dict)
    tolerance: float | None = None
    baselines: Sequence[Measured] = ()
    verdict: str | None = None

    @property
    def task(self) -> TaskName:
        """`classification` or `regression`."""
        return self.record.config.task

    @property
    def data_name(self) -> str:
        """The data set."""
        return self.record.data_name

    @property
    def metrics(self) -> tuple[str, ...]:
        """The headline metrics of the data set, quality first."""
        return headline(self.task, self.data_name)

    @property
    def confirmed(self) -> list[Result]:
        """All configurations that were confirmed on new seeds, whichever front chose them."""
        return [*self.results, *(self.shifted_results or ())]

    @property
    def other_rivals(self) -> list[Result]:
        """Confirmed configurations of the rivals' methods that validation did not prefer."""
        shown = {item.network for item in self.shown.values()}
        return [item for item in self.results if item.method in rivals() and item.network not in shown]

    @cached_property
    def headline(self) -> Headline:
        """What the top of the report compares; empty without a pick."""
        if PICK not in self.shown:
            return Headline({}, {}, {}, None, {})
        return compare_headline(PICK, self.shown, self.other_rivals, self.kept, self.metrics, self.task)

    @cached_property
    def commands(self) -> dict[str, str]:
        """The command that trains each trial again, by its label."""
        return train_commands({item.label: item.config for item in self.candidates})

    def tested(self, where: Tested) -> list[Result]:
        """Return the confirmed configurations for results on clean or on corrupted test images.

        Under shift these are the ones that corrupted validation images chose. A study that has not chosen by
        these shows the configurations of the clean front.
        """
        if where == "test":
            return list(self.results)
        return [item for item in (self.results if self.shifted_results is None else self.shifted_results) if item.shift]

    def labelled(self) -> list[tuple[str, Result]]:
        """Return the pick and its rivals with their labels in figures."""
        return [(f"{role_label(role)}, {item.label}", item) for role, item in self.shown.items()]

    def is_confirmed(self, item: Result) -> bool:
        """Return whether a configuration was trained on new seeds."""
        return not any(item.runs[0] is run for run in self.runs)

    def is_pick(self, item: Result) -> bool:
        """Return whether a configuration is the pick."""
        return self.pick is not None and item.network == self.pick.network


def find(record: StudyRecord, tolerance: float | None = None) -> Findings:
    """Gather the findings of a study; where nothing can be chosen, what was tried and confirmed is still reported."""
    lost: dict[str, str] = {}
    results, unconfirmed = _read(lambda: study_results(record), record.CONFIRMED, lost) or ([], [])
    shifted_results = _read(lambda: _shifted_results(record), record.CONFIRMED, lost)
    runs = record.read_runs(with_shift=True)
    confirmed = [*results, *(shifted_results or ())]
    try:
        selection = select(record, runs=runs, confirmed=confirmed)
    except (NothingFoundError, ConfigError) as error:  # nothing finished, or nothing that was asked for
        missing, found = str(error), candidates(runs)
        return Findings(
            record,
            runs,
            missing=missing,
            results=results,
            lost=lost,
            candidates=found,
            unconfirmed=unconfirmed,
            shifted_results=shifted_results,
        )
    picked = selection.pick()
    pick = picked.candidate
    others = {method: selection.best_of(method, pick) for method in rivals()}
    chosen = {role: item for role, item in {PICK: pick, **others}.items() if item}
    shown = {role: _result(item, confirmed) for role, item in chosen.items()}
    receipt = _read(lambda: _read_receipt(record, chosen), record.RECEIPT, lost)
    is_unread = receipt is None and record.RECEIPT not in lost
    plan = _read(record.read_plan, record.PLAN, lost)
    baselines = _read(record.read_baselines, record.BASELINES, lost)
    compared_with = compare_with_baselines(record, pick)
    compared = [*shown.values(), *(item for item in results if item.method in rivals())]
    kept = {item.network: own for item in compared if (own := read_predictions(item)) is not None}
    return Findings(
        record,
        runs,
        selection=selection,
        pick=pick,
        why=picked.why,
        results=results,
        chosen=chosen,
        shown=shown,
        receipt=receipt,
        is_receipt_of_others=is_unread and record.derived(record.SHIPPED).has(record.RECEIPT),
        lost=lost,
        candidates=selection.everything,
        unconfirmed=unconfirmed,
        shifted=_select_shifted(record, selection, confirmed),
        recommendation=recommend(pick, runs, plan, record.num_again()),
        kept=kept,
        tolerance=tolerance,
        shifted_results=shifted_results,
        baselines=baselines.found if baselines else (),
        verdict=compared_with and verdict(*compared_with),
    )


def _select_shifted(record: StudyRecord, clean: Selection, confirmed: Sequence[Result]) -> Selection | None:
    """Return the selection under shift; None if nothing was measured there, or nothing is within the limits."""
    try:
        return select(record, runs=clean.runs, everything=clean.everything, shift=True, confirmed=confirmed)
    except (NothingFoundError, ConfigError):
        return None


def _shifted_results(record: StudyRecord) -> list[Result] | None:
    """Return what was confirmed of the front under shift; None if the study has not chosen anything by it."""
    confirmed = record.read_confirmed()
    return None if confirmed is None or confirmed.shifted is None else study_results(record, shift=True)[0]


def role_label(role: str) -> str:
    """Return the label of a role: the pick, or the best network of a rival method."""
    return "the pick" if role == PICK else f"best {rivals()[role]}"


def _read(read: Callable[[], Read], name: str, lost: dict[str, str]) -> Read | None:
    """Read a file; if it is damaged, note why and return None."""
    try:
        return read()
    except RecordError as error:
        lost[name] = str(error)
        return None


def _result(item: Candidate, results: Sequence[Result]) -> Result:
    """Return the result of a candidate over new seeds, or else of the run it was chosen by."""
    confirmed = (one for one in results if one.network == item.network)
    return next(confirmed, None) or make_result(item.label, item.again or [item.run], 0, item.eval_exits)


def _read_receipt(record: StudyRecord, chosen: Mapping[str, Candidate]) -> Receipt | None:
    """Return the receipt if it is about this pick and these rivals, not about earlier ones."""
    folder = record.derived(record.SHIPPED)
    if not folder.has(record.RECEIPT):
        return None
    receipt = folder.read_model(record.RECEIPT, Receipt)
    shipped = {role: (row.trial, row.eval_exits, Path(row.run).name) for role, row in receipt.rows.items()}
    is_same = all(shipped.get(role) == (*item.network, item.shipped.record.path.name) for role, item in chosen.items())
    return receipt if is_same else None
