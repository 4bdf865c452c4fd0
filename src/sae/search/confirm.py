"""Confirmation: the best configurations of a study, trained again on seeds that did not choose them."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sae.analysis.candidates import Candidate, candidates, front, fronts_by_kind, losses_of
from sae.analysis.pareto import knee, spread_order
from sae.analysis.results import summarise
from sae.analysis.selection import select
from sae.config.methods import rivals
from sae.config.run import TeacherConfig
from sae.config.study import ConfirmConfig
from sae.core.errors import ConfigError, SaeError
from sae.core.objectives import Objective, all_under_shift
from sae.data.catalogue import CATALOGUE
from sae.records.run import Run, RunRecord, read_run
from sae.records.study import Confirmed, StudyRecord
from sae.search.dispatch import POLL, Dispatcher, with_sources
from sae.search.executors import Executor
from sae.search.job import Job, Outcome


class Retraining(ABC):
    """One session of training chosen configurations again.

    Attributes:
        record: The study.
        chosen: The candidates.
        jobs: All trainings: one for each configuration and seed.
        ended: The jobs that ended in this session, with their outcomes.
        is_stopping: Set it to start no more trainings.
    """

    def __init__(self, record: StudyRecord, executor: Executor, chosen: list[Candidate], jobs: list[Job]) -> None:
        self.record, self.dispatcher, self.chosen, self.jobs = record, Dispatcher(executor), chosen, jobs
        self.ended: list[tuple[Job, Outcome]] = []
        self.is_stopping = False

    def run(self, on_change: Callable[[], None] = lambda: None) -> None:
        """Train the jobs that are not done yet, then write the summary into the study folder."""
        waiting = list(self.jobs)
        while True:
            while waiting and self.dispatcher.has_room and not self.is_stopping:
                self.dispatcher.add(waiting.pop(0))
            on_change()
            if self.dispatcher.is_idle:
                break
            for job, outcome in self.dispatcher.wait(POLL):
                if outcome.state == "blocked":
                    raise SaeError(f"{outcome.error}; the same command continues")
                self.ended.append((job, outcome))
        if not self.is_stopping:
            self.write_summary()

    @abstractmethod
    def write_summary(self) -> None:
        """Write the results into the study folder."""


class Confirmation(Retraining):
    """One session of confirming.

    Attributes:
        front: The candidates that clean validation data chose.
        shifted: The candidates that corrupted validation images chose; None for a study without them, and if none of
            their front is to be trained again.
        chosen: The candidates of both, each once, and the teacher if there is a distillation.
    """

    def __init__(self, record: StudyRecord, executor: Executor, confirm: ConfirmConfig) -> None:
        runs, other = record.read_runs(), confirm.under_shift
        self.front = choose(record, confirm.most, confirm.each, total=confirm.total, runs=runs)
        self.shifted = (
            choose(record, other.most, other.each, total=other.total, runs=runs, shift=True)
            if record.config.shift_sets is not None and other.most != 0
            else None
        )
        teachers = [find_lesson(record, runs).teacher] if confirm.distill else []
        chosen = _each_once([*self.front, *(self.shifted or ()), *teachers])
        self.seeds = seeds_of(record, confirm)
        jobs = with_sources(
            make_job(record, item, record.confirmed_run(item.run.record.path, seed), seed, confirm)
            for item in _networks(chosen)
            for seed in self.seeds
        )
        super().__init__(record, executor, chosen, jobs)

    def write_summary(self) -> None:
        """Write `confirmed.json`."""
        runs = {
            item.label: [
                read_run(self.record.confirmed_run(item.run.record.path, seed), with_shift=True) for seed in self.seeds
            ]
            for item in self.chosen
        }
        confirmed = Confirmed(
            objectives=self.record.config.objectives,
            seeds=tuple(self.seeds),
            front=tuple(summarise(item, runs[item.label]) for item in self.front),
            shifted=None if self.shifted is None else tuple(summarise(item, runs[item.label]) for item in self.shifted),
        )
        self.record.write_json(self.record.CONFIRMED, confirmed.model_dump(mode="json"))


class Distillation(Retraining):
    """One session of training with the best ensemble as teacher, after it was confirmed on the same seeds."""

    def __init__(self, record: StudyRecord, executor: Executor, confirm: ConfirmConfig) -> None:
        lesson, self.seeds = find_lesson(record, record.read_runs()), seeds_of(record, confirm)
        jobs = []
        for seed in self.seeds:
            teacher = TeacherConfig(run=str(record.confirmed_run(lesson.teacher.run.record.path, seed).path))
            for item in lesson.students:
                folder = record.distilled_run(item.run.record.path, seed)
                job = make_job(record, item, folder, seed, confirm)
                config = job.config.model_copy(update={"teacher": teacher})
                jobs.append(replace(job, name=f"{job.name} distilled", config=config))
        super().__init__(record, executor, lesson.students, jobs)

    def write_summary(self) -> None:
        """Add the results to `confirmed.json`."""
        confirmed = self.record.read_confirmed()
        assert confirmed is not None, "distillation comes after confirmation"
        items = []
        for item in self.chosen:
            runs = [
                read_run(self.record.distilled_run(item.run.record.path, seed), with_shift=True) for seed in self.seeds
            ]
            called = {"trial": f"{item.label} distilled", "settings": f"{item.config.summary} distilled"}
            items.append(summarise(item, runs).model_copy(update=called))
        found = confirmed.model_copy(update={"distilled": tuple(items)})
        self.record.write_json(self.record.CONFIRMED, found.model_dump(mode="json"))


@dataclass(frozen=True)
class Lesson:
    """A teacher and the networks that learn from it.

    Attributes:
        teacher: The best network of the rival that trains most networks: an ensemble.
        students: The pick, and the best of every other rival, to show the effect of a teacher on a plain network.
    """

    teacher: Candidate
    students: list[Candidate]


def find_lesson(record: StudyRecord, runs: Sequence[Run]) -> Lesson:
    """Choose the teacher and the students of a study on validation data.

    The teacher is confirmed with the others, so it is chosen by the trials alone; the students are chosen afterwards.
    """
    selection, (method, *others) = select(record, runs=runs), rivals()
    searched = select(record, runs=runs, everything=selection.everything, confirmed=())
    pick, leader = (found.pick().candidate for found in (selection, searched))
    teacher = leader if leader.method == method and leader.is_rival else searched.best_of(method, leader)
    if teacher is None:
        raise ConfigError(
            f"confirm.distill needs a finished trial of {method} to learn from, with several members: "
            f"search {method}, too"
        )
    found = [None if pick.network == teacher.network else pick, *(selection.best_of(other, pick) for other in others)]
    return Lesson(teacher, [item for item in found if item and _can_learn(item)])


def _can_learn(item: Candidate) -> bool:
    return "mean" in item.config.method.teacher_matches(item.config.backbone.depth)


def seeds_of(record: StudyRecord, confirm: ConfirmConfig) -> list[int]:
    """Return the seeds that configurations are trained again on."""
    return [record.config.seed + number for number in range(1, confirm.seeds + 1)]


def make_job(record: StudyRecord, item: Candidate, run: RunRecord, seed: int, confirm: ConfirmConfig) -> Job:
    """Return the training of a candidate on another seed."""
    return Job(
        f"{item.label} seed {seed}",
        item.config.model_copy(update={"seed": seed}),
        run.path,
        shift=record.config.shift,
        val_sets=record.config.val_sets,
        latency=any(objective.is_measured for objective in record.objectives),
        predictions=confirm.predictions,
        same_data_as=None if item.config.data.name in CATALOGUE else item.run.record.path.resolve(),
    )


def _networks(chosen: Sequence[Candidate]) -> list[Candidate]:
    """Return one candidate for each trial: a network is trained once and evaluated at every K′."""
    return list({item.label: item for item in chosen}.values())


def choose(
    record: StudyRecord,
    most: int | None,
    each: int = 0,
    *,
    total: int | None = None,
    shift: bool = False,
    runs: Sequence[Run] | None = None,
) -> list[Candidate]:
    """Choose candidates from the front of a study, then from the front of each kind, as in the paper.

    Limits apply to the pick, not to the rivals that it is compared with.

    Args:
        record: The study.
        most: At most this many of the front: the pick, then those that cover the front evenly.
        each: This many of each kind's own front: its best in the first objective, then spread in the same way.
        total: At most this many in all: first the pick, then `each` of every kind, then more of the front, then
            more of the kinds in turn.
        shift: Whether to choose by corrupted validation images.
        runs: The study's trials, if they were read already.
    """
    found, limits = candidates(record.read_runs() if runs is None else runs), record.limits
    objectives = all_under_shift(record.objectives) if shift else record.objectives
    best = front(found, objectives, limits)
    if not best:
        return []
    picked = best[knee(losses_of(best, objectives))]
    chosen = [picked, *(item for item in _spread(best, objectives) if item is not picked)][:most]
    compared = [item for item in found if item.is_rival]
    fronts = fronts_by_kind(found, objectives, limits) | fronts_by_kind(compared, objectives)
    by_kind = [_best_first(own, objectives) for own in fronts.values()]
    if total is None:
        return _each_once([*chosen, *(item for own in by_kind for item in own[:each])])
    turns = [item for turn in itertools.zip_longest(*by_kind) for item in turn if item is not None]
    first = [item for own in by_kind for item in own[:each]]
    return _each_once([*chosen[:1], *first, *chosen, *turns])[:total]


def _best_first(own: Sequence[Candidate], objectives: Sequence[Objective]) -> list[Candidate]:
    """Order the front of a kind: its best in the first objective, then spread over the front."""
    best = min(own, key=lambda item: item.losses(objectives))
    return [best, *(item for item in _spread(own, objectives) if item is not best)]


def _each_once(found: Iterable[Candidate]) -> list[Candidate]:
    return list({item.network: item for item in found}.values())


def _spread(best: Sequence[Candidate], objectives: Sequence[Objective]) -> list[Candidate]:
    return [best[index] for index in spread_order(losses_of(best, objectives))]
