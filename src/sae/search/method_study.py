"""The trials of one method in an Optuna study, and the database that keeps them."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from sae.analysis.pareto import Losses
from sae.config.run import RunConfig
from sae.config.study import StudyConfig
from sae.core.errors import ConfigError, SaeError
from sae.core.objectives import Objective
from sae.core.seeds import derive_seed
from sae.search.holes import Point, number
from sae.search.samplers.repeatable import FixedSampler, make_sampler
from sae.search.space import MEMBERS, Space

REFUSED, ERROR, RUN, RUNG = "refused", "error", "run", "rung"
"""Names of the notes that are stored with a trial."""
GOLDEN = (5**0.5 - 1) / 2
"""Multiples of the golden ratio, without whole numbers, fill the interval from 0 to 1 evenly."""


@dataclass(frozen=True)
class Asked:
    """A trial to train.

    Attributes:
        method: The method to train.
        number: The number of the trial among those of its method.
        config: The settings of its run.
    """

    method: str
    number: int
    config: RunConfig


class MethodStudy:
    """Trials of one method: ask for the next one, tell its result once.

    Every trial is asked with a sampler of its own, seeded by the study's seed and the trial's
    number. The next configuration therefore depends only on the trials so far, and a study
    that was killed continues exactly as if it had not been.

    Attributes:
        space: The configurations that may be tried.
        is_enumerated: Whether they are tried one by one, none of them twice.
        is_spread: Whether the first ones to be tried are spread over all of them, because not all may be.
    """

    def __init__(self, space: Space, study: StudyConfig, optuna_study: optuna.Study) -> None:
        self.space, self.config, self.optuna = space, study, optuna_study
        self.is_enumerated = space.is_enumerated(study)
        self.is_spread = False
        self._points = list(space.points()) if self.is_enumerated else []
        self._first = study.first.get(space.method, ())
        self._configs: dict[int, RunConfig] = {}
        self._open: dict[int, optuna.trial.Trial] = {}  # asked for, not yet reported
        self._known: list[FrozenTrial] | None = None

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.space.method

    def trials(self) -> list[FrozenTrial]:
        """Return all trials that were asked; the database is read only after a change, because nobody else writes."""
        if self._known is None:
            self._known = self.optuna.get_trials(deepcopy=False)
        return self._known

    def complete(self) -> list[FrozenTrial]:
        """Return the trials that finished."""
        return [trial for trial in self.trials() if trial.state == TrialState.COMPLETE]

    def is_open(self, number: int) -> bool:
        """Return whether a trial was asked for and its result is not recorded yet."""
        return number in self._open

    def num_asked(self) -> int:
        """Count the trials that use up the budget; refused ones do not."""
        return sum(REFUSED not in trial.user_attrs for trial in self.trials())

    def count(self, state: TrialState) -> int:
        """Count the trials in a state, without refused ones."""
        return sum(trial.state == state and REFUSED not in trial.user_attrs for trial in self.trials())

    def num_refused(self) -> int:
        """Count the trials that were refused before training."""
        return sum(REFUSED in trial.user_attrs for trial in self.trials())

    def budget(self, trials: int | None, most: int | None = None) -> int | None:
        """Return the planned number of trials without refused ones; None if only time limits them.

        Args:
            trials: Trials of a space that is sampled.
            most: Most trials of a small space, unless a grid was asked for; by default all.
        """
        if not self.is_enumerated:
            return trials
        return planned(len(self._points) - self.num_refused(), self.config, most)

    def ask(self) -> Asked:
        """Return the next trial."""
        number = len(self.trials())
        self.optuna.sampler = self._sampler(number)
        asked = self.optuna.ask(self.space.distributions)
        self._known = None
        return self._asked(asked)

    def unfinished(self) -> list[Asked]:
        """Return the trials that an earlier session asked for and did not report.

        A trial that was killed while its parameters were being chosen gets the rest of them now.
        """
        found = []
        for trial in self.trials():
            if trial.state == TrialState.RUNNING:
                self.optuna.sampler = self._sampler(trial.number)
                resumed = optuna.trial.Trial(self.optuna, trial._trial_id)
                for name, distribution in self.space.distributions.items():
                    _suggest(resumed, name, distribution)
                found.append(self._asked(resumed))
                self._known = None  # the next one must not get the same point
        return found

    def config_of(self, trial: FrozenTrial) -> RunConfig:
        """Return the config of a trial."""
        if trial.number not in self._configs:
            self._configs[trial.number] = self.space.fill(trial.params)
        return self._configs[trial.number]

    def refuse(self, asked: Asked, reason: str) -> None:
        """Record that a trial would break a limit in any case."""
        self._note(asked.number, REFUSED, reason)
        self._tell(asked.number, state=TrialState.FAIL)

    def tell_finished(self, number: int, values: Sequence[float], violations: Mapping[str, float], run: str) -> None:
        """Record the objective values of a finished trial, how far it breaks each limit, and its run folder."""
        known = self._trial(number).system_attrs
        for name, violation in violations.items():
            if f"constraints:{name}" not in known:  # an earlier session may have ended between here and `tell`
                self._open[number].set_constraint(name, violation)
        self._note(number, RUN, run)
        self._tell(number, list(values))

    def tell_failed(self, number: int, error: str) -> None:
        """Record that a trial failed."""
        self._note(number, ERROR, error)
        self._tell(number, state=TrialState.FAIL)

    def tell_stopped(self, number: int) -> None:
        """Record that a trial was stopped early."""
        self._tell(number, state=TrialState.PRUNED)

    def rung(self, number: int, epoch: int) -> bool | None:
        """Return whether a trial passed a rung; None if it has not reached it."""
        note = self._trial(number).user_attrs.get(f"{RUNG} {epoch}")
        return None if note is None else bool(note["passes"])

    def is_stopped(self, number: int) -> bool:
        """Return whether a trial did not pass a rung."""
        notes = self._trial(number).user_attrs
        return any(name.startswith(RUNG) and not note["passes"] for name, note in notes.items())

    def losses_at(self, epoch: int) -> Losses:
        """Return the losses of all trials that reached a rung, (trial, objective)."""
        notes = (trial.user_attrs.get(f"{RUNG} {epoch}") for trial in self.trials())
        return np.array([note["losses"] for note in notes if note], dtype=np.float64).reshape(
            -1, len(self.config.objectives)
        )

    def note_rung(self, number: int, epoch: int, losses: Sequence[float], passes: bool) -> None:
        """Record the losses of a trial at a rung, and whether it passes."""
        self._note(number, f"{RUNG} {epoch}", {"losses": list(losses), "passes": passes})

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        """Return the sampler of one trial: the given first ones are fixed, and after a failed trial it is random.

        A model learns nothing from a trial without values, and might suggest the same again.
        """
        if self.is_enumerated:
            return FixedSampler(self._next_point(number))
        earlier = [trial for trial in self.trials() if trial.number < number and trial.state.is_finished()]
        has_failed = bool(earlier) and earlier[-1].state == TrialState.FAIL
        name = "random" if has_failed or number < len(self._first) else self.config.sampler
        seed = derive_seed(self.config.seed, "search", self.method, number)
        sampler = make_sampler(name, seed, self.config.startup)
        return FixedSampler(self._first[number], sampler) if number < len(self._first) else sampler

    def _next_point(self, number: int) -> Point:
        """Return the first point that no other trial has, and that agrees with what this one has already."""
        own = next((trial.params for trial in self.trials() if trial.number == number), {})
        tried = [trial.params for trial in self.trials() if trial.number != number]
        points = spread(self._points) if self.is_spread else self._points
        return next(point for point in points if point not in tried and own.items() <= point.items())

    def _asked(self, trial: optuna.trial.Trial) -> Asked:
        self._open[trial.number] = trial
        return Asked(self.method, trial.number, self.space.fill(trial.params))

    def _trial(self, number: int) -> FrozenTrial:
        return self.trials()[number]

    def _note(self, number: int, name: str, value: object) -> None:
        self._open[number].set_user_attr(name, value)
        self._known = None

    def _tell(self, number: int, values: list[float] | None = None, state: TrialState | None = None) -> None:
        self.optuna.tell(self._open[number], values, state)
        del self._open[number]
        self._known = None


def planned(size: int, config: StudyConfig, most: int | None) -> int:
    """Return how many configurations of a small space are tried: at most those asked for, but a grid in full."""
    return size if most is None or config.sampler == "grid" else min(size, most)


def spread(points: Sequence[Point]) -> list[Point]:
    """Return points in an order whose beginnings, however long, are spread over all of them.

    The largest ensembles still come first, because smaller ones can take their members from them.

    Example:
        >>> [point["place"] for point in spread([{"place": place} for place in range(6)])]
        [1, 5, 3, 0, 4, 2]
    """
    steps = ((step + 0.5) * GOLDEN % 1 for step in range(3 * len(points)))  # these leave no gap of a point's width
    found = [points[place] for place in dict.fromkeys(int(share * len(points)) for share in steps)]
    return sorted(found, key=lambda point: -number(point.get(MEMBERS, 0)))


def _suggest(trial: optuna.trial.Trial, name: str, distribution: BaseDistribution) -> None:
    """Give a trial its stored value of a parameter, or let its sampler choose one."""
    if isinstance(distribution, IntDistribution):
        trial.suggest_int(name, distribution.low, distribution.high)
    elif isinstance(distribution, FloatDistribution):
        trial.suggest_float(name, distribution.low, distribution.high, log=distribution.log)
    else:
        assert isinstance(distribution, CategoricalDistribution), f"holes have three kinds, got {distribution}"
        trial.suggest_categorical(name, distribution.choices)


@contextmanager
def reaching_storage() -> Iterator[None]:
    """Turn errors of the database into one sentence; recorded results are safe in it."""
    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise SaeError(
            f"the database of the study cannot be reached ({reason}): when it is back, "
            f"the same command continues the search"
        ) from None


def check_storage(storage: str) -> None:
    """Refuse a database that cannot be reached, before a study folder is made or cleared."""
    backend = _open_database(storage)
    backend.remove_session()
    backend.engine.dispose()


def open_studies(
    storage: str, config: StudyConfig, spaces: Sequence[Space], objectives: Sequence[Objective]
) -> list[MethodStudy]:
    """Create the Optuna study of each method, or open that of an earlier session.

    Args:
        storage: URL of a database.
        config: The settings of the study.
        spaces: The space of each method.
        objectives: The objectives.
    """
    backend = _open_database(storage)
    names = [objective.name for objective in objectives]
    ways = StudyDirection.MINIMIZE, StudyDirection.MAXIMIZE
    directions = [ways[objective.quantity.maximise] for objective in objectives]
    studies = []
    for space in spaces:
        study = optuna.create_study(
            storage=backend, study_name=f"{space.method} {config.id}", directions=directions, load_if_exists=True
        )
        if study.metric_names != names:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                study.set_metric_names(names)
        studies.append(MethodStudy(space, config, study))
    return studies


def close_storage(studies: Sequence[MethodStudy]) -> None:
    """Close the connections to a database; a process that runs many searches would run out of them."""
    for study in studies:
        storage = study.optuna._storage
        storage.remove_session()
        engine = getattr(getattr(storage, "_backend", storage), "engine", None)
        if engine is not None:
            engine.dispose()


def _open_database(storage: str) -> optuna.storages.RDBStorage:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        return optuna.storages.RDBStorage(storage)
    except (SQLAlchemyError, StorageInternalError, ImportError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"--storage must be the URL of a database that can be reached, e.g. sqlite:///study.db: {reason}"
        ) from None
