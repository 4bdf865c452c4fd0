"""The order in which jobs are handed over; what becomes of lost ones is tested with real workers elsewhere."""

from pathlib import Path

from sae.search.dispatch import Dispatcher
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

    def end(self, job: Job) -> None:
        self.running.remove(job)
        self.ended.append((job, Outcome("finished")))

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
