"""The one timer: models timed side by side, interleaved, over fresh sessions, in shuffled order. No torch."""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sae.core.errors import ModelError
from sae.deploy.session import ELEMENT_TYPES, Samples, Session

Call = Callable[[], object]
"""The computation to time, usually one batch."""
Maker = Callable[[], Call]
"""Loads a model and returns the call to time."""
Clocks = tuple[float, float]
"""Seconds of wall time, and of the calling thread's CPU time."""

HAS_CPU_CLOCK = time.get_clock_info("thread_time").resolution < 1e-4
"""Whether the clock of a thread's CPU time is fine enough to use; otherwise wall time takes its place."""
BATCH = 64
REPEATS, SESSIONS, WARM_UP, LEAST = 20, 3, 4, 0.002
CONTROL = "control"
"""Label of the first model when it is timed a second time: its ratio to itself shows the noise."""


@dataclass(frozen=True)
class Effort:
    """The effort of a measurement.

    Attributes:
        repeats: Repeats of every model in every session.
        sessions: How often every model is loaded again, because its place in memory matters too.
        seed: Seed of the order, which is shuffled each round so that no model always follows the same one.
        warm_up: Calls before those that count.
        least: Minimum seconds per repeat. Shorter calls are repeated within it, so that the clock's own cost is small.
    """

    repeats: int = REPEATS
    sessions: int = SESSIONS
    seed: int = 0
    warm_up: int = WARM_UP
    least: float = LEAST


@dataclass(frozen=True)
class Timing:
    """Seconds per call.

    Attributes:
        seconds: Median wall time over all repeats.
        low: Smallest median of a session.
        high: Largest median of a session.
        cpu: Median CPU time of the calling thread. For one thread it equals the wall time of an idle core;
            on a shared core it is far steadier.
    """

    seconds: float
    low: float
    high: float
    cpu: float


def interleaved(makers: Mapping[str, Maker], effort: Effort) -> dict[str, Timing]:
    """Time several models side by side: one repeat of each, then the next repeat of each.

    Whatever slows the machine for a while slows all models, so ratios of the results are more
    reliable than the times themselves.

    Args:
        makers: Functions that load each model, by label, called once per session.
        effort: How much is measured.
    """
    order, rng = list(makers), random.Random(effort.seed)
    by_session: dict[str, list[list[Clocks]]] = {label: [] for label in makers}
    for _ in range(effort.sessions):
        rng.shuffle(order)
        calls = {label: makers[label]() for label in order}
        counts = {label: _warm_up(call, effort) for label, call in calls.items()}
        for label in order:
            by_session[label].append([])
        for _ in range(effort.repeats):
            rng.shuffle(order)
            for label in order:
                by_session[label][-1].append(_seconds(calls[label], counts[label]))
    return {label: _timing(sessions) for label, sessions in by_session.items()}


def session_maker(content: bytes, batch: int, threads: int = 1) -> Maker:
    """Return a maker that loads a graph in onnxruntime, to compute one batch of random samples."""

    def make() -> Call:
        session = Session(content, threads)
        samples = random_samples(session.shape, session.dtype, batch)
        return lambda: session.run_once(samples)

    return make


def random_samples(shape: Sequence[int | str], dtype: str, batch: int) -> Samples:
    """Draw a batch of noise; the values do not affect the time."""
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) < len(shape) or dtype not in ELEMENT_TYPES.values():
        raise ModelError(
            f"a model to be timed must take samples of a fixed shape in {', '.join(ELEMENT_TYPES.values())}, "
            f"got {tuple(shape)} in {dtype}"
        )
    rng = np.random.default_rng(0)
    if dtype == "uint8":
        return rng.integers(0, 256, (batch, *sizes), dtype=np.uint8)
    return rng.standard_normal((batch, *sizes), dtype=np.float32).astype(dtype)


def _timing(sessions: Sequence[Sequence[Clocks]]) -> Timing:
    medians = [statistics.median(wall for wall, _ in session) for session in sessions]
    wall, cpu = (statistics.median(both[clock] for session in sessions for both in session) for clock in (0, 1))
    return Timing(wall, min(medians), max(medians), cpu if HAS_CPU_CLOCK else wall)


def _warm_up(call: Call, effort: Effort) -> int:
    """Warm up, and return how many calls fill a repeat, judged by the quickest call."""
    quickest = min(_seconds(call, 1)[0] for _ in range(effort.warm_up))
    return max(1, round(effort.least / max(quickest, 1e-7)))


def _seconds(call: Call, count: int) -> Clocks:
    start, cpu_start = time.perf_counter(), time.thread_time()
    for _ in range(count):
        call()
    cpu, wall = time.thread_time() - cpu_start, time.perf_counter() - start
    return wall / count, cpu / count
