"""From a plan to a study: runs a search, and confirms what it found."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from sae.config.study import ConfirmConfig, SearchConfig, StudyConfig
from sae.core.errors import ConfigError
from sae.core.task import DataSpec
from sae.records.study import StudyRecord
from sae.search.confirm import Confirmation
from sae.search.driver import Budget, Driver
from sae.search.executors import Executor
from sae.search.method_study import MethodStudy, check_storage, close_storage, open_studies, reaching_storage
from sae.search.plan import SearchPlan
from sae.search.progress import ConfirmationLines, SearchLines, SearchView, render_confirmation, showing
from sae.search.space import read_space


def run_study(
    out: Path,
    plan: SearchPlan,
    executor: Executor,
    storage: str | None = None,
    *,
    force: bool = False,
    on_word: Callable[[str], None],
) -> StudyRecord:
    """Search, then confirm if asked to; says what it is about to do, and ends the workers whatever happens.

    Args:
        out: The study folder; a study that was begun there is continued.
        plan: What is searched and confirmed.
        executor: Where trials run; it is closed in the end.
        storage: URL of Optuna's database; by default a file in the study folder.
        force: Start over, whatever the folder holds of an earlier study.
        on_word: Says something to the person at the terminal.
    """
    settings = plan.settings
    try:
        if storage is not None:
            check_storage(storage)
        record = open_study(out, plan.study, force=force, keep_startup=settings.startup is None)
        on_word(announcement(settings, record.config))
        with record.lock():
            run_search(record, plan.spec, executor, Budget(settings.budget, settings.hours), storage, on_word)
            if plan.confirm.seeds:
                run_confirmation(record, executor, plan.confirm, on_word)
    finally:
        executor.close()
    return record


def announcement(settings: SearchConfig, config: StudyConfig) -> str:
    """What is about to happen, in one sentence."""
    spaces = [read_space(method, template) for method, template in config.spaces.items()]
    parts = [
        f"{space.method} in full ({space.size:.0f} trial{'' if space.size == 1 else 's'})"
        for space in spaces
        if space.is_enumerated(config)
    ]
    sampled = [space.method for space in spaces if not space.is_enumerated(config)]
    if sampled:
        limit = f"{settings.budget} trials each" if settings.budget else f"{settings.hours:g} hours"
        how = config.sampler if settings.sampler else f"{config.sampler}, the default for this number of objectives"
        parts.insert(0, f"{', '.join(sampled)} by {how}, after {config.startup} random trials, for {limit}")
    return f"searching for {', '.join(config.objectives)}: {'; '.join(sorted(parts, key=lambda part: 'full' in part))}"


def open_study(path: Path, config: StudyConfig, *, force: bool, keep_startup: bool) -> StudyRecord:
    """The study folder of these settings, new or begun.

    Args:
        path: The folder.
        config: The settings.
        force: Start over, whatever the folder holds of an earlier study.
        keep_startup: Whether the number of random trials is that of the study, not the one that suits today's budget.
    """
    if (path / StudyRecord.CONFIG).exists() and not force:
        begun = StudyRecord(path).config
        kept = {"id": begun.id, **({"startup": begun.startup} if keep_startup else {})}
        config = config.model_copy(update=kept)
    return StudyRecord.create(path, config, force=force)


def run_search(
    record: StudyRecord,
    spec: DataSpec,
    executor: Executor,
    budget: Budget,
    storage: str | None,
    on_word: Callable[[str], None],
) -> Driver:
    """Ask, train and tell until the budget is spent; raises KeyboardInterrupt when stopped before.

    Args:
        record: The study.
        spec: Shape and task of its data.
        executor: Where trials run.
        budget: How much may be tried.
        storage: URL of Optuna's database; by default a file in the study folder.
        on_word: Says something to the person at the terminal.
    """
    spaces = [read_space(method, template) for method, template in record.config.spaces.items()]
    storage = storage or f"sqlite:///{(record.path / record.STORAGE).resolve()}"
    with reaching_storage():
        studies = open_studies(storage, record.config, spaces, record.objectives)
        _check_storage(record, studies)
        driver = Driver(record, studies, spec, executor, budget)
        view, lines = SearchView(driver), SearchLines(driver, on_word)
        with _stopping_cleanly(driver, on_word), showing() as live:
            driver.run(lambda: live.update(view.render()) if live else lines.update())
        close_storage(studies)
    if driver.is_stopping:
        raise KeyboardInterrupt
    return driver


def _check_storage(record: StudyRecord, studies: Sequence[MethodStudy]) -> None:
    """Trials that have a folder were asked in some storage: it has to be the one that is given."""
    begun = {trial.method for trial in record.trials()}
    strange = [study.method for study in studies if study.method in begun and not study.trials()]
    if strange:
        raise ConfigError(
            f"{record.path} holds trials of {strange[0]} that its storage does not know: give the same --storage "
            f"as before, or start over with --force"
        )


def run_confirmation(
    record: StudyRecord, executor: Executor, confirm: ConfirmConfig, on_word: Callable[[str], None]
) -> dict[str, Any]:
    """Train what was chosen again on other seeds; raises KeyboardInterrupt when stopped before."""
    confirmation = Confirmation(record, executor, confirm)
    lines = ConfirmationLines(confirmation, on_word)
    with _stopping_cleanly(confirmation, on_word), showing() as live:
        confirmed = confirmation.run(lambda: live.update(render_confirmation(confirmation)) if live else lines.update())
    if confirmation.is_stopping:
        raise KeyboardInterrupt
    return confirmed


class Stoppable(Protocol):
    """Work that can be told to come to an end."""

    is_stopping: bool


@contextmanager
def _stopping_cleanly(work: Stoppable, on_word: Callable[[str], None]) -> Iterator[None]:
    """The first Ctrl-C lets running trials finish, the second ends them at once."""

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        if work.is_stopping:
            raise KeyboardInterrupt
        work.is_stopping = True
        on_word("stopping when the running trials are done; Ctrl-C again stops at once, at their last finished epochs")

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
