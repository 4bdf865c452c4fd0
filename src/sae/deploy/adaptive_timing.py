"""How long stages take beside the plain graph, and whether that pays; no torch."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.deploy.adaptive import NEXT, Staged
from sae.deploy.adaptive_part import TimingPart
from sae.deploy.session import Session

Array = NDArray[Any]
Call = Callable[[], object]

REPEATS = 15
WARM_UPS = 2
MOST_BATCHES = 8
LEAST_GAIN = 0.05
"""What a time must be saved by at least before it counts as saved, however small the noise was."""


def median_times(calls: Mapping[str, Sequence[Call]], repeats: int = REPEATS) -> dict[str, float]:
    """Milliseconds of a batch: the median over repeats of each batch, averaged over batches.

    Batches differ in who leaves, so that one says little and a median over them would hide it.
    Contestants take turns at every batch, so that noise falls on all alike; every second repeat
    goes backwards, since what comes after a large call finds a cold cache.

    Args:
        calls: For each contestant, what computes each of the batches.
        repeats: Of all batches.
    """
    names = list(calls)
    count = len(calls[names[0]])
    times = np.zeros((len(names), repeats, count))
    for repeat in range(-WARM_UPS, repeats):
        for batch in range(count):
            for place in range(len(names))[:: 1 if repeat % 2 else -1]:
                call = calls[names[place]][batch]
                start = time.perf_counter()
                call()
                if repeat >= 0:
                    times[place, repeat, batch] = time.perf_counter() - start
    return dict(zip(names, (np.median(times, axis=1).mean(axis=1) * 1e3).tolist(), strict=True))


def batches_of(samples: Array, size: int, most: int = MOST_BATCHES) -> list[Array]:
    """Whole batches, or all samples where they are too few for one."""
    count = min(most, len(samples) // size)
    return [samples[start * size : (start + 1) * size] for start in range(count)] or [samples]


def over(run: Callable[[Array], object], batches: Sequence[Array]) -> list[Call]:
    """A call for each batch."""
    return [functools.partial(run, batch) for batch in batches]


def time_adaptive(plain: bytes, staged: Staged, samples: Array, batch: int = 64, repeats: int = REPEATS) -> TimingPart:
    """The plain graph, the same in another session, and the stages at their threshold.

    Args:
        plain: The plain graph's file.
        staged: With the threshold set.
        samples: As they come; real ones, since it depends on them who leaves.
        batch: Samples in a batch.
        repeats: Passes whose median is taken.
    """
    batches = batches_of(samples, batch)
    one, other = Session(plain), Session(plain)
    calls = {
        "plain": over(one.run, batches),
        "again": over(other.run, batches),
        "adaptive": over(staged.run, batches),
    }
    taken = median_times(calls, repeats)
    return TimingPart(
        batch=len(batches[0]),
        plain=taken["plain"],
        adaptive=taken["adaptive"],
        noise=abs(taken["again"] / taken["plain"] - 1),
        stages=tuple(stage_times(staged, batches[0], repeats)),
    )


def stage_times(staged: Staged, x: Array, repeats: int = REPEATS) -> list[float]:
    """Median milliseconds of each stage on a whole batch."""
    calls: dict[str, list[Call]] = {}
    for number, stage in enumerate(staged.stages):
        calls[str(number)] = over(stage.run, [x])
        x = stage.run(x).get(NEXT, x)
    return list(median_times(calls, repeats).values())


def does_pay(timing: TimingPart) -> bool:
    """Whether adaptive is faster by more than the noise and than `LEAST_GAIN`."""
    return timing.adaptive < timing.plain * (1 - max(timing.noise, LEAST_GAIN))


def verdict(timing: TimingPart, early: float, kept: float) -> str:
    """Whether it pays, in one sentence.

    Args:
        timing: What was measured.
        early: Share of the validation samples that leave before the last exit.
        kept: Share of the plain graph's test accuracy.
    """
    pays = does_pay(timing)
    numbers = (
        f"a batch of {timing.batch} takes {timing.adaptive:.2f} ms where the plain graph takes {timing.plain:.2f} "
        f"({timing.adaptive / timing.plain:.2f} ×, noise {timing.noise:.0%}), as {early:.0%} of the validation samples "
        f"leave before the last exit, with {kept:.2%} of the accuracy kept on test"
    )
    return (
        f"adaptive exits pay here: {numbers}" if pays else f"use the plain graph, adaptive exits do not pay: {numbers}"
    )
