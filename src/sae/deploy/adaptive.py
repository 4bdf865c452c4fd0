"""Adaptive exits: where samples leave at a threshold, the choice of the threshold, and the time it saves. No torch.

All exits share one threshold: the running average already weighs the exits by θ*, and a single
number leaves little to overfit. Candidates are the confidences of validation samples, so that no
step between them is missed.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import ConfigError
from sae.deploy.latency import Effort, Maker, interleaved
from sae.deploy.manifest import DEFAULT_TARGET, ExitTarget, TimingPart
from sae.deploy.session import NEVER, NEXT, Floats, Integers, Samples, SegmentSessions, Session, confidence

Shares = NDArray[np.float64]

MOST_TRIED = 400
"""Thresholds to try, evenly spaced among the sorted confidences."""
ADAPTIVE_EFFORT = Effort(repeats=15, sessions=1, warm_up=2, least=0.0)
"""Calls are not repeated within a repeat: there are many batches, each timed on its own."""
MOST_BATCHES = 8
LEAST_GAIN = 0.05
"""Adaptive exits pay only if they save at least this share of the time, even if the noise is smaller."""


def choose_target(keep_accuracy: float | None, mean_flops: float | None) -> ExitTarget:
    """Return the target that one of two options asks for, or the default."""
    if keep_accuracy is not None and mean_flops is not None:
        raise ConfigError("a threshold has one target: give --keep-accuracy or --mean-flops, not both")
    for flag, value in (("--keep-accuracy", keep_accuracy), ("--mean-flops", mean_flops)):
        if value is not None and not (math.isfinite(value) and 0 < value <= 1):
            raise ConfigError(f"{flag} must be a share above 0 and at most 1, got {value}")
    if mean_flops is not None:
        return ExitTarget(kind="mean_flops", value=mean_flops)
    return DEFAULT_TARGET if keep_accuracy is None else ExitTarget(kind="keep_accuracy", value=keep_accuracy)


def leaving_segments(trace: Floats, threshold: float) -> Integers:
    """Return the segment after which each sample leaves, (sample,).

    Args:
        trace: Running probabilities, (segment, sample, class).
        threshold: The confidence from which a sample leaves.

    Example:
        >>> leaving_segments(np.array([[[0.6, 0.4], [0.9, 0.1]], [[0.7, 0.3], [0.8, 0.2]]]), 0.85)
        array([1, 0])
    """
    passed = confidence(trace) >= threshold
    passed[-1] = True
    left: Integers = passed.argmax(axis=0)
    return left


def leaving_probs(trace: Floats, left: Integers) -> Floats:
    """Return the probabilities with which samples leave, (sample, class)."""
    probs: Floats = trace[left, np.arange(trace.shape[1])]
    return probs


def thresholds(trace: Floats, most: int = MOST_TRIED) -> Shares:
    """Return thresholds to try, ascending: from all samples leaving at the first exit to none before the last."""
    ordered = np.unique(confidence(trace[:-1]).astype(np.float64))
    places = np.unique(np.linspace(0, len(ordered) - 1, min(most, len(ordered))).round().astype(int))
    return np.concatenate([[0.0], ordered[places], [NEVER]])


def choose_threshold(trace: Floats, labels: NDArray[np.generic], flops: Shares, target: ExitTarget) -> float:
    """Return the cheapest threshold that keeps the accuracy, or the largest one within the FLOPs.

    For accuracy it is the smallest threshold such that it and *every* larger one meet the target.
    A lucky dip further down is not taken.

    Args:
        trace: Running probabilities of validation samples, (segment, sample, class).
        labels: Their classes.
        flops: Cost of a sample that leaves after each segment, as a share of the plain graph's, (segment,).
        target: The target that the threshold must meet.
    """
    tried = thresholds(trace)
    if target.kind == "mean_flops":
        costs = np.array([flops[leaving_segments(trace, threshold)].mean() for threshold in tried])
        within = costs <= target.value + 1e-12
        if not within[0]:
            raise ConfigError(
                f"--mean-flops must be at least {math.ceil(flops[0] * 1000) / 1000:g} (the cost of leaving at the "
                f"first exit, as a share of the plain graph's), got {target.value:g}"
            )
        return float(tried[np.flatnonzero(within)[-1]])
    needed = target.value * (trace[-1].argmax(axis=1) == labels).mean()
    accuracies = np.array([_accuracy(trace, labels, threshold) for threshold in tried])
    too_low = np.flatnonzero(accuracies < needed - 1e-12)
    return float(tried[too_low[-1] + 1 if len(too_low) else 0])


def _accuracy(trace: Floats, labels: NDArray[np.generic], threshold: float) -> float:
    probs = leaving_probs(trace, leaving_segments(trace, threshold))
    return float((probs.argmax(axis=1) == labels).mean())


def batches_of(samples: Samples, size: int, most: int = MOST_BATCHES) -> list[Samples]:
    """Split samples into full batches. Too few samples for one batch form a smaller one."""
    count = min(most, len(samples) // size)
    return [samples[start * size : (start + 1) * size] for start in range(count)] or [samples]


def batch_times(
    runs: Mapping[str, Callable[[Samples], object]], batches: Sequence[Samples], effort: Effort = ADAPTIVE_EFFORT
) -> dict[str, float]:
    """Time several models side by side on the same batches.

    Batches differ in how many samples leave early, so one batch is not enough, and a median over batches would
    hide the difference.

    Args:
        runs: Functions that compute a batch, by label.
        batches: The batches.
        effort: How much is measured.

    Returns:
        Milliseconds for a batch, by label: the median of each batch, averaged over batches.
    """
    makers = {
        f"{label} {number}": _maker(run, batch) for label, run in runs.items() for number, batch in enumerate(batches)
    }
    timings = interleaved(makers, effort)
    return {
        label: statistics.mean(timings[f"{label} {number}"].seconds for number in range(len(batches))) * 1e3
        for label in runs
    }


def _maker(run: Callable[[Samples], object], batch: Samples) -> Maker:
    return lambda: lambda: run(batch)


def time_adaptive(
    plain: bytes, segments: SegmentSessions, samples: Samples, batch: int = 64, effort: Effort = ADAPTIVE_EFFORT
) -> TimingPart:
    """Time the plain graph, the same graph in another session, and the segments at their threshold.

    Args:
        plain: File of the plain graph.
        segments: The segments, with the threshold set.
        samples: Real raw samples, because they decide how many leave early.
        batch: Samples in a batch.
        effort: How much is measured.
    """
    batches = batches_of(samples, batch)
    runs: dict[str, Callable[[Samples], object]] = {
        "plain": Session(plain).run,
        "again": Session(plain).run,
        "adaptive": segments.run,
    }
    times = batch_times(runs, batches, effort)
    return TimingPart(
        batch=len(batches[0]),
        plain=times["plain"],
        adaptive=times["adaptive"],
        noise=abs(times["again"] / times["plain"] - 1),
        stages=tuple(segment_times(segments, batches[0], effort)),
    )


def segment_times(segments: SegmentSessions, x: Samples, effort: Effort = ADAPTIVE_EFFORT) -> list[float]:
    """Return the median milliseconds of each segment on a whole batch."""
    makers: dict[str, Maker] = {}
    for number, segment in enumerate(segments.segments):
        makers[str(number)] = _maker(segment.run, x)
        x = segment.run(x).get(NEXT, x)
    return [timing.seconds * 1e3 for timing in interleaved(makers, effort).values()]


def does_pay(timing: TimingPart) -> bool:
    """Return whether adaptive exits save more time than both the noise and `LEAST_GAIN`."""
    return timing.adaptive < timing.plain * (1 - max(timing.noise, LEAST_GAIN))


def verdict(timing: TimingPart, early: float, kept: float) -> str:
    """Return a sentence that says whether adaptive exits pay.

    Args:
        timing: The measured times.
        early: Share of the validation samples that leave before the last exit.
        kept: Share of the plain graph's test accuracy that is kept.
    """
    numbers = (
        f"a batch of {timing.batch} takes {timing.adaptive:.2f} ms, the plain graph {timing.plain:.2f} ms "
        f"({timing.adaptive / timing.plain:.2f} ×, noise {timing.noise:.0%}); {early:.0%} of the validation samples "
        f"leave before the last exit, and {kept:.2%} of the test accuracy is kept"
    )
    if does_pay(timing):
        return f"adaptive exits pay here: {numbers}"
    return f"use the plain graph, adaptive exits do not pay: {numbers}"
