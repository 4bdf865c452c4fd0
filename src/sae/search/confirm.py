"""Confirmation: the best configurations of a study, trained again on seeds that did not choose them."""

import itertools
from collections.abc import Callable, Iterable, Sequence

from sae.analysis.candidates import Candidate, candidates, front, fronts_by_kind, losses_of
from sae.analysis.pareto import knee, spread_order
from sae.analysis.results import summarise
from sae.config.methods import rivals
from sae.config.study import ConfirmConfig
from sae.core.errors import SaeError
from sae.core.objectives import Objective, all_under_shift
from sae.records.run import Run, RunRecord, read_run
from sae.records.study import Confirmed, StudyRecord
from sae.search.dispatch import POLL, Dispatcher, with_sources
from sae.search.executors import Executor
from sae.search.job import Job, Outcome


class Confirmation:
    """One session of confirming.

    Attributes:
        front: The candidates that clean validation data chose.
        shifted: Those that corrupted validation images chose; None for a study that was not evaluated on them, and
            where none of their front is to be trained again.
        chosen: The candidates of both, each once.
        jobs: All trainings: one for each configuration and seed.
        ended: The jobs that ended in this session, with their outcomes.
        is_stopping: Set it to start no more trainings.
    """

    def __init__(self, record: StudyRecord, executor: Executor, confirm: ConfirmConfig) -> None:
        self.record, self.dispatcher = record, Dispatcher(executor)
        runs, other = record.read_runs(), confirm.under_shift
        self.front = choose(record, confirm.most, confirm.each, total=confirm.total, runs=runs)
        self.shifted = (
            choose(record, other.most, other.each, total=other.total, runs=runs, shift=True)
            if record.config.shift_sets is not None and other.most != 0
            else None
        )
        self.chosen = _each_once([*self.front, *(self.shifted or ())])
        self.seeds = [record.config.seed + number for number in range(1, confirm.seeds + 1)]
        self.jobs = with_sources(self._job(item, seed) for item in self._configurations() for seed in self.seeds)
        self.ended: list[tuple[Job, Outcome]] = []
        self.is_stopping = False

    def run(self, on_change: Callable[[], None] = lambda: None) -> None:
        """Train what is not trained yet, then write the summary into the study folder."""
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
            self._write_summary()

    def _write_summary(self) -> None:
        runs = {
            item.label: [read_run(self._record(item, seed), with_shift=True) for seed in self.seeds]
            for item in self._configurations()
        }
        confirmed = Confirmed(
            objectives=self.record.config.objectives,
            seeds=tuple(self.seeds),
            front=tuple(summarise(item, runs[item.label]) for item in self.front),
            shifted=None if self.shifted is None else tuple(summarise(item, runs[item.label]) for item in self.shifted),
        )
        self.record.write_json(self.record.CONFIRMED, confirmed.model_dump(mode="json"))

    def _configurations(self) -> list[Candidate]:
        """Return one candidate for each trial: a network is trained once and evaluated at every K′."""
        return list({item.label: item for item in self.chosen}.values())

    def _record(self, item: Candidate, seed: int) -> RunRecord:
        return self.record.confirmed_run(item.run.record.path, seed)

    def _job(self, item: Candidate, seed: int) -> Job:
        config = item.config.model_copy(update={"seed": seed})
        latency = any(objective.is_measured for objective in self.record.objectives)
        folder, shift = self._record(item, seed).path, self.record.config.shift
        return Job(f"{item.label} seed {seed}", config, folder, shift=shift, latency=latency)


def choose(
    record: StudyRecord,
    most: int | None,
    each: int = 0,
    *,
    total: int | None = None,
    shift: bool = False,
    runs: Sequence[Run] | None = None,
) -> list[Candidate]:
    """Choose candidates from the front of a study, then from the front of each class of methods, as in the paper.

    Limits bind the pick, not the rivals that it is compared with.

    Args:
        record: The study.
        most: At most this many of the front: the pick, then those that cover the front evenly.
        each: This many of each class's own front: its best in the first objective, then spread in the same way.
        total: At most this many in all: first the pick, then `each` of every class, then more of the front, then
            more of the classes, which take turns.
        shift: Whether corrupted validation images choose.
        runs: The study's trials, if they were read already.
    """
    found, limits = candidates(record.read_runs() if runs is None else runs), record.limits
    objectives = all_under_shift(record.objectives) if shift else record.objectives
    best = front(found, objectives, limits)
    if not best:
        return []
    picked = best[knee(losses_of(best, objectives))]
    chosen = [picked, *(item for item in _spread(best, objectives) if item is not picked)][:most]
    compared = [item for item in found if item.method in rivals()]
    fronts = fronts_by_kind(found, objectives, limits) | fronts_by_kind(compared, objectives)
    classes = [_best_first(own, objectives) for own in fronts.values()]
    if total is None:
        return _each_once([*chosen, *(item for own in classes for item in own[:each])])
    turns = [item for turn in itertools.zip_longest(*classes) for item in turn if item is not None]
    first = [item for own in classes for item in own[:each]]
    return _each_once([*chosen[:1], *first, *chosen, *turns])[:total]


def _best_first(own: Sequence[Candidate], objectives: Sequence[Objective]) -> list[Candidate]:
    """Order the front of a class: its best in the first objective, then spread over the front."""
    best = min(own, key=lambda item: item.losses(objectives))
    return [best, *(item for item in _spread(own, objectives) if item is not best)]


def _each_once(found: Iterable[Candidate]) -> list[Candidate]:
    return list({_network(item): item for item in found}.values())


def _network(item: Candidate) -> tuple[str, int]:
    """Return what identifies a candidate of a study."""
    return item.label, item.eval_exits


def _spread(best: Sequence[Candidate], objectives: Sequence[Objective]) -> list[Candidate]:
    return [best[index] for index in spread_order(losses_of(best, objectives))]
