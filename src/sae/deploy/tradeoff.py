"""The trade-off of adaptive exits: quality against mean FLOPs and measured time.

At the chosen threshold it becomes part of a manifest; over a grid of thresholds it is a curve.
The threshold is chosen on validation samples.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from sae.data.binding import AS_BEFORE, Whereabouts
from sae.data.dataset import Dataset
from sae.deploy.adaptive import (
    MOST_BATCHES,
    Shares,
    batch_times,
    batches_of,
    choose_threshold,
    does_pay,
    leaving_probs,
    leaving_segments,
    time_adaptive,
    verdict,
)
from sae.deploy.conformal import class_scores, keep_scores
from sae.deploy.evaluation import class_metrics, trace_split
from sae.deploy.graph import shipped_content, without_frame
from sae.deploy.manifest import AdaptivePart, ExitTarget, SegmentPart, sha256_of
from sae.deploy.segments import Segments, check_adaptive, cut
from sae.deploy.session import NEVER, Floats, Samples, SegmentSessions, Session
from sae.records.run import RunRecord
from sae.training.run import restore
from sae.training.trainer import torch_threads

MOST_TIMED = 512
"""Samples to time with."""
POINTS = 12
"""Thresholds of a curve, at even steps of the mean FLOPs."""
MOST_SINGLE = 64
"""Samples to time one by one."""


def adaptive_part(segments: Segments, plain: bytes, dataset: Dataset, stem: str, target: ExitTarget) -> AdaptivePart:
    """Choose a threshold, evaluate it, time it, and decide whether it pays.

    Args:
        segments: The segments; their sessions get the threshold.
        plain: File of the plain graph.
        dataset: The threshold is chosen on its validation split.
        stem: Start of the segments' file names.
        target: The target of the threshold.
    """
    splits = {"val": dataset.val, "test": dataset.test}
    traces = {name: trace_split(segments.sessions, split, dataset) for name, split in splits.items()}
    threshold = choose_threshold(traces["val"], dataset.val.targets, segments.flops, target)
    left = {name: leaving_segments(trace, threshold) for name, trace in traces.items()}
    probs = {name: leaving_probs(trace, left[name]) for name, trace in traces.items()}
    metrics = {name: class_metrics(probs[name], split.targets) for name, split in splits.items()}
    kept = {
        name: metrics[name]["accuracy"] / max(class_metrics(traces[name][-1], split.targets)["accuracy"], 1e-12)
        for name, split in splits.items()
    }
    segments.sessions.threshold = threshold
    timing = time_adaptive(plain, segments.sessions, without_frame(dataset.val.inputs[:MOST_TIMED], dataset.frame))
    count = len(segments.contents)
    fractions = {name: np.bincount(places, minlength=count) / len(places) for name, places in left.items()}
    return AdaptivePart(
        stages=_segment_parts(segments, stem),
        threshold=threshold,
        target=target,
        fractions={name: tuple(values.tolist()) for name, values in fractions.items()},
        metrics=metrics,
        accuracy_kept=kept,
        mean_flops={name: float(segments.flops[places].mean()) for name, places in left.items()},
        calibration=keep_scores(class_scores(probs["val"], dataset.val.targets), "one_minus_probability"),
        largest_difference=segments.largest_difference,
        timing=timing,
        time_ratio=timing.adaptive / timing.plain,
        pays=does_pay(timing),
        verdict=verdict(timing, 1 - float(fractions["val"][-1]), kept["test"]),
    )


def _segment_parts(segments: Segments, stem: str) -> tuple[SegmentPart, ...]:
    network = segments.network
    described = zip(segments.contents, network.exits, network.seen, network.flops, strict=True)
    return tuple(
        SegmentPart(
            file=f"{stem}.stage{number}.onnx",
            sha256=sha256_of(content),
            bytes=len(content),
            exit=exit_number,
            seen=seen,
            flops=flops,
        )
        for number, (content, exit_number, seen, flops) in enumerate(described, start=1)
    )


@dataclass(frozen=True)
class CurvePoint:
    """The test split at one threshold, or through the plain graph.

    Attributes:
        kind: `plain`, `again` (the plain graph in a second session, which shows the noise of the times),
            `adaptive`, or `calibrated` for the chosen threshold.
        threshold: The confidence from which a sample leaves; None for the plain graph.
        accuracy: Accuracy.
        nll: Negative log-likelihood.
        ece: Expected calibration error.
        mean_flops: Mean shipped FLOPs as a share of the plain graph's.
        ms_batch64: Milliseconds for a batch of 64.
        ms_batch1: Milliseconds for a single sample.
        left: Share of the samples that leave at each used exit, by its depth.
    """

    kind: Literal["plain", "again", "adaptive", "calibrated"]
    threshold: float | None
    accuracy: float
    nll: float
    ece: float
    mean_flops: float
    ms_batch64: float
    ms_batch1: float
    left: Mapping[int, float]

    def to_row(self) -> dict[str, str | float]:
        """Return a row of the CSV file."""
        return {
            "kind": self.kind,
            "threshold": "" if self.threshold is None else self.threshold,
            "accuracy": self.accuracy,
            "nll": self.nll,
            "ece": self.ece,
            "mean_flops": self.mean_flops,
            "ms_batch64": self.ms_batch64,
            "ms_batch1": self.ms_batch1,
            **{f"left_at_{number}": share for number, share in self.left.items()},
        }


def adaptive_curve(
    run: Path, target: ExitTarget, eval_exits: int | None = None, where: Whereabouts = AS_BEFORE
) -> list[CurvePoint]:
    """Measure the plain graph twice, then thresholds from "all leave at the first exit" to "none leaves early".

    Thresholds are chosen on the validation split. All results are of the test split.

    Args:
        run: The run folder.
        target: The target of the chosen threshold, which is part of the curve.
        eval_exits: K′; by default the trained K.
        where: Where the data are now, and whether other data may be used instead.
    """
    record = RunRecord.open(run)
    with torch_threads(record.read_config().train.threads):
        method, dataset = restore(record, "cpu", where)
        eval_exits = method.resolve_exits(eval_exits)
        pruned = method.pruned(eval_exits)
        check_adaptive(pruned, dataset)
        plain = shipped_content(method, dataset, eval_exits)
        return curve_points(cut(pruned, dataset, Session(plain)), plain, dataset, target)


def curve_points(segments: Segments, plain: bytes, dataset: Dataset, target: ExitTarget) -> list[CurvePoint]:
    """Return the points of `adaptive_curve` for existing segments."""
    val, test = (trace_split(segments.sessions, split, dataset) for split in (dataset.val, dataset.test))
    chosen = choose_threshold(val, dataset.val.targets, segments.flops, target)
    tried = sorted({*grid(val, segments.flops), chosen})
    samples = without_frame(dataset.test.inputs[:MOST_TIMED], dataset.frame)
    batch_ms = _time_thresholds(segments.sessions, plain, batches_of(samples, 64, MOST_BATCHES), tried)
    single_ms = _time_thresholds(segments.sessions, plain, batches_of(samples, 1, MOST_SINGLE), tried)

    def point(kind: Literal["plain", "again", "adaptive", "calibrated"], threshold: float | None) -> CurvePoint:
        left = leaving_segments(test, NEVER if threshold is None else threshold)
        metrics = class_metrics(leaving_probs(test, left), dataset.test.targets)
        label = kind if threshold is None else str(threshold)
        return CurvePoint(
            kind=kind,
            threshold=threshold,
            accuracy=metrics["accuracy"],
            nll=metrics["nll"],
            ece=metrics["ece"],
            mean_flops=float(segments.flops[left].mean()),
            ms_batch64=batch_ms[label],
            ms_batch1=single_ms[label],
            left={number: float((left == index).mean()) for index, number in enumerate(segments.network.exits)},
        )

    adaptive = [point("calibrated" if threshold == chosen else "adaptive", threshold) for threshold in tried]
    return [point("plain", None), point("again", None), *adaptive]


def grid(trace: Floats, flops: Shares, points: int = POINTS) -> list[float]:
    """Return thresholds at about even steps of the mean FLOPs, including both extremes."""
    steps = np.linspace(flops[0], 1.0, points)[1:-1]
    labels = np.zeros(trace.shape[1], int)  # FLOPs do not depend on them
    between = [
        choose_threshold(trace, labels, flops, ExitTarget(kind="mean_flops", value=float(step))) for step in steps
    ]
    return sorted({0.0, *between, NEVER})


def _time_thresholds(
    segments: SegmentSessions, plain: bytes, batches: Sequence[Samples], tried: Sequence[float]
) -> dict[str, float]:
    """Return milliseconds per batch: of the plain graph, of the same graph again, and of each threshold."""
    runs: dict[str, Callable[[Samples], object]] = {
        "plain": Session(plain).run,
        "again": Session(plain).run,
        **{str(value): functools.partial(_run_at, segments, value) for value in tried},
    }
    return batch_times(runs, batches)


def _run_at(segments: SegmentSessions, threshold: float, batch: Samples) -> None:
    segments.threshold = threshold
    segments.run(batch)
