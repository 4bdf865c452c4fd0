"""What there is to tell of a study: what was chosen, what it is compared with, and what is missing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from sae.analysis.candidates import Candidate, candidates
from sae.analysis.results import Result, headline, make_result, study_results
from sae.analysis.selection import COMPARED, Selection, select
from sae.analysis.trial_values import TrialValues, read_trials
from sae.core.errors import ConfigError, NothingFoundError, RecordError
from sae.core.objectives import objective
from sae.records.study import Derived, StudyRecord
from sae.report.figures.scatter import Pair, usual_pairs

Found = TypeVar("Found")
ROLES = {"pick": "the pick", "ensemble": "best ensemble", "standard": "best standard network"}
COSTS = ("flops", "params")
"""What is shown of costs where there is room for two."""


@dataclass(frozen=True)
class Findings:
    """A study as its report tells of it.

    Attributes:
        record: The study.
        selection: What it has to offer; None while nothing can be chosen.
        missing: Why nothing can be chosen, if so.
        pick: The one to ship.
        why: This one.
        results: What was confirmed on other seeds.
        shown: By role, `pick`, `ensemble` and `standard`: confirmed where that was done, else the search's own run.
        receipt: What shipping the pick has measured, if it was shipped.
        lost: By the names of files that are there but cannot be read, why.
        candidates: Every finished trial at every K′, also where none of them can be chosen.
    """

    record: StudyRecord
    selection: Selection | None
    missing: str
    pick: Candidate | None
    why: str
    results: list[Result]
    shown: Mapping[str, Result]
    receipt: Mapping[str, Any] | None
    lost: Mapping[str, str] = field(default_factory=dict)
    candidates: Sequence[Candidate] = ()

    @cached_property
    def trials(self) -> list[TrialValues]:
        """All trials at the K they were trained for, whatever became of them."""
        return read_trials(self.record.trials())

    @property
    def task(self) -> str:
        """What is predicted."""
        return self.record.config.task

    @property
    def data_name(self) -> str:
        """The data set."""
        return next(str(space["data"]["name"]) for space in self.record.config.spaces.values())

    @property
    def metrics(self) -> tuple[str, ...]:
        """What its data set is judged by, quality first."""
        return headline(self.task, self.data_name)

    def pairs(self) -> list[Pair]:
        """What is looked at together."""
        first, second = self.metrics[:2]
        quality, calibration, nll = (objective(name, self.task) for name in (first, second, "nll"))
        return usual_pairs(quality, calibration, nll)

    def searched(self, role: str) -> Candidate:
        """The network of the search that has this role: the one that is, or would be, shipped."""
        assert self.selection is not None, "roles are of a selection"
        item = self.shown[role]
        found = (one for one in self.selection.everything if one.trial.name == item.label)
        return next(one for one in found if one.eval_exits == item.eval_exits)

    def labelled(self) -> list[tuple[str, Result]]:
        """The pick and its rivals, with what they are called in figures."""
        return [(f"{ROLES[role]}, {item.label}", item) for role, item in self.shown.items()]

    def is_pick(self, item: Result) -> bool:
        """Whether this is what was chosen."""
        pick = self.pick
        return pick is not None and (item.label, item.eval_exits) == (pick.trial.name, pick.eval_exits)


def find(record: StudyRecord) -> Findings:
    """Gather what there is to tell; where nothing can be chosen, what was tried and confirmed is still told."""
    lost: dict[str, str] = {}
    results = _read(lambda: study_results(record), record.CONFIRMED, lost) or []
    try:
        selection = select(record)
    except (NothingFoundError, ConfigError) as error:  # nothing finished, or nothing of what was asked for
        return Findings(record, None, str(error), None, "", results, {}, None, lost, candidates(record))
    pick, why = selection.pick()
    rivals = {method: selection.best_of(method, pick) for method in COMPARED}
    shown = {role: _result(item, results) for role, item in {"pick": pick, **rivals}.items() if item}
    receipt = _read(lambda: _receipt(record, shown), record.RECEIPT, lost)
    return Findings(record, selection, "", pick, why, results, shown, receipt, lost, selection.everything)


def _read(read: Callable[[], Found], name: str, lost: dict[str, str]) -> Found | None:
    """What a file holds; why it cannot be read is noted."""
    try:
        return read()
    except RecordError as error:
        lost[name] = str(error)
        return None


def _result(item: Candidate, results: list[Result]) -> Result:
    """What is known of a candidate: on other seeds, or else of the run it was chosen by."""
    confirmed = (one for one in results if (one.label, one.eval_exits) == (item.trial.name, item.eval_exits))
    return next(confirmed, None) or make_result(item.trial.name, [item.trial.run], 0, item.eval_exits)


def _receipt(record: StudyRecord, shown: Mapping[str, Result]) -> Mapping[str, Any] | None:
    """The receipt of shipping this pick beside these rivals; one of an earlier pick tells nothing of it."""
    folder = Derived(record.path / record.SHIPPED)
    if not (folder.path / record.RECEIPT).exists():
        return None
    receipt = folder.read_json(record.RECEIPT)
    with folder.expecting(record.RECEIPT):
        rows, _ = receipt["rows"], int(receipt["batch"])
        shipped = {role: (row["trial"], row["eval_exits"]) for role, row in rows.items()}
        _ = [float(row[key]) for row in rows.values() for key in ("ms", "bytes")]
    is_same = all(shipped.get(role) == (item.label, item.eval_exits) for role, item in shown.items())
    return receipt if is_same else None
