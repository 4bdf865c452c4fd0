"""A search: its plan, which is checked first, the study, and the confirmation of its results."""

import signal
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from sae.config.methods import METHODS
from sae.config.run import data_name
from sae.config.settings import Layer, flatten, merge, parse, section_name
from sae.config.study import ConfirmConfig, SearchConfig, StudyConfig, Value
from sae.core.errors import ConfigError
from sae.core.objectives import limits, objectives
from sae.core.task import DataSpec, Regression
from sae.core.wording import count, duration
from sae.data.catalogue import load, suggestions
from sae.records.study import Plan, StudyRecord
from sae.search.confirm import Confirmation, Distillation, Retraining
from sae.search.driver import Budget, Driver
from sae.search.executors import Executor
from sae.search.holes import read_holes
from sae.search.method_study import MethodStudy, check_storage, close_storage, open_studies, planned, reaching_storage
from sae.search.progress import ConfirmationLines, ForecastLine, SearchLines, SearchView, render_confirmation, showing
from sae.search.screening import check_reach, rungs
from sae.search.space import RATE, Space, build_space, read_space
from sae.training.shift import check_images

SEARCH_SECTIONS = ("search", "confirm", "spaces")
"""Sections of a search file that a run does not have."""
Say = Callable[[str], None]
"""Prints one line for the user."""


@dataclass(frozen=True)
class SearchPlan:
    """A search whose settings are valid.

    Attributes:
        settings: The search settings that were asked for.
        study: All settings that the results of trials depend on.
        spec: Shape and task of the data.
        confirm: The settings of the confirmation after the search.
    """

    settings: SearchConfig
    study: StudyConfig
    spec: DataSpec
    confirm: ConfirmConfig

    @property
    def data(self) -> Layer:
        """The settings of the data, which all methods share."""
        data: Layer = next(iter(self.study.spaces.values()))["data"]
        return data


def resolve_search(layers: Sequence[Layer]) -> SearchPlan:
    """Merge layers of settings over the data set's suggestions and the shipped spaces, and check the result.

    Args:
        layers: Settings of a run with holes, and sections `search`, `confirm` and `spaces`; the lowest layer first.
    """
    given: Layer = {}
    for layer in layers:
        given = merge(given, read_holes(layer))
    own = given.get("spaces", {})
    if not isinstance(own, dict) or not all(isinstance(value, dict) for value in own.values()):
        raise ConfigError("spaces must hold a section of settings for each method, e.g. standard: {backbone: …}")
    of_runs = {key: value for key, value in given.items() if key not in SEARCH_SECTIONS}
    settings = parse(SearchConfig, {**_named_method(of_runs), **_section(given, "search")})
    confirm = parse(ConfirmConfig, _section(given, "confirm"))
    study, spec = resolve_study(settings, suggestions(data_name(of_runs), of_runs), of_runs, own)
    if not confirm.seeds:  # then only trials can show how good the networks are under shift
        study = study.model_copy(update={"shift_trials": True})
    return SearchPlan(settings, study, spec, confirm)


def _section(given: Layer, name: str) -> Layer:
    section = given.get(name, {})
    if not isinstance(section, dict):
        raise ConfigError(f"{name} must be a section of settings, got {section!r}")
    return section


def _named_method(of_runs: Layer) -> Layer:
    """Return the method that the `method` section names, as the only method to search by default."""
    name = section_name(of_runs.get("method"))
    return {"methods": [name]} if name else {}


