"""What there is to tell of a study: what was chosen, what it is compared with, and what is missing."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sae.analysis.candidates import Candidate
from sae.analysis.results import Result, headline, make_result, study_results
from sae.analysis.selection import Selection, select
from sae.analysis.trial_values import TrialValues, read_trials
from sae.errors import NothingFoundError, RecordError
from sae.objectives import objective
from sae.record import RunRecord
from sae.report.scatter import Pair, usual_pairs
from sae.study_record import StudyRecord

COMPARED = ("ensemble", "standard")
"""Methods that a pick has to stand beside."""
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
    """

    record: StudyRecord
    selection: Selection | None
    missing: str
    pick: Candidate | None
    why: str
    results: list[Result]
    shown: Mapping[str, Result]
    receipt: Mapping[str, Any] | None

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

    def labelled(self) -> list[tuple[str, Result]]:
        """The pick and its rivals, with what they are called in figures."""
        return [(f"{ROLES[role]}, {item.label}", item) for role, item in self.shown.items()]

    def is_pick(self, item: Result) -> bool:
        """Whether this is what was chosen."""
        pick = self.pick
        return pick is not None and (item.label, item.eval_exits) == (pick.trial.name, pick.eval_exits)


def find(record: StudyRecord) -> Findings:
    """Gather what there is to tell; a study without any result has only that to tell."""
    try:
        selection = select(record)
    except NothingFoundError as error:
        return Findings(record, None, str(error), None, "", [], {}, None)
    pick, why = selection.pick()
    results = study_results(record)
    rivals = {method: selection.best_of(method, pick) for method in COMPARED}
    shown = {role: _result(item, results) for role, item in {"pick": pick, **rivals}.items() if item}
    return Findings(record, selection, "", pick, why, results, shown, _receipt(record, pick))


def _result(item: Candidate, results: list[Result]) -> Result:
    """What is known of a candidate: on other seeds, or else of the run it was chosen by."""
    confirmed = (one for one in results if (one.label, one.eval_exits) == (item.trial.name, item.eval_exits))
    return next(confirmed, None) or make_result(item.trial.name, [item.trial.run], 0, item.eval_exits)


def _receipt(record: StudyRecord, pick: Candidate) -> Mapping[str, Any] | None:
    """The receipt of shipping this pick; one of an earlier pick tells nothing of it."""
    try:
        receipt = RunRecord(record.path / record.SHIPPED).read_json(record.RECEIPT)
        shipped = receipt["rows"]["pick"]
        is_same = (shipped["trial"], shipped["eval_exits"]) == (pick.trial.name, pick.eval_exits)
    except (RecordError, KeyError, TypeError):
        return None
    return receipt if is_same else None
