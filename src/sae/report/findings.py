"""Findings of a study for its report: the pick, what it is compared with, and what is missing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from sae.analysis.candidates import Candidate, candidates
from sae.analysis.results import Result, headline, make_result, study_results
from sae.analysis.selection import COMPARED, Selection, select
from sae.analysis.trial_values import TrialValues, read_trials
from sae.core.errors import ConfigError, NothingFoundError, RecordError
from sae.records.study import Derived, StudyRecord

Read = TypeVar("Read")
ROLE_LABELS = {"pick": "the pick", "ensemble": "best ensemble", "standard": "best standard network"}


@dataclass(frozen=True)
class ShippedNetwork:
    """Measurements of a shipped network: milliseconds per batch, and the size of the file in bytes."""

    ms: float
    num_bytes: float


@dataclass(frozen=True)
class Receipt:
    """The receipt of a shipped pick.

    Attributes:
        batch: Samples per batch.
        networks: Measurements by role.
    """

    batch: int
    networks: Mapping[str, ShippedNetwork]


@dataclass(frozen=True)
class Findings:
    """A study as its report presents it.

    Attributes:
        record: The study.
        selection: Its candidates and Pareto front; None while nothing can be chosen.
        missing: Why nothing can be chosen, if so.
        pick: The network to ship.
        why: The reason for this pick.
        results: Configurations that were confirmed on new seeds.
        shown: Results by role, `pick`, `ensemble` and `standard`: over new seeds, or else of the search's own run.
        receipt: Measurements from shipping the pick, if it was shipped.
        lost: Why a file cannot be read, by file name.
        candidates: Every finished trial at every K′, even if none can be chosen.
    """

    record: StudyRecord
    selection: Selection | None
    missing: str
    pick: Candidate | None
    why: str
    results: list[Result]
    shown: Mapping[str, Result]
    receipt: Receipt | None
    lost: Mapping[str, str] = field(default_factory=dict)
    candidates: Sequence[Candidate] = ()

    @cached_property
    def trials(self) -> list[TrialValues]:
        """All trials at the K they were trained for, in whatever state."""
        return read_trials(self.record.trials())

    @property
    def task(self) -> str:
        """`classification` or `regression`."""
        return self.record.config.task

    @property
    def data_name(self) -> str:
        """The data set."""
        return next(str(space["data"]["name"]) for space in self.record.config.spaces.values())

    @property
    def metrics(self) -> tuple[str, ...]:
        """The headline metrics of the data set, quality first."""
        return headline(self.task, self.data_name)

    def searched(self, role: str) -> Candidate:
        """Return the network of the search with this role, which is the one that is shipped."""
        assert self.selection is not None, "only a selection has roles"
        item = self.shown[role]
        found = (one for one in self.selection.everything if one.trial.name == item.label)
        return next(one for one in found if one.eval_exits == item.eval_exits)

    def labelled(self) -> list[tuple[str, Result]]:
        """Return the pick and its rivals with their labels in figures."""
        return [(f"{ROLE_LABELS[role]}, {item.label}", item) for role, item in self.shown.items()]

    def is_pick(self, item: Result) -> bool:
        """Return whether a configuration is the pick."""
        pick = self.pick
        return pick is not None and (item.label, item.eval_exits) == (pick.trial.name, pick.eval_exits)


def find(record: StudyRecord) -> Findings:
    """Gather the findings of a study; where nothing can be chosen, what was tried and confirmed is still reported."""
    lost: dict[str, str] = {}
    results = _read(lambda: study_results(record), record.CONFIRMED, lost) or []
    try:
        selection = select(record)
    except (NothingFoundError, ConfigError) as error:  # nothing finished, or nothing that was asked for
        return Findings(record, None, str(error), None, "", results, {}, None, lost, candidates(record))
    pick, why = selection.pick()
    rivals = {method: selection.best_of(method, pick) for method in COMPARED}
    shown = {role: _result(item, results) for role, item in {"pick": pick, **rivals}.items() if item}
    receipt = _read(lambda: _read_receipt(record, shown), record.RECEIPT, lost)
    return Findings(record, selection, "", pick, why, results, shown, receipt, lost, selection.everything)


def _read(read: Callable[[], Read], name: str, lost: dict[str, str]) -> Read | None:
    """Read a file; if it is damaged, note why and return None."""
    try:
        return read()
    except RecordError as error:
        lost[name] = str(error)
        return None


def _result(item: Candidate, results: list[Result]) -> Result:
    """Return the result of a candidate over new seeds, or else of the run it was chosen by."""
    confirmed = (one for one in results if (one.label, one.eval_exits) == (item.trial.name, item.eval_exits))
    return next(confirmed, None) or make_result(item.trial.name, [item.trial.run], 0, item.eval_exits)


def _read_receipt(record: StudyRecord, shown: Mapping[str, Result]) -> Receipt | None:
    """Return the receipt if it is about this pick and these rivals, not about earlier ones."""
    folder = Derived(record.path / record.SHIPPED)
    if not (folder.path / record.RECEIPT).exists():
        return None
    receipt = folder.read_json(record.RECEIPT)
    with folder.expecting(record.RECEIPT):
        rows, batch = receipt["rows"], int(receipt["batch"])
        shipped = {role: (row["trial"], row["eval_exits"]) for role, row in rows.items()}
        networks = {role: ShippedNetwork(float(row["ms"]), float(row["bytes"])) for role, row in rows.items()}
    is_same = all(shipped.get(role) == (item.label, item.eval_exits) for role, item in shown.items())
    return Receipt(batch, networks) if is_same else None