def resolve_study(
    search: SearchConfig, suggestions: Layer, given: Layer, own: Mapping[str, Layer]
) -> tuple[StudyConfig, DataSpec]:
    """Return all settings that the trials depend on, and the data's shape; wrong settings are refused here.

    Args:
        search: The search settings.
        suggestions: The data set's suggested settings.
        given: The user's settings for all methods, with holes.
        own: The user's settings for single methods.
    """
    spaces = _build_spaces(search, suggestions, given, own)
    some = spaces[0].fill(next(spaces[0].corners()))
    if some.train.val_too != "none":
        raise ConfigError(
            f"train.val_too must be none in a study, whose trials are compared on validation samples, got "
            f"{some.train.val_too}: leave it out"
        )
    dataset = load(some.data, some.seed)
    task = "regression" if isinstance(dataset.spec.task, Regression) else "classification"
    chosen = objectives(search.objectives_for(task), task)
    bounds = limits(search.max, search.min, task)
    check_reach(spaces, bounds, dataset.spec)
    is_shifted = any(objective.is_shifted for objective in (*chosen, *(limit.objective for limit in bounds)))
    if search.shift or is_shifted:
        check_images(dataset)
    elif search.shift_sets is not None:
        raise ConfigError("search.shift_sets has no effect without --shift or an objective such as nll@shift")
    study = StudyConfig(
        id=uuid.uuid4().hex[:8],
        task=task,
        spaces={space.method: dict(space.to_yaml()) for space in spaces},
        objectives=tuple(objective.name for objective in chosen),
        max=search.max,
        min=search.min,
        sampler=search.sampler_for(len(chosen)),
        startup=search.startup_trials,
        first=_starts(search, spaces),
        grid=search.grid,
        rungs=rungs(some.train.epochs, search.reduction) if search.stop_early else (),
        reduction=search.reduction,
        shift=search.shift,
        shift_sets=search.shift_sets or ("all" if search.shift else None),
        shift_trials=search.shift_trials,
        seed=some.seed,
    )
    return study, dataset.spec


def _starts(search: SearchConfig, spaces: Sequence[Space]) -> dict[str, tuple[dict[str, Value], ...]]:
    """Return the configurations to begin with, for the methods whose spaces have any of them; refuse unknown paths."""
    known = {path for space in spaces for path in dict(flatten(space.template))}
    of_methods = {f"method.{name}" for entry in METHODS for name in entry.settings.model_fields}
    for path in (path for values in search.first for path in values):
        if path not in known and ".".join(path.split(".")[:2]) not in of_methods:
            raise ConfigError(f"first must hold paths of settings, e.g. method.inputs, got {path!r}")
    found = {space.method: tuple(space.starts(search.first)) for space in spaces}
    return {method: points for method, points in found.items() if points}


def _build_spaces(search: SearchConfig, suggestions: Layer, given: Layer, own: Mapping[str, Layer]) -> list[Space]:
    """Return the space of each method; refuse settings for methods that are not searched."""
    searched = ", ".join(search.methods)
    others = [method for method in own if method not in search.methods]
    if others:
        raise ConfigError(f"spaces must name methods that are searched ({searched}), got {others[0]}")
    named = section_name(given.get("method"))
    if named is not None and named not in search.methods:
        raise ConfigError(f"the method section must name a method that is searched ({searched}), got {named}")
    spaces = [build_space(method, suggestions, given, own.get(method, {})) for method in search.methods]
    if search.sampler == "grid":
        return [space.restricted_to_grid(search.k_free) for space in spaces]
    if search.k_free:
        raise ConfigError("--k-free needs --sampler grid: every other sampler chooses K itself, and K′ is always free")
    return spaces


