"""Confirmation: the best configurations of a study, trained again on seeds that did not choose them."""

from collections.abc import Callable, Sequence

from sae.analysis.candidates import Candidate, candidates, front, fronts_by_kind, losses_of
from sae.analysis.pareto import spread_order
from sae.analysis.results import summarise
from sae.config.methods import rivals
from sae.config.study import ConfirmConfig
from sae.core.errors import SaeError
from sae.core.objectives import Objective
from sae.records.run import RunRecord, read_run
from sae.records.study import Confirmed, StudyRecord
from sae.search.dispatch import POLL, Dispatcher, with_sources
from sae.search.executors import Executor
from sae.search.job import Job, Outcome


class Confirmation:
    """One session of confirming.

    Attributes:
        chosen: The candidates to confirm.
        jobs: All trainings: one for each configuration and seed.
        ended: The jobs that ended in this session, with their outcomes.
        is_stopping: Set it to start no more trainings.
    """

    def __init__(self, record: StudyRecord, executor: Executor, confirm: ConfirmConfig) -> None:
        self.record, self.dispatcher = record, Dispatcher(executor)
        self.chosen = choose(record, confirm.most, confirm.each)
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
            front=tuple(summarise(item, runs[item.label]) for item in self.chosen),
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


def choose(record: StudyRecord, most: int | None, each: int = 0) -> list[Candidate]:
    """Choose candidates from the front of a study, then from the front of each class of methods, as in the paper.

    Limits bind the pick, not the rivals that it is compared with.

    Args:
        record: The study.
        most: At most this many of the front: the one nearest to the ideal, then those farthest from the chosen ones.
        each: This many of each class's own front: its best in the first objective, then spread in the same way.
    """
    found, objectives, limits = candidates(record.read_runs()), record.objectives, record.limits
    chosen = _spread(front(found, objectives, limits), objectives)[:most]
    if not chosen:
        return []
    compared = [item for item in found if item.method in rivals()]
    fronts = fronts_by_kind(found, objectives, limits) | fronts_by_kind(compared, objectives)
    for own in fronts.values():
        best = min(own, key=lambda item: item.losses(objectives))
        order = [best, *(item for item in _spread(own, objectives) if item is not best)]
        chosen += [item for item in order[:each] if not any(item is other for other in chosen)]
    return chosen


def _spread(best: Sequence[Candidate], objectives: Sequence[Objective]) -> list[Candidate]:
    return [best[index] for index in spread_order(losses_of(best, objectives))]
