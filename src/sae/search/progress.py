"""Progress of a search: a live display on a terminal, or one line for each trial in a log."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from optuna.trial import FrozenTrial, TrialState
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sae.analysis.candidates import Candidate, candidates_of, front
from sae.analysis.network_plan import exits_text
from sae.core.table import MISSING
from sae.core.wording import count, duration, rounded
from sae.records.run import RunRecord, read_run
from sae.records.study import StudyRecord
from sae.search.confirm import Retraining
from sae.search.driver import ENDED, Driver
from sae.search.job import Job, Outcome
from sae.search.method_study import ERROR, REFUSED, RUN, MethodStudy

MOST_ROWS = 8
"""Rows of the front that are shown."""


class SearchView:
    """The live display of a search.

    Args:
        driver: The search to show.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver, self.began = driver, time.monotonic()
        self.counted_before = self.driver.num_ended()
        self.seen: dict[str, list[Candidate]] = {}
        self._front: list[Candidate] = []
        self._front_after = -1  # ended trials

    def render(self) -> Group:
        """Return the current display."""
        return Group(Text(self.headline()), worker_table(self.driver.dispatcher.executor.running), self._front_table())

    def headline(self) -> str:
        """Return counts and time left in one line."""
        studies = self.driver.studies.values()
        counts = {
            "finished": sum(study.count(TrialState.COMPLETE) for study in studies),
            "stopped": sum(study.count(TrialState.PRUNED) for study in studies),
            "failed": sum(study.count(TrialState.FAIL) for study in studies),
            "refused": sum(study.num_refused() for study in studies),
        }
        shown = ", ".join(f"{number} {name}" for name, number in counts.items() if number or name == "finished")
        total = self.driver.num_planned()
        return f"trials: {shown}{f' of {total}' if total else ''}; {self.time_left()}"

    def time_left(self) -> str:
        """Estimate the time left from the pace of this session and the hours left, whichever is less."""
        if self.driver.is_stopping:
            return "stopping after the running trials"
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
        for name in ("trial", "kind", "settings", "exits used", *(objective.name for objective in objectives)):
            table.add_column(name)
        for item in best[:MOST_ROWS]:
            values = (objective.show(item.values[objective.name]) for objective in objectives)
            exits = exits_text(item.active) if item.config.method.has_exits else MISSING
            table.add_row(item.label, item.kind, item.config.summary, exits, *values)
        return table

    def front(self) -> list[Candidate]:
        """Return the front so far, sorted by the first objective; it is computed again when another trial has ended."""
        if self.driver.num_ended() != self._front_after:
            self._front, self._front_after = self._find_front(), self.driver.num_ended()
        return self._front

    def _find_front(self) -> list[Candidate]:
        record: StudyRecord = self.driver.record
        for trial in record.trials():
            if trial.label not in self.seen and trial.has(trial.STATUS):
                found_here = candidates_of(read_run(trial))
                names = {name for item in found_here for name in item.values}
                if all(objective.name in names for objective in self.driver.objectives):
                    self.seen[trial.label] = found_here  # else some of its metrics are not measured yet
        found = [item for items in self.seen.values() for item in items]
        best = front(found, self.driver.objectives, self.driver.limits)
        return sorted(best, key=lambda item: item.losses(self.driver.objectives)[0])


