"""What a person sees of a search while it runs: a line for each worker, counts, the front, time left."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from optuna.trial import TrialState
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sae.analysis.candidates import Candidate, candidates_of, front, summary
from sae.core.wording import duration
from sae.records.study import StudyRecord
from sae.search.confirm import Confirmation
from sae.search.driver import Driver
from sae.search.job import Job

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
