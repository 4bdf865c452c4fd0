"""The driver of a search: one process that asks for trials, has them trained, and records their results.

All it knows is written to the database and the run folders before it acts on it. It can be
killed at any moment and started again with the same command.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from optuna.trial import TrialState

from sae.config.methods import METHODS
from sae.config.study import DEFAULT_TRIALS
from sae.core.errors import SaeError
from sae.core.task import DataSpec
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.search.dispatch import POLL, Dispatcher, gives_members
from sae.search.executors import Executor
from sae.search.job import Job, Outcome
from sae.search.method_study import Asked, MethodStudy
from sae.search.screening import broken_limit, check_hope, is_hopeless, passes, screened

ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
CLOCK_SECONDS = 20.0
"""Seconds between writes of the time spent; a killed session loses at most this much."""
STAND_IN = "shipped_flops"
"""Judged at a rung in place of latency, which can only be measured once a network is finished."""


@dataclass(frozen=True)
class Budget:
    """The limits of a search.

    Attributes:
        trials: Sampled trials per method, or None.
        hours: Hours over all sessions after which no trial is started, or None.
    """

    trials: int | None
    hours: float | None


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
        self.dispatcher = Dispatcher(executor)
        self.is_stopping = False
        self._asked: dict[str, Asked] = {}  # by the name of the job
        self._began, self._spent = time.monotonic(), record.read_seconds()
        self._kept = self._spent

    @property
    def seconds(self) -> float:
        """Seconds spent on the study over all sessions."""
        return self._spent + time.monotonic() - self._began

    def run(self, on_change: Callable[[], None] = lambda: None) -> None:
        """Run trials until the budget is spent or someone stops it; running trials finish first."""
        check_hope(list(self.studies.values()), self.limits, self.spec)
        self._resume()
        while True:
            if self.is_stopping:
                self.dispatcher.waiting.clear()
            self._fill()
            on_change()
            if self.dispatcher.is_idle:
                break
            for job, outcome in self.dispatcher.wait(POLL):
                self._settle(job, outcome)
            if self.seconds - self._kept > CLOCK_SECONDS:
                self._keep_time()
        self._keep_time()

    def _resume(self) -> None:
        """Continue the trials that an earlier session left; collect all before any starts, as some wait for others.

        A finished trial whose folder was deleted since is trained again, with the same results.
        """
        jobs = []
        for study in self.studies.values():
            for asked in study.unfinished():
                if study.is_stopped(asked.number):
                    self._stop(study, asked)
                else:
                    jobs.append(self._prepare(asked))
            told = (Asked(study.method, trial.number, study.config_of(trial)) for trial in study.complete())
            jobs += [self._prepare(asked) for asked in told if not self._trial(asked).has_finished()]
        self.dispatcher.add(*jobs)

    def num_ended(self) -> int:
        """Count the trials that ended in any session, without refused ones."""
        return sum(study.count(state) for study in self.studies.values() for state in ENDED)

    def num_planned(self) -> int | None:
        """Return the planned number of trials; None if only time limits them."""
        budgets = [study.budget(self.budget.trials) for study in self.studies.values()]
        return None if any(budget is None for budget in budgets) else sum(budget or 0 for budget in budgets)

    def is_over(self) -> bool:
        """Return whether the time is up or someone stopped the search."""
        return self.is_stopping or (self.budget.hours is not None and self.seconds >= self.budget.hours * 3600)

    def _fill(self) -> None:
        """Start as many trials as there is room for."""
        while not self.is_over() and self.dispatcher.has_room:
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
        """Return the method with the smallest share of its trials; those that take members wait for the givers."""
        shares = []
        for study in self.studies.values():
            budget, asked = study.budget(self.budget.trials), study.num_asked()
            if (budget is None or asked < budget) and not (self.limits and is_hopeless(study)):
                shares.append((asked / (budget or DEFAULT_TRIALS), study))
        methods = {study.method for _, study in shares}
        ready = [pair for pair in shares if _giver(pair[1].method) not in methods - {pair[1].method}]
        return min(ready, key=lambda pair: pair[0])[1] if ready else None

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
            shift=self.config.shift,
            shift_objective=any(objective.is_shifted for objective in needed),
            latency=any(objective.is_measured for objective in needed),
        )

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
        """Record the outcome of a job; a trial that passes a rung goes on."""
        asked = self._asked.pop(job.name)
        study = self.studies[asked.method]
        if outcome.state == "blocked":
            raise SaeError(f"{outcome.error}; the same command continues the search")
        if not study.is_open(asked.number):
            return  # it was told in an earlier session, and only its folder was missing
        if outcome.state == "failed":
            study.tell_failed(asked.number, outcome.error)
        elif outcome.state == "paused":
            self._judge(study, asked, job)
        else:
            self._tell_values(study, asked)
        self._keep_time()

    def _tell_values(self, study: MethodStudy, asked: Asked) -> None:
        """Record the validation results at the trained K; other K′ are for the front, not for the sampler."""
        trial = self._trial(asked)
        evaluation = trial.read_evaluation()
        found = evaluation.objective_values(evaluation.exits)
        values = [found[objective.name] for objective in self.objectives]
        violations = {str(limit): limit.violation(found[limit.objective.name]) for limit in self.limits}
        study.tell_finished(asked.number, values, violations, str(trial.path.relative_to(self.record.path)))

    def _judge(self, study: MethodStudy, asked: Asked, job: Job) -> None:
        """Continue a trial that paused at a rung, or stop it."""
        assert job.until is not None, "only a job with a rung pauses"
        reading = job.run.read_interim().val.chosen
        values = {**reading.costs, **reading.metrics}
        keys = [STAND_IN if objective.is_measured else objective.key for objective in self.objectives]
        losses = [objective.scaled_loss(values[key]) for objective, key in zip(self.objectives, keys, strict=True)]
        goes_on = passes(np.array([*study.losses_at(job.until), losses]), self.config.reduction)
        study.note_rung(asked.number, job.until, losses, goes_on)
        if goes_on:
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
        self.record.write_json(self.record.CLOCK, {"seconds": round(self.seconds, 3)})


def _giver(method: str) -> str | None:
    """Return the method whose runs this one takes members from, if there is one."""
    return METHODS.get(method).settings.members_from
