"""Where samples leave at a threshold, and which threshold keeps a promise on validation data.

One threshold is common to all exits: the running average already weighs the exits by θ*, and a
single number leaves little to overfit. It is chosen among the confidences that validation samples
had, so that no step between them is missed.
"""

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import ConfigError
from sae.deploy.manifest import DEFAULT_TARGET, ExitTarget, TimingPart
from sae.deploy.session import NEVER, NEXT, Session, Staged, confidence

Array = NDArray[Any]


MOST_TRIED = 400
"""Thresholds that are tried, evenly spaced among the ordered confidences."""


def choose_target(keep_accuracy: float | None, mean_flops: float | None) -> ExitTarget:
    """What two flags ask for; at most one of them may."""
    if keep_accuracy is not None and mean_flops is not None:
        raise ConfigError("a threshold keeps one target: give --keep-accuracy or --mean-flops, not both")
    for flag, value in (("--keep-accuracy", keep_accuracy), ("--mean-flops", mean_flops)):
        if value is not None and not (math.isfinite(value) and 0 < value <= 1):
            raise ConfigError(f"{flag} must be a share above 0 and at most 1, got {value}")
    if mean_flops is not None:
        return ExitTarget(kind="mean_flops", value=mean_flops)
    return DEFAULT_TARGET if keep_accuracy is None else ExitTarget(kind="keep_accuracy", value=keep_accuracy)


def stages_left(trace: Array, threshold: float) -> Array:
    """The stage after which each sample leaves, (sample,), from running probabilities (stage, sample, class).

    Example:
        >>> stages_left(np.array([[[0.6, 0.4], [0.9, 0.1]], [[0.7, 0.3], [0.8, 0.2]]]), 0.85)
        array([1, 0])
    """
    passed = confidence(trace) >= threshold
    passed[-1] = True
    stage: Array = passed.argmax(axis=0)
    return stage


def probs_left(trace: Array, stage: Array) -> Array:
    """What samples leave with, (sample, class)."""
    probs: Array = trace[stage, np.arange(trace.shape[1])]
    return probs


def thresholds(trace: Array, most: int = MOST_TRIED) -> Array:
    """Thresholds worth trying, ascending: from everyone leaving at the first exit to nobody before the last."""
    ordered = np.unique(confidence(trace[:-1]).astype(np.float64))
    places = np.unique(np.linspace(0, len(ordered) - 1, min(most, len(ordered))).round().astype(int))
    found: Array = np.concatenate([[0.0], ordered[places], [NEVER]])
    return found


def calibrate_threshold(trace: Array, labels: Array, flops: Array, target: ExitTarget) -> float:
    """The cheapest threshold that keeps the accuracy, or the most careful one within the FLOPs.

    For accuracy it is the smallest threshold from which on *every* larger one keeps the target: a
    lucky dip further down is not taken.

    Args:
        trace: Running probabilities of validation samples, (stage, sample, class).
        labels: Their classes.
        flops: What a sample that leaves after each stage has cost, as a share of the plain graph, (stage,).
        target: What to keep.
    """
    tried = thresholds(trace)
    if target.kind == "mean_flops":
        costs = np.array([flops[stages_left(trace, threshold)].mean() for threshold in tried])
        within = costs <= target.value + 1e-12
        if not within[0]:
            raise ConfigError(
                f"--mean-flops must be at least {math.ceil(flops[0] * 1000) / 1000:g}, got {target.value:g}: leaving "
                f"at the first exit costs that share of the plain graph"
            )
        return float(tried[np.flatnonzero(within)[-1]])
    needed = target.value * (trace[-1].argmax(axis=1) == labels).mean()
    accuracies = np.array([_accuracy(trace, labels, threshold) for threshold in tried])
    too_low = np.flatnonzero(accuracies < needed - 1e-12)
    return float(tried[too_low[-1] + 1 if len(too_low) else 0])


def _accuracy(trace: Array, labels: Array, threshold: float) -> float:
    probs = probs_left(trace, stages_left(trace, threshold))
    return float((probs.argmax(axis=1) == labels).mean())


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
