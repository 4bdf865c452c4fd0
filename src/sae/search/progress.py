"""What a search shows while it runs: a live picture on a terminal, a line for each trial in a log."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from optuna.trial import FrozenTrial, TrialState
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sae.analysis.candidates import Candidate, candidates_of, front, summary
from sae.core.wording import duration
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.search.confirm import Confirmation
from sae.search.driver import ENDED, Driver
from sae.search.job import Job, Outcome
from sae.search.method_study import ERROR, REFUSED, RUN, MethodStudy

MOST_ROWS = 8
"""Members of the front that are shown."""


class SearchView:
    """A live picture of a search.

    Args:
        driver: The search to look at.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver, self.began = driver, time.monotonic()
        self.counted_before = self.driver.num_ended()
        self.seen: dict[str, list[Candidate]] = {}
        self._front: list[Candidate] = []
        self._front_after = -1  # ended trials

    def render(self) -> Group:
        """The picture of the moment."""
        return Group(Text(self.headline()), worker_table(self.driver.dispatcher.executor.running), self._front_table())

    def headline(self) -> str:
        """Counts and time left, in one line."""
        studies = self.driver.studies.values()
        counts = {
            "finished": sum(study.count(TrialState.COMPLETE) for study in studies),
            "stopped": sum(study.count(TrialState.PRUNED) for study in studies),
            "failed": sum(study.count(TrialState.FAIL) for study in studies),
            "refused": sum(study.num_refused() for study in studies),
        }
        told = ", ".join(f"{number} {name}" for name, number in counts.items() if number or name == "finished")
        total = self.driver.num_planned()
        return f"trials: {told}{f' of {total}' if total else ''}; {self.time_left()}"

    def time_left(self) -> str:
        """From the pace of this session and the hours that are left, whichever ends first."""
        if self.driver.is_stopping:
            return "stopping when the running ones are done"
        hours, total = self.driver.budget.hours, self.driver.num_planned()
        estimates = [] if hours is None else [hours * 3600 - self.driver.seconds]
        done = self.driver.num_ended() - self.counted_before
        if total and done:
            estimates.append((total - self.driver.num_ended()) * (time.monotonic() - self.began) / done)
        return f"about {duration(rounded(max(0.0, min(estimates))))} left" if estimates else "time left not known yet"

    def _front_table(self) -> Table:
        best = self.front()
        objectives = self.driver.objectives
        table = Table(title=f"front: {len(best)} so far", title_justify="left", expand=False)
        for name in ("trial", "kind", "settings", "K′", *(objective.name for objective in objectives)):
            table.add_column(name)
        for item in best[:MOST_ROWS]:
            values = (objective.show(item.values[objective.name]) for objective in objectives)
            table.add_row(item.trial.name, item.kind, summary(item.config), str(item.eval_exits), *values)
        return table

    def front(self) -> list[Candidate]:
        """The best so far by the first objective; looked for anew when another trial has ended."""
        if self.driver.num_ended() != self._front_after:
            self._front, self._front_after = self._find_front(), self.driver.num_ended()
        return self._front

    def _find_front(self) -> list[Candidate]:
        record: StudyRecord = self.driver.record
        for trial in record.trials():
            if trial.name not in self.seen and trial.run.is_finished:
                found_here = candidates_of(trial)
                if all(objective.name in found_here[0].values for objective in self.driver.objectives):
                    self.seen[trial.name] = found_here  # else its shifted metrics are still being measured
        found = [item for items in self.seen.values() for item in items]
        best = front(found, self.driver.objectives, self.driver.limits)
        return sorted(best, key=lambda item: item.losses(self.driver.objectives)[0])


@contextmanager
def showing() -> Iterator["Live | None"]:
    """A live picture on standard error, or None if that is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield live


def render_confirmation(confirmation: Confirmation) -> Group:
    """How far confirming has come."""
    total = len(confirmation.jobs)
    text = f"confirming {len(confirmation.chosen)} of the front: {len(confirmation.ended)} of {total} trainings done"
    return Group(Text(text), worker_table(confirmation.dispatcher.executor.running))


def worker_table(jobs: Sequence[Job]) -> Table:
    """A line for each job that runs."""
    table = Table(show_header=False, box=None)
    for job in jobs:
        done, epochs = job.epochs_done, job.config.train.epochs
        bar = "━" * round(20 * done / epochs)
        table.add_row(job.name, summary(job.config), f"[green]{bar:<20}[/]", f"epoch {done} of {epochs}")
    return table


def rounded(seconds: float) -> float:
    """Whole minutes of what takes longer than one: nobody counts the seconds of an estimate.

    Example:
        >>> rounded(59.0), rounded(200.0)
        (59.0, 180.0)
    """
    return seconds if seconds < 60 else 60.0 * round(seconds / 60)


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