@dataclass(frozen=True)
class Place:
    """The place where a study runs and its results go.

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
    """Search, then confirm if the plan says so; the executor is closed at the end, also after an error."""
    settings, executor = plan.settings, place.executor
    try:
        if place.storage is not None:
            check_storage(place.storage)
        record = open_study(place.out, plan.study, settings, force=place.force)
        say(announcement(settings, record.config))
        with record.lock():
            run_search(
                record,
                plan.spec,
                executor,
                Budget(settings.budget, settings.hours, settings.trials),
                place.storage,
                say,
            )
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
            f"of {method} first {_listed(points)}" for method, points in config.first.items() if method in sampled
        ]
    parts += [_announced(space, config, settings.trials) for space in spaces if space.is_enumerated(config)]
    if settings.hours and settings.trials:
        parts.append(f"the methods take turns, and no trial starts after {duration(settings.hours * 3600)}")
    return f"searching for the best {', '.join(config.objectives)}: {'; '.join(parts)}"


def _announced(space: Space, config: StudyConfig, most: int | None) -> str:
    size = int(space.size)
    tried = planned(size, config, most)
    if tried < size:
        return f"{tried} of the {size} configurations of {space.method}"
    return f"every configuration of {space.method} ({count(size, 'trial')})"


def _listed(points: Sequence[Mapping[str, Value]]) -> str:
    """Return values to begin with as a text, `inputs=1 exits=5 and inputs=3 exits=5, each at 3 learning rates`."""
    [plain] = _without_rates({"": points}).values()
    rates = [sum(point.items() <= other.items() for other in points) for point in plain]
    is_shared = min(rates) > 1 and len(set(rates)) == 1
    shown = plain if is_shared else points
    named = (" ".join(f"{path.partition('.')[2]}={value}" for path, value in point.items()) for point in shown)
    return " and ".join(named) + (f", each at {rates[0]} learning rates" if is_shared else "")


def open_study(path: Path, config: StudyConfig, settings: SearchConfig, *, force: bool) -> StudyRecord:
    """Create the study folder, or open the one that an earlier session began with the same settings.

    Args:
        path: The folder.
        config: The settings of the study.
        settings: The given settings. If they do not set the number of random trials or the corrupted validation sets,
            a study keeps those it began with, even if the defaults have changed. A study that began with random
            trials goes on without given first ones, one whose first trials had random learning rates keeps them, and
            trials are measured on corrupted test sets as they were before, unless that is asked for now.
        force: Delete an earlier study in the folder and start over.
    """
    if (path / StudyRecord.CONFIG).exists() and not force:
        begun = StudyRecord(path).read_config()
        unset = [name for name in ("startup", "shift_sets") if getattr(settings, name) is None]
        unset += ["first"] if not begun.first or begun.first == _without_rates(config.first) else []
        asks = settings.shift_trials and "shift_trials" in settings.model_fields_set
        unset += [] if asks else ["shift_trials"]
        config = config.model_copy(update={name: getattr(begun, name) for name in ("id", *unset)})
    return StudyRecord.create(path, config, force=force)


def _without_rates(first: Mapping[str, Sequence[Mapping[str, Value]]]) -> dict[str, tuple[dict[str, Value], ...]]:
    """Return first configurations as they were when their learning rates were random."""
    plain = {method: [{k: v for k, v in point.items() if k != RATE} for point in first[method]] for method in first}
    return {method: tuple(p for i, p in enumerate(points) if p not in points[:i]) for method, points in plain.items()}


def run_search(
    record: StudyRecord, spec: DataSpec, executor: Executor, budget: Budget, storage: str | None, say: Say
) -> None:
    """Train trials until the budget is spent; raise KeyboardInterrupt if the user stops it earlier.

    Args:
        record: The study.
        spec: Shape and task of its data.
        executor: Where trials run.
        budget: The limits of the search.
        storage: URL of Optuna's database; by default a file in the study folder.
        say: Prints a line of progress.
    """
    with reaching_storage():
        studies = open_method_studies(record, storage)
        _check_same_storage(record, studies)
        driver = Driver(record, studies, spec, executor, budget)
        record.write_plan(Plan(trials=driver.num_planned()))
        view, lines, forecast = SearchView(driver), SearchLines(driver, say), ForecastLine(driver, say)

        def show() -> None:
            live.update(view.render()) if live else lines.update()
            forecast.update()

        with _stopping_cleanly(driver, say), showing() as live:
            driver.run(show)
        close_storage(studies)
    if driver.is_stopping:
        raise KeyboardInterrupt


def open_method_studies(record: StudyRecord, storage: str | None = None) -> list[MethodStudy]:
    """Create or open the Optuna study of each method, by default in a database in the study folder."""
    spaces = [read_space(method, template) for method, template in record.config.spaces.items()]
    url = storage or f"sqlite:///{(record.path / record.STORAGE).resolve()}"
    return open_studies(url, record.config, spaces, record.objectives)


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
