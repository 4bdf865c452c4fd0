"""The order of jobs and the sharing of members; lost jobs are tested with real workers in executors/test_local."""

from pathlib import Path
from typing import Any, Literal

import pytest

from sae.config.run import RunConfig
from sae.records.run import RunRecord
from sae.search.dispatch import MOST_LOSSES, Dispatcher, gives_members, with_sources
from sae.search.job import Job, Outcome
from tests.builders import run_config

CONFIG = run_config()


class Recorder:
    """Ends jobs when told to."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.running: list[Job] = []
        self.ended: list[tuple[Job, Outcome]] = []

    def submit(self, job: Job) -> None:
        assert len(self.running) < self.capacity
        self.running.append(job)

    def end(self, job: Job, state: Literal["finished", "lost"] = "finished") -> None:
        self.running.remove(job)
        self.ended.append((job, Outcome(state)))

    def wait(self, timeout: float) -> list[tuple[Job, Outcome]]:
        del timeout
        ended, self.ended = self.ended, []
        return ended

    def close(self) -> None: ...


def job(name: str, source: str | None = None) -> Job:
    return Job(name, CONFIG, Path(name), source=Path(source) if source else None)


def test_jobs_wait_for_room() -> None:
    executor = Recorder(2)
    dispatcher = Dispatcher(executor)
    jobs = [job(name) for name in "abc"]
    dispatcher.add(*jobs)
    assert executor.running == jobs[:2]
    assert not dispatcher.has_room
    executor.end(jobs[0])
    assert dispatcher.wait(0) == [(jobs[0], Outcome("finished"))]
    assert executor.running == jobs[1:]
    assert not dispatcher.is_idle


def test_a_job_waits_for_its_source_and_others_overtake_it() -> None:
    executor = Recorder(2)
    dispatcher = Dispatcher(executor)
    source, derived, other = job("source"), job("derived", "source"), job("other")
    dispatcher.add(source, derived)
    assert executor.running == [source]
    assert dispatcher.has_room
    dispatcher.add(other)
    assert executor.running == [source, other]
    executor.end(source)
    dispatcher.wait(0)
    assert executor.running == [other, derived]


def test_a_job_waits_for_a_source_that_is_given_after_it() -> None:
    executor = Recorder(2)
    derived, source = job("derived", "source"), job("source")
    Dispatcher(executor).add(derived, source)
    assert executor.running == [source]


def test_a_source_that_is_not_under_way_is_not_waited_for() -> None:
    executor = Recorder(1)
    Dispatcher(executor).add(job("derived", "source"))
    assert len(executor.running) == 1


def test_a_job_is_not_given_up_while_another_worker_is_in_its_folder(tmp_path: Path) -> None:
    executor = Recorder(1)
    dispatcher = Dispatcher(executor)
    unseen = Job("unseen", CONFIG, tmp_path / "run")
    record = RunRecord.create(unseen.folder, CONFIG)
    dispatcher.add(unseen)
    with record.lock():
        for _ in range(MOST_LOSSES + 2):
            executor.end(unseen, "lost")
            assert dispatcher.wait(0) == []
    assert record.read_status() is None
    for _ in range(MOST_LOSSES - 1):
        executor.end(unseen, "lost")
        assert dispatcher.wait(0) == []
    executor.end(unseen, "lost")
    [(_, outcome)] = dispatcher.wait(0)
    assert outcome.state == "failed"


def config(method: str, members: int | None = None, **settings: Any) -> RunConfig:
    return run_config(method={"name": method, **({"members": members} if members else {})}, **settings)


@pytest.mark.parametrize(
    ("source", "taker", "gives"),
    [
        (config("ensemble", 3), config("ensemble", 2), True),
        (config("ensemble", 3), config("standard"), True),
        (config("ensemble", 1), config("standard"), True),
        (config("ensemble", 2), config("ensemble", 2), False),
        (config("ensemble", 2), config("ensemble", 3), False),
        (config("standard"), config("ensemble", 1), False),
        (config("standard"), config("standard"), False),
        (config("ensemble", 3), config("ensemble", 2, seed=1), False),
        (config("ensemble", 3), config("batch_ensemble", 2), False),
        (config("batch_ensemble", 3), config("standard"), False),
    ],
)
def test_members_come_from_larger_ensembles_of_the_same_networks(
    source: RunConfig, taker: RunConfig, gives: bool
) -> None:
    assert gives_members(source, taker) == gives


def test_the_largest_ensemble_comes_first_and_gives_its_members_to_all() -> None:
    methods = [config("standard"), config("ensemble", 1), config("ensemble", 4), config("sae"), config("ensemble", 2)]
    jobs = with_sources(Job(str(number), method, Path(str(number))) for number, method in enumerate(methods))
    assert [job.name for job in jobs] == ["2", "4", "1", "3", "0"]
    assert {job.name: job.source for job in jobs} == {
        **dict.fromkeys(["0", "1", "4"], Path("2")),
        **dict.fromkeys(["2", "3"]),
    }
