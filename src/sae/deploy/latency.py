"""How long models take, measured so that it can be compared: interleaved, over fresh sessions, in shuffled order."""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import ModelError
from sae.deploy.session import Session

Array = NDArray[Any]
Call = Callable[[], object]
"""Computes one batch."""
Clocks = tuple[float, float]
"""Seconds on the wall, and of the calling thread."""
HAS_CPU_CLOCK = time.get_clock_info("thread_time").resolution < 1e-4
"""Some systems count a thread's time in steps too coarse to use; there the wall has to do."""
BATCH = 64
REPEATS, SESSIONS = 20, 3
LEAST = 0.002
"""Seconds that one repeat takes at least: shorter calls are repeated within it, or the clock is what is measured."""
WARM_UP = 4
"""Calls before those that count."""
CONTROL = "control"
"""The first model once more, under another name: what it differs by is noise."""


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        repeats: Of every model in every session.
        sessions: Times that every model is made anew: where its memory happens to lie matters, too.
        seed: Of the order, another one in each round, so that no model always follows the same one.
    """

    repeats: int = REPEATS
    sessions: int = SESSIONS
    seed: int = 0


@dataclass(frozen=True)
class Timing:
    """Seconds per batch.

    Attributes:
        seconds: The median of all repeats, by the clock on the wall.
        low: The lowest of the sessions' medians.
        high: The highest of them.
        cpu: The median of the time that the calling thread computed. Of one thread it is what the wall would
            say of a core that nobody else wants; where the core is shared it is by far the steadier one.
    """

    seconds: float
    low: float
    high: float
    cpu: float


def interleaved(makers: Mapping[str, Callable[[], Call]], effort: Effort) -> dict[str, Timing]:
    """Time several models side by side: one repeat of each, then the next of each.

    Whatever slows the machine for a while slows all of them, so that ratios of what is returned
    can be trusted further than the times themselves.

    Args:
        makers: What makes a model ready, by label; called once for each session.
        effort: How much is measured.
    """
    order, rng = list(makers), random.Random(effort.seed)
    by_session: dict[str, list[list[Clocks]]] = {label: [] for label in makers}
    for _ in range(effort.sessions):
        rng.shuffle(order)
        calls = {label: makers[label]() for label in order}
        counts = {label: _count(call) for label, call in calls.items()}
        for label in order:
            by_session[label].append([])
        for _ in range(effort.repeats):
            rng.shuffle(order)
            for label in order:
                by_session[label][-1].append(_seconds(calls[label], counts[label]))
    return {label: _timing(sessions) for label, sessions in by_session.items()}


def session_maker(content: bytes, batch: int, threads: int = 1) -> Callable[[], Call]:
    """Makes a graph ready to compute one batch of random samples in onnxruntime."""

    def make() -> Call:
        session = Session(content, threads)
        samples = random_samples(session.shape, session.dtype, batch)
        return lambda: session.run_once(samples)

    return make


def random_samples(shape: Sequence[Any], dtype: str, batch: int) -> Array:
    """A batch of noise: what it shows does not change what is computed."""
    if not all(isinstance(size, int) for size in shape) or dtype not in ("uint8", "float32"):
        raise ModelError(
            f"a model that is measured must take samples of a fixed shape in uint8 or float32, got {tuple(shape)} "
            f"in {dtype}"
        )
    rng = np.random.default_rng(0)
    if dtype == "uint8":
        return rng.integers(0, 256, (batch, *shape), dtype=np.uint8)
    return rng.standard_normal((batch, *shape), dtype=np.float32)


def _timing(sessions: Sequence[Sequence[Clocks]]) -> Timing:
    medians = [statistics.median(wall for wall, _ in session) for session in sessions]
    wall, cpu = (statistics.median(both[clock] for session in sessions for both in session) for clock in (0, 1))
    return Timing(wall, min(medians), max(medians), cpu if HAS_CPU_CLOCK else wall)


def _count(call: Call) -> int:
    """Warm up, and find how many calls fill a repeat; one that was interrupted does not count."""
    quickest = min(_seconds(call, 1)[0] for _ in range(WARM_UP))
    return max(1, round(LEAST / max(quickest, 1e-7)))


def _seconds(call: Call, count: int) -> Clocks:
    start, cpu_start = time.perf_counter(), time.thread_time()
    for _ in range(count):
        call()
    cpu, wall = time.thread_time() - cpu_start, time.perf_counter() - start
    return wall / count, cpu / count
