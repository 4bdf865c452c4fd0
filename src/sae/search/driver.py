"""The driver of a search: one process that asks for trials, has them trained, and records their results.

Everything it knows is written to the database and the run folders before it acts on it. It can be
killed at any moment and started again with the same command.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from optuna.trial import TrialState

from sae.config.methods import METHODS
from sae.config.study import DEFAULT_TRIALS
from sae.core.errors import ConfigError, SaeError
from sae.core.task import DataSpec
from sae.data.catalogue import CATALOGUE
from sae.records.run import RunRecord
from sae.records.study import Clock, StudyRecord
from sae.search.dispatch import POLL, Dispatcher, gives_members
from sae.search.executors import Executor
from sae.search.job import Job, Outcome
from sae.search.method_study import Asked, MethodStudy
from sae.search.screening import broken_limit, check_hope, is_hopeless, passes, screened

ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
CLOCK_SECONDS = 20.0
"""Seconds between writes of the time spent; a killed session loses at most this much."""
STAND_IN = "shipped_flops"
"""The cost that replaces latency at a rung: latency can only be measured once a network is finished."""


@dataclass(frozen=True)
class Budget:
    """The limits of a search.

    Attributes:
        trials: Sampled trials per method, or None.
        hours: Hours over all sessions after which no trial is started, or None; methods have equal shares.
        most: Trials per method that were asked for, which also limit a small space; or None.
    """

    trials: int | None
    hours: float | None
    most: int | None = None

    def of(self, study: MethodStudy) -> int | None:
        """Return the planned number of trials of a method."""
        return study.budget(self.trials, self.most)

    def may_cut(self, study: MethodStudy) -> bool:
        """Return whether a small space may not be tried in full, so that its first trials must be spread over it."""
        return self.hours is not None or self.of(study) != study.budget(self.trials)


class Driver:
    """One session of a search.

    Attributes:
        studies: The study of each method, by its name.
        dispatcher: Jobs that run or wait.
        is_stopping: Set it to start no more trials.
    """

    def __init__(
        self, record: StudyRecord, studies: Sequence[MethodStudy], spec: DataSpec, executor: Executor, budget: Budget
    ) -> None:
        self.record, self.spec, self.budget = record, spec, budget
        self.config, self.objectives, self.limits = record.config, record.objectives, record.limits
        self.studies = {study.method: study for study in studies}
        for study in studies:
            study.is_spread = budget.may_cut(study)
        self.dispatcher = Dispatcher(executor)
        self.is_stopping = False
        self._asked: dict[str, Asked] = {}  # by the name of the job
        clock = record.read_clock()
        self._began, self._spent, self._kept = time.monotonic(), clock.seconds, clock.seconds
        self._bound: dict[str, Path] = {}  # by data settings, a run that recorded its data
        self._worked = {method: clock.by_method.get(method, 0.0) for method in self.studies}  # seconds of workers

    @property
    def seconds(self) -> float:
        """Seconds spent on the study over all sessions."""
        return self._spent + time.monotonic() - self._began

    def run(self, on_change: Callable[[], None] = lambda: None) -> None:
        """Run trials until the budget is spent or the user stops it; running trials finish first."""
        check_hope(list(self.studies.values()), self.limits, self.spec)
        self._resume()
        while True:
            if self.is_stopping:
                self.dispatcher.waiting.clear()
            self._fill()
            on_change()
            if self.dispatcher.is_idle:
                break
            for job, outcome in self._wait():
                self._settle(job, outcome)
            if self.seconds - self._kept > CLOCK_SECONDS:
                self._keep_time()
        self._keep_time()

    def _wait(self) -> list[tuple[Job, Outcome]]:
        """Wait for jobs to end; charge the time to the methods that are in training."""
        methods = [self._asked[job.name].method for job in self.dispatcher.executor.running]
        start = time.monotonic()
        ended = self.dispatcher.wait(POLL)
        for method in methods:
            self._worked[method] += time.monotonic() - start
        return ended

    def _resume(self) -> None:
        """Continue the trials that an earlier session left; collect all before starting, because some wait for others.

        A finished trial whose folder has been deleted is trained again, with the same results.
        """
        jobs = []
        for study in self.studies.values():
            for trial in study.complete()[:1]:
                self._note_data(Asked(study.method, trial.number, study.config_of(trial)))
        for study in self.studies.values():
            for asked in study.unfinished():
                if study.is_stopped(asked.number):
                    self._stop(study, asked)
                else:
                    jobs.append(self._prepare(asked))
            finished = (Asked(study.method, trial.number, study.config_of(trial)) for trial in study.complete())
            jobs += [self._prepare(asked) for asked in finished if not self._trial(asked).has_finished()]
        self.dispatcher.add(*jobs)

    def num_ended(self) -> int:
        """Count the trials that ended in any session, without refused ones."""
        return sum(study.count(state) for study in self.studies.values() for state in ENDED)

    def num_planned(self) -> int | None:
        """Return the planned number of trials; None if only time limits them."""
        budgets = [self.budget.of(study) for study in self.studies.values()]
        return None if any(budget is None for budget in budgets) else sum(budget or 0 for budget in budgets)

    def is_over(self) -> bool:
        """Return whether the time is up or the user stopped the search."""
        return self.is_stopping or (self.budget.hours is not None and self.seconds >= self.budget.hours * 3600)

    def _fill(self) -> None:
        """Start as many trials as there is room for."""
        while not self.is_stopping and self.dispatcher.has_room:
            study = self._next_study()
            if study is None:
                return
            asked = study.ask()
            must_keep = asked.method in screened(self.studies)
            broken = broken_limit(self.limits, asked.config, self.spec) if must_keep else None
            if broken is None:
                self._start(asked)
            else:
                study.refuse(asked, broken)
                check_hope(list(self.studies.values()), self.limits, self.spec)

    def _next_study(self) -> MethodStudy | None:
        """Return the method to ask for the next trial, or None if none has one left within the budget."""
        studies = [study for study in self.studies.values() if self._has_more(study)]
        return self._next_by_trials(studies) if self.budget.hours is None else self._next_by_time(studies)

    def _has_more(self, study: MethodStudy) -> bool:
        return self._has_room(study, study.num_asked()) and not (self.limits and is_hopeless(study))

    def _has_room(self, study: MethodStudy, asked: int) -> bool:
        budget = self.budget.of(study)
        return budget is None or asked < budget

    def _next_by_trials(self, studies: Sequence[MethodStudy]) -> MethodStudy | None:
        """Return the method with the smallest share of its trials done; those that copy members wait for the source."""
        methods = {study.method for study in studies}
        ready = [study for study in studies if _members_from(study.method) not in methods - {study.method}]
        return min(ready, key=self._share_of_trials, default=None)

    def _share_of_trials(self, study: MethodStudy) -> float:
        return study.num_asked() / (self.budget.of(study) or DEFAULT_TRIALS)

    def _next_by_time(self, studies: Sequence[MethodStudy]) -> MethodStudy | None:
        """Return the next method in turn; one that has nothing left to try leaves its share to the others.

        First, every method gets one trial in the order they were given, even if the time is up by then.
        """
        new = [study for study in studies if not study.num_asked()]
        if new or self.is_over():
            is_begun = any(study.num_asked() for study in self.studies.values())
            return next(iter(new), None) if is_begun or not self.is_over() else None
        asked = {study.method: study.num_asked() for study in studies}
        return self.studies[self._in_turn(asked, self._worked)] if asked else None

    def _in_turn(self, asked: Mapping[str, int], worked: Mapping[str, float]) -> str:
        """Return the method with the fewest trials, or with the least time where time alone limits the search.

        With a number of trials the plan is so many of each method, and the time only cuts it: equally for all.
        """
        return min(asked, key=worked.__getitem__ if self.budget.trials is None else asked.__getitem__)

    def forecast(self) -> dict[str, int] | None:
        """Return how many trials of each method fit into the time; None before each of them has been timed."""
        studies = [study for study in self.studies.values() if study.num_asked() or self._has_more(study)]
        ended = {study.method: sum(map(study.count, ENDED)) for study in studies}
        asked, worked = {study.method: study.num_asked() for study in studies}, dict(self._worked)
        if self.budget.hours is None or not all(ended.values()) or not all(worked[name] for name in asked):
            return None
        takes = {name: worked[name] / (asked[name] + ended[name]) * 2 for name in asked}  # running ones are half done
        left = (self.budget.hours * 3600 - self.seconds) * self.dispatcher.executor.capacity
        while left > 0 and (more := {name: n for name, n in asked.items() if self._has_room(self.studies[name], n)}):
            name = self._in_turn(more, worked)
            asked[name], worked[name], left = asked[name] + 1, worked[name] + takes[name], left - takes[name]
        return asked

    def _start(self, asked: Asked) -> None:
        self.dispatcher.add(self._prepare(asked))

    def _prepare(self, asked: Asked) -> Job:
        job = self._job(asked)
        self._asked[job.name] = asked
        return job

    def _job(self, asked: Asked) -> Job:
        study, trial = self.studies[asked.method], self._trial(asked)
        needed = [*self.objectives, *(limit.objective for limit in self.limits)]
        return Job(
            name=trial.label,
            config=asked.config,
            folder=trial.path,
            until=next((epoch for epoch in self._rungs(study) if not study.rung(asked.number, epoch)), None),
            source=self._source(asked),
            shift=self.config.shift and self.config.shift_trials,
            val_sets=self.config.val_sets,
            latency=any(objective.is_measured for objective in needed),
            same_data_as=self._bound.get(asked.config.data.model_dump_json()),
        )

    def _note_data(self, asked: Asked) -> None:
        """Remember a run that recorded its data, so that later trials are refused if the data have changed."""
        run = self._trial(asked)
        if asked.config.data.name not in CATALOGUE and run.has(run.DATA):
            self._bound.setdefault(asked.config.data.model_dump_json(), run.path.resolve())

    def _trial(self, asked: Asked) -> RunRecord:
        return self.record.trial(asked.method, asked.number, asked.config)

    def _rungs(self, study: MethodStudy) -> tuple[int, ...]:
        return () if study.is_enumerated else self.config.rungs

    def _source(self, asked: Asked) -> Path | None:
        """Return the run folder of a larger ensemble of the same networks that has not failed, or None."""
        giver = asked.config.method.members_from
        ensembles = self.studies.get(giver) if giver is not None else None
        if ensembles is None:
            return None
        for trial in ensembles.trials():
            if trial.state == TrialState.FAIL or len(trial.params) < len(ensembles.space.holes):
                continue
            config = ensembles.config_of(trial)
            if gives_members(config, asked.config):
                return self.record.trial(ensembles.method, trial.number, config).path
        return None

    def _settle(self, job: Job, outcome: Outcome) -> None:
        """Record the outcome of a job; a trial that passes a rung continues."""
        asked = self._asked.pop(job.name)
        self._note_data(asked)
        study = self.studies[asked.method]
        if outcome.state == "blocked":
            raise SaeError(f"{outcome.error}; the same command continues the search")
        if not study.is_open(asked.number):
            return  # recorded in an earlier session; only its folder was missing
        if outcome.state == "failed":
            study.tell_failed(asked.number, outcome.error)
        elif outcome.state == "paused":
            self._judge(study, asked, job)
        else:
            self._tell_values(study, asked)
        self._keep_time()

    def _tell_values(self, study: MethodStudy, asked: Asked) -> None:
        """Record the validation results at the trained K; the sampler does not see other K′."""
        trial = self._trial(asked)
        evaluation = trial.read_evaluation()
        found = evaluation.objective_values(evaluation.exits)
        values = [self._defined(found, objective.name) for objective in self.objectives]
        violations = {str(limit): limit.violation(self._defined(found, limit.objective.name)) for limit in self.limits}
        study.tell_finished(asked.number, values, violations, str(trial.path.relative_to(self.record.path)))

    @staticmethod
    def _defined(values: Mapping[str, float], name: str) -> float:
        """Return a value by its name; refuse a metric that the validation samples do not define."""
        if name not in values:
            raise ConfigError(f"{name} is not defined for these validation samples: search by other objectives")
        return values[name]

    def _judge(self, study: MethodStudy, asked: Asked, job: Job) -> None:
        """Continue a trial that paused at a rung, or stop it."""
        assert job.until is not None, "only a job with a rung pauses"
        reading = job.run.read_interim().val.chosen
        values = {**reading.costs, **reading.metrics}
        keys = [STAND_IN if objective.is_measured else objective.key for objective in self.objectives]
        found = [self._defined(values, key) for key in keys]
        losses = [objective.scaled_loss(value) for objective, value in zip(self.objectives, found, strict=True)]
        continues = passes(np.array([*study.losses_at(job.until), losses]), self.config.reduction)
        study.note_rung(asked.number, job.until, losses, continues)
        if continues:
            self._start(asked)
        else:
            self._stop(study, asked)

    def _stop(self, study: MethodStudy, asked: Asked) -> None:
        """Stop a trial that did not pass a rung."""
        run = self._trial(asked)
        if run.read_status() is None:
            interim = run.read_interim()
            reason = f"stopped early after {interim.epoch} epochs"
            run.end("stopped", error=reason, epochs=interim.epoch, seconds=interim.seconds)
        run.tidy()
        study.tell_stopped(asked.number)

    def _keep_time(self) -> None:
        self._kept = self.seconds
        by_method = {method: round(seconds, 3) for method, seconds in self._worked.items()}
        self.record.write_clock(Clock(seconds=round(self.seconds, 3), by_method=by_method))


def _members_from(method: str) -> str | None:
    """Return the method whose runs this one takes members from, if there is one."""
    return METHODS.get(method).settings.members_from
