"""Measuring time so that it can be compared."""

import time

import numpy as np
import pytest

from sae.core.errors import ModelError
from sae.deploy.latency import Effort, interleaved, random_samples

QUICK = Effort(repeats=5, sessions=2)


class Clock:
    """Stands for the module `time` where times must be exact: it stops until somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    thread_time = perf_counter

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("sae.deploy.latency.time", found)
    return found


def test_models_take_turns_in_an_order_that_the_seed_decides_and_are_made_anew_for_each_session(clock: Clock) -> None:
    log: list[str] = []

    def maker(label: str, seconds: float):  # type: ignore[no-untyped-def]
        def make():  # type: ignore[no-untyped-def]
            log.append(f"make {label}")

            def call() -> None:
                log.append(label)
                clock.sleep(seconds)

            return call

        return make

    makers = {"a": maker("a", 0.004), "b": maker("b", 0.012)}
    timings = interleaved(makers, Effort(repeats=6, sessions=2, seed=1))
    assert [log.count(f"make {label}") for label in "ab"] == [2, 2]
    turns = [entry for entry in log[-12:] if not entry.startswith("make")]
    assert all(sorted(turns[at : at + 2]) == ["a", "b"] for at in range(0, 12, 2)), "one of each, then the next"
    assert len({tuple(turns[at : at + 2]) for at in range(0, 12, 2)}) == 2, "not always in the same order"
    assert [timings[label].seconds for label in "ab"] == pytest.approx([0.004, 0.012])
    assert [timings["a"].low, timings["a"].high, timings["a"].cpu] == pytest.approx([0.004] * 3)
    first, log[:] = list(log), []
    interleaved(makers, Effort(repeats=6, sessions=2, seed=1))
    assert log == first


def test_a_call_too_short_for_the_clock_is_repeated_within_a_repeat(clock: Clock) -> None:
    effort, calls = Effort(repeats=1, sessions=1, least=0.002), []

    def call() -> None:
        calls.append(0)
        clock.sleep(1e-5)

    timing = interleaved({"a": lambda: call}, effort)["a"]
    assert len(calls) == effort.warm_up + 200
    assert timing.seconds == pytest.approx(1e-5)


def test_waiting_counts_on_the_wall_but_not_for_the_thread() -> None:
    timing = interleaved({"a": lambda: lambda: time.sleep(0.01)}, Effort(repeats=3, sessions=1))["a"]
    assert timing.seconds >= 0.01
    assert timing.cpu < timing.seconds


def test_samples_of_another_kind_are_refused() -> None:
    assert random_samples((1, 4, 4), "uint8", 3).dtype == np.uint8
    with pytest.raises(ModelError, match="of a fixed shape in uint8, float32, float64, got"):
        random_samples(("height", 4), "float32", 3)
    with pytest.raises(ModelError, match="in tensor"):
        random_samples((4,), "tensor(int64)", 3)