@contextmanager
def showing() -> Iterator["Live | None"]:
    """Open a live display on standard error; None if that is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield live


def render_confirmation(confirmation: Retraining) -> Group:
    """Return the current display of a confirmation."""
    total = len(confirmation.jobs)
    chosen = count(len(confirmation.chosen), "configuration")
    text = f"confirming {chosen}: {len(confirmation.ended)} of {total} trainings done"
    return Group(Text(text), worker_table(confirmation.dispatcher.executor.running))


def worker_table(jobs: Sequence[Job]) -> Table:
    """Return a table with a row for each running job."""
    table = Table(show_header=False, box=None)
    for job in jobs:
        done, epochs = job.count_epochs(), job.config.train.epochs
        bar = "━" * round(20 * done / epochs)
        table.add_row(job.name, job.config.summary, f"[green]{bar:<20}[/]", f"epoch {done} of {epochs}")
    return table


class SearchLines:
    """One line for each trial that ends; trials that ended in earlier sessions are not repeated.

    Args:
        driver: The search to follow.
        say: Prints a line.
    """

    def __init__(self, driver: Driver, say: Callable[[str], None]) -> None:
        self.driver, self.say = driver, say
        self.seen = {(study.method, trial.number) for study, trial in self._ended()}

    def update(self) -> None:
        """Print a line for each trial that ended since the last call."""
        for study, trial in self._ended():
            if (study.method, trial.number) not in self.seen:
                self.seen.add((study.method, trial.number))
                planned = self.driver.num_planned()
                ordinal = f"{len(self.seen)} of {planned}" if planned else f"{len(self.seen)}"
                self.say(f"{study.method}/{trial.number} {self._describe(trial)} ({ordinal})")

    def _ended(self) -> list[tuple[MethodStudy, FrozenTrial]]:
        return [
            (study, trial)
            for study in self.driver.studies.values()
            for trial in study.trials()
            if trial.state in ENDED and REFUSED not in trial.user_attrs
        ]

    def _describe(self, trial: FrozenTrial) -> str:
        if trial.state == TrialState.FAIL:
            return f"failed: {trial.user_attrs.get(ERROR, 'the reason was not recorded')}"
        if trial.state == TrialState.PRUNED:
            return "stopped early"
        pairs = zip(self.driver.objectives, trial.values, strict=True)
        values = ", ".join(f"{objective.name} {objective.show(value)}" for objective, value in pairs)
        return f"{finished(self.driver.record.path / trial.user_attrs[RUN])}, {values}"


class ForecastLine:
    """A line on how many trials fit into the hours, once every method was timed, and again where that turns out wrong.

    Args:
        driver: The search to follow.
        say: Prints the line.
    """

    def __init__(self, driver: Driver, say: Callable[[str], None]) -> None:
        self.driver, self.say = driver, say
        self.said, self.ended = 0, -1  # trials

    def update(self) -> None:
        """Print the line if another trial has ended and the number differs by more than a quarter from the last."""
        hours, ended = self.driver.budget.hours, self.driver.num_ended()
        if hours is None or ended == self.ended:
            return
        self.ended, found = ended, self.driver.forecast()
        if found and abs(sum(found.values()) - self.said) > self.said / 4:
            self.said = sum(found.values())
            self.say(forecast_text(found, self.driver.num_planned(), hours * 3600))


def forecast_text(trials: Mapping[str, int], planned: int | None, seconds: float) -> str:
    """Say how many trials fit into a time.

    Example:
        >>> forecast_text({"sae": 4, "ensemble": 4}, 10, 360)
        'about 8 of the 10 planned trials fit into 6 min: 4 of each method (sae, ensemble)'
        >>> forecast_text({"sae": 4, "ensemble": 1}, None, 360)
        'about 5 trials fit into 6 min: 4 of sae, 1 of ensemble'
    """
    total, fewest = sum(trials.values()), min(trials.values())
    if planned is not None and total >= planned:
        return f"all {planned} planned trials should fit into {duration(seconds)}"
    shown = f"about {total} of the {planned} planned trials" if planned else f"about {count(total, 'trial')}"
    each = ", ".join(f"{number} of {method}" for method, number in trials.items())
    if len(trials) > 1 and fewest == max(trials.values()):
        each = f"{fewest} of each method ({', '.join(trials)})"
    return f"{shown} fit into {duration(seconds)}: {each}"


class ConfirmationLines:
    """One line for each training on another seed that ends; those of earlier sessions are not repeated.

    Args:
        confirmation: The confirmation to follow.
        say: Prints a line.
    """

    def __init__(self, confirmation: Retraining, say: Callable[[str], None]) -> None:
        self.confirmation, self.say = confirmation, say
        self.known = {job.name for job in confirmation.jobs if job.run.has(RunRecord.STATUS)}
        self.num_seen = 0

    def update(self) -> None:
        """Print a line for each training that ended since the last call."""
        for job, outcome in self.confirmation.ended[self.num_seen :]:
            self.num_seen += 1
            if job.name not in self.known:
                self.say(f"{job.name} {_outcome(job, outcome)} ({self.num_seen} of {len(self.confirmation.jobs)})")


def finished(run: Path) -> str:
    """Return how long a finished run took, in words."""
    status = RunRecord(run).read_status()
    return f"finished in {duration((status and status.seconds) or 0.0)}"


def _outcome(job: Job, outcome: Outcome) -> str:
    return f"failed: {outcome.error}" if outcome.state == "failed" else finished(job.folder)
