"""From settings to a study: resolves a search, and runs it."""

import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from sae.config import RunConfig
from sae.data.catalogue import load
from sae.data.dataset import Dataset
from sae.errors import ConfigError
from sae.objectives import limits, objectives
from sae.search.confirm import Confirmation
from sae.search.driver import Budget, Driver
from sae.search.executors import Executor
from sae.search.method_study import MethodStudy
from sae.search.refusal import check_reach
from sae.search.space import Space, build_space, read_space
from sae.search.stopping import rungs
from sae.search.storage import close_storage, open_studies, reaching_storage
from sae.search.view import SearchView, render_confirmation, showing
from sae.settings import Layer
from sae.study_config import SearchConfig, StudyConfig
from sae.study_record import StudyRecord
from sae.task import Regression
from sae.training.shift import check_images


def resolve_study(search: SearchConfig, suggestions: Layer, given: Layer, own: dict[str, Layer]) -> StudyConfig:
    """All that the trials of a study depend on; wrong settings are found here, before any work.

    Args:
        search: What is looked for.
        suggestions: What the data set suggests.
        given: The user's settings for all methods, with holes.
        own: The user's settings for single methods.
    """
    strangers = [method for method in own if method not in search.methods]
    if strangers:
        raise ConfigError(f"spaces are for methods that are searched ({', '.join(search.methods)}), got {strangers[0]}")
    section = given.get("method")
    named = section if isinstance(section, str) else (section or {}).get("name")
    if named is not None and named not in search.methods:
        raise ConfigError(
            f"the method section must be about a method that is searched ({', '.join(search.methods)}), got {named}"
        )
    spaces = [build_space(method, suggestions, given, own.get(method, {})) for method in search.methods]
    if search.sampler == "grid":
        spaces = [space.restricted_to_grid(search.k_free) for space in spaces]
    elif search.k_free:
        raise ConfigError(
            "--k-free goes with --sampler grid: every other sampler chooses K itself, and K′ is always free"
        )
    some = spaces[0].fill(next(spaces[0].corners()))
    dataset = load(some.data, some.seed)
    task = "regression" if isinstance(dataset.spec.task, Regression) else "classification"
    chosen = objectives(search.objectives_for(task), task)
    bounds = limits(search.max, search.min, task)
    check_reach(spaces, bounds, dataset.spec)
    if search.shift or any(objective.is_shifted for objective in (*chosen, *(limit.objective for limit in bounds))):
        check_images(dataset)
    return StudyConfig(
        id=uuid.uuid4().hex[:8],
        task=task,
        spaces={space.method: space.to_yaml() for space in spaces},
        objectives=tuple(objective.name for objective in chosen),
        max=search.max,
        min=search.min,
        sampler=search.sampler_for(len(chosen)),
        startup=search.startup_trials,
        grid=search.grid,
        rungs=rungs(some.train.epochs, search.reduction) if search.stop_early else (),
        reduction=search.reduction,
        shift=search.shift,
        seed=some.seed,
    )


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
    record: StudyRecord, executor: Executor, budget: Budget, storage: str | None, on_word: Callable[[str], None]
) -> Driver:
    """Ask, train and tell until the budget is spent; raises KeyboardInterrupt when stopped before.

    Args:
        record: The study.
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
        driver = Driver(record, studies, _dataset(spaces).spec, executor, budget)
        view = SearchView(driver)
        with _stopping_cleanly(driver, on_word), view.shown() as live:
            driver.run(lambda: live.update(view.render()) if live else None)
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
    record: StudyRecord, executor: Executor, seeds: int, most: int | None, on_word: Callable[[str], None]
) -> dict[str, Any]:
    """Train the front again on other seeds; raises KeyboardInterrupt when stopped before."""
    confirmation = Confirmation(record, executor, seeds, most)
    with _stopping_cleanly(confirmation, on_word), showing() as live:
        confirmed = confirmation.run(lambda: live.update(render_confirmation(confirmation)) if live else None)
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


def _dataset(spaces: list[Space]) -> Dataset:
    config: RunConfig = spaces[0].fill(next(spaces[0].corners()))
    return load(config.data, config.seed)
