"""How long stages take beside the plain graph, and whether that pays; no torch."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from sae.deploy.adaptive import NEXT, Staged
from sae.deploy.adaptive_part import TimingPart
from sae.deploy.session import Session

Array = NDArray[Any]

REPEATS = 15
WARM_UPS = 2
MOST_BATCHES = 8
LEAST_GAIN = 0.05
"""What a time must be saved by at least before it counts as saved, however small the noise was."""


def median_times(calls: Mapping[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, float]:
    """Median milliseconds of each call, taken in turns so that noise falls on all alike.

    Every second round goes backwards: what comes after a large call finds a cold cache.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(WARM_UPS + repeats):
        for name in list(calls)[:: 1 if repeat % 2 else -1]:
            start = time.perf_counter()
            calls[name]()
            if repeat >= WARM_UPS:
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def batches_of(samples: Array, size: int, most: int = MOST_BATCHES) -> list[Array]:
    """Whole batches, or all samples where they are too few for one."""
    count = min(most, len(samples) // size)
    return [samples[start * size : (start + 1) * size] for start in range(count)] or [samples]


def over(run: Callable[[Array], object], batches: Sequence[Array]) -> Callable[[], None]:
    """A pass over batches: which samples leave differs between them, so one batch alone says little."""

    def call() -> None:
        for batch in batches:
            run(batch)

    return call


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
    taken = {name: value / len(batches) for name, value in median_times(calls, repeats).items()}
    return TimingPart(
        batch=len(batches[0]),
        plain=taken["plain"],
        adaptive=taken["adaptive"],
        noise=abs(taken["again"] / taken["plain"] - 1),
        stages=tuple(stage_times(staged, batches[0], repeats)),
    )


def stage_times(staged: Staged, x: Array, repeats: int = REPEATS) -> list[float]:
    """Median milliseconds of each stage on a whole batch."""
    calls: dict[str, Callable[[], object]] = {}
    for number, stage in enumerate(staged.stages):
        calls[str(number)] = lambda stage=stage, x=x: stage.run(x)  # type: ignore[misc]
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
