"""Where samples leave at a threshold, and which threshold keeps a promise on validation data.

One threshold is common to all exits: the running average already weighs the exits by θ*, and a
single number leaves little to overfit. It is chosen among the confidences that validation samples
had, so that no step between them is missed.
"""

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from sae.core.errors import ConfigError
from sae.deploy.adaptive import NEVER, confidence

Array = NDArray[Any]

MOST_TRIED = 400
"""Thresholds that are tried, evenly spaced among the ordered confidences."""


class ExitTarget(BaseModel):
    """What a threshold has to keep.

    Attributes:
        kind: A share of the plain graph's accuracy at least, or of its FLOPs at most.
        value: That share.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["keep_accuracy", "mean_flops"]
    value: float


DEFAULT_TARGET = ExitTarget(kind="keep_accuracy", value=0.995)


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
