"""A search from its plan to a finished study, and the confirmation of its results."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from sae.config.study import SearchConfig, StudyConfig
from sae.core.errors import ConfigError
from sae.core.task import DataSpec
from sae.core.wording import count
from sae.records.study import Plan, StudyRecord
from sae.search.confirm import Confirmation, Distillation, Retraining
from sae.search.driver import Budget, Driver
from sae.search.executors import Executor
from sae.search.method_study import MethodStudy, check_storage, close_storage, open_studies, reaching_storage
from sae.search.plan import SearchPlan
from sae.search.progress import ConfirmationLines, SearchLines, SearchView, render_confirmation, showing
from sae.search.space import read_space

Say = Callable[[str], None]
"""Prints one line for the person at the terminal."""


@dataclass(frozen=True)
class Place:
    """Where a study runs and where its results go.

    Attributes:
        out: The study folder; a study that was begun there is continued.
        executor: Where trials run.
        storage: URL of Optuna's database; by default a file in the study folder.
        force: Whether to delete an earlier study in the folder and start over.
    """

    out: Path
    executor: Executor
    storage: str | None = None
    force: bool = False


def run_study(place: Place, plan: SearchPlan, say: Say) -> StudyRecord:
    """Search, then confirm if the plan asks for it; the executor is closed at the end, also after an error."""
    settings, executor = plan.settings, place.executor
    try:
        if place.storage is not None:
            check_storage(place.storage)
        record = open_study(place.out, plan.study, settings, force=place.force)
        say(announcement(settings, record.config))
        with record.lock():
            run_search(record, plan.spec, executor, Budget(settings.budget, settings.hours), place.storage, say)
            jobs = 0
            if plan.confirm.seeds:
                confirmation = Confirmation(record, executor, plan.confirm)
                jobs = _plan_again(record, len(confirmation.jobs))
                run_again(confirmation, say)
            if plan.confirm.distill:
                say("training the pick and the best standard network again, with the best ensemble as teacher")
                distillation = Distillation(record, executor, plan.confirm)
                _plan_again(record, jobs + len(distillation.jobs))
                run_again(distillation, say)
            record.write_plan(_planned(record).model_copy(update={"is_done": True}))
    finally:
        executor.close()
    return record


def _planned(record: StudyRecord) -> Plan:
    plan = record.read_plan()
    assert plan is not None, "the search has written its plan"
    return plan


def _plan_again(record: StudyRecord, jobs: int) -> int:
    """Record how many runs on other seeds are planned, and return the number."""
    record.write_plan(_planned(record).model_copy(update={"again": jobs}))
    return jobs


def announcement(settings: SearchConfig, config: StudyConfig) -> str:
    """Describe in one sentence the search that is about to start."""
    spaces = [read_space(method, template) for method, template in config.spaces.items()]
    parts = []
    sampled = [space.method for space in spaces if not space.is_enumerated(config)]
    if sampled:
        default = "" if settings.sampler else f" (the default for {count(len(config.objectives), 'objective')})"
        limit = f"{count(settings.budget, 'trial')} each" if settings.budget else f"for {settings.hours:g} hours"
        parts.append(f"{', '.join(sampled)} by {config.sampler}{default}, {limit}, the first {config.startup} random")
    parts += [
        f"every configuration of {space.method} ({count(int(space.size), 'trial')})"
        for space in spaces
        if space.is_enumerated(config)
    ]
    return f"searching for the best {', '.join(config.objectives)}: {'; '.join(parts)}"


def open_study(path: Path, config: StudyConfig, settings: SearchConfig, *, force: bool) -> StudyRecord:
    """Create the study folder, or open the one that an earlier session began with the same settings.

    Args:
        path: The folder.
        config: The settings of the study.
        settings: What was asked for; where it is silent, a study keeps the number of random trials and the corrupted
            validation sets that it began with, also if today's default is another.
        force: Delete an earlier study in the folder and start over.
    """
    if (path / StudyRecord.CONFIG).exists() and not force:
        begun = StudyRecord(path).read_config()
        silent = [name for name in ("startup", "shift_sets") if getattr(settings, name) is None]
        config = config.model_copy(update={name: getattr(begun, name) for name in ("id", *silent)})
    return StudyRecord.create(path, config, force=force)


def run_search(
    record: StudyRecord, spec: DataSpec, executor: Executor, budget: Budget, storage: str | None, say: Say
) -> None:
    """Train trials until the budget is spent; raise KeyboardInterrupt if the user stops it earlier.

    Args:
        record: The study.
        spec: Shape and task of its data.
        executor: Where trials run.
        budget: How much may be tried.
        storage: URL of Optuna's database; by default a file in the study folder.
        say: Prints a line of progress.
    """
    spaces = [read_space(method, template) for method, template in record.config.spaces.items()]
    storage = storage or f"sqlite:///{(record.path / record.STORAGE).resolve()}"
    with reaching_storage():
        studies = open_studies(storage, record.config, spaces, record.objectives)
        _check_same_storage(record, studies)
        driver = Driver(record, studies, spec, executor, budget)
        record.write_plan(Plan(trials=driver.num_planned()))
        view, lines = SearchView(driver), SearchLines(driver, say)
        with _stopping_cleanly(driver, say), showing() as live:
            driver.run(lambda: live.update(view.render()) if live else lines.update())
        close_storage(studies)
    if driver.is_stopping:
        raise KeyboardInterrupt


def _check_same_storage(record: StudyRecord, studies: Sequence[MethodStudy]) -> None:
    """Refuse a database that does not know the trials whose folders exist."""
    begun = {trial.path.parent.name for trial in record.trials()}
    unknown = [study.method for study in studies if study.method in begun and not study.trials()]
    if unknown:
        raise ConfigError(
            f"{record.path} holds trials of {unknown[0]} that are not in the database: give the same --storage "
            f"as before, or start over with --force"
        )


def run_again(work: Retraining, say: Say) -> None:
    """Train the chosen configurations again on other seeds; raise KeyboardInterrupt if the user stops it earlier."""
    lines = ConfirmationLines(work, say)
    with _stopping_cleanly(work, say), showing() as live:
        work.run(lambda: live.update(render_confirmation(work)) if live else lines.update())
    if work.is_stopping:
        raise KeyboardInterrupt


class Stoppable(Protocol):
    """Work that stops soon after `is_stopping` is set."""

    is_stopping: bool


@contextmanager
def _stopping_cleanly(work: Stoppable, say: Say) -> Iterator[None]:
    """Let running trials finish after the first Ctrl-C, and end them at once after the second."""

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        if work.is_stopping:
            raise KeyboardInterrupt
        work.is_stopping = True
        say("stopping after the running trials; press Ctrl-C again to stop now and keep only their finished epochs")

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
