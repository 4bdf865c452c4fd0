"""What is said of a search where nobody watches: a line for each trial that ended, for a log."""

from collections.abc import Callable
from pathlib import Path

from optuna.trial import FrozenTrial, TrialState

from sae.core.wording import duration
from sae.records.run import RunRecord
from sae.search.confirm import Confirmation
from sae.search.driver import ENDED, Driver
from sae.search.job import Job, Outcome
from sae.search.method_study import ERROR, REFUSED, RUN, MethodStudy


class SearchLines:
    """Says what became of trials; those that ended before are known already.

    Args:
        driver: The search to look at.
        on_word: Takes a line.
    """

    def __init__(self, driver: Driver, on_word: Callable[[str], None]) -> None:
        self.driver, self.on_word = driver, on_word
        self.seen = {(study.method, trial.number) for study, trial in self._ended()}

    def update(self) -> None:
        """Say what is new."""
        for study, trial in self._ended():
            if (study.method, trial.number) not in self.seen:
                self.seen.add((study.method, trial.number))
                planned = self.driver.num_planned()
                count = f"{len(self.seen)} of {planned}" if planned else f"{len(self.seen)}"
                self.on_word(f"{study.method}/{trial.number} {self._told(trial)} ({count})")

    def _ended(self) -> list[tuple[MethodStudy, FrozenTrial]]:
        return [
            (study, trial)
            for study in self.driver.studies.values()
            for trial in study.trials()
            if trial.state in ENDED and REFUSED not in trial.user_attrs
        ]

    def _told(self, trial: FrozenTrial) -> str:
        if trial.state == TrialState.FAIL:
            return f"failed: {trial.user_attrs.get(ERROR, 'the reason was not recorded')}"
        if trial.state == TrialState.PRUNED:
            return "stopped early"
        pairs = zip(self.driver.objectives, trial.values, strict=True)
        values = ", ".join(f"{objective.name} {objective.show(value)}" for objective, value in pairs)
        return f"{finished(self.driver.record.path / trial.user_attrs[RUN])}, {values}"


class ConfirmationLines:
    """Says what became of trainings on other seeds; those that ended in an earlier session are known already.

    Args:
        confirmation: What to look at.
        on_word: Takes a line.
    """

    def __init__(self, confirmation: Confirmation, on_word: Callable[[str], None]) -> None:
        self.confirmation, self.on_word = confirmation, on_word
        self.known = {job.name for job in confirmation.jobs if job.run.status is not None}
        self.num_seen = 0

    def update(self) -> None:
        """Say what is new."""
        for job, outcome in self.confirmation.ended[self.num_seen :]:
            self.num_seen += 1
            if job.name not in self.known:
                self.on_word(f"{job.name} {_outcome(job, outcome)} ({self.num_seen} of {len(self.confirmation.jobs)})")


def finished(run: Path) -> str:
    """How long a finished run took, in words."""
    return f"finished in {duration((RunRecord(run).status or {}).get('seconds', 0.0))}"


def _outcome(job: Job, outcome: Outcome) -> str:
    return f"failed: {outcome.error}" if outcome.state == "failed" else finished(job.folder)
