"""What adaptive exits trade over a grid of thresholds: quality against mean FLOPs and measured time."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from sae.data.dataset import Array, Dataset
from sae.deploy.adaptive import (
    batches_of,
    calibrate_threshold,
    does_pay,
    median_times,
    over,
    probs_left,
    stages_left,
    time_adaptive,
    verdict,
)
from sae.deploy.conformal import calibrate, class_scores
from sae.deploy.evaluation import class_metrics, trace_split
from sae.deploy.graph import ShippedGraph, graph_content, without_frame
from sae.deploy.manifest import AdaptivePart, ExitTarget, StagePart, sha256_of
from sae.deploy.segments import Stages, check_adaptive, cut
from sae.deploy.session import NEVER, Session, Staged
from sae.records.run import RunRecord
from sae.training.run import restore, torch_threads

MOST_TIMED = 512
"""Samples that times are taken on."""
POINTS = 12
"""Thresholds of a curve, at even steps of the mean FLOPs."""
REPEATS = {64: 15, 1: 15}
"""Of each batch, by batch size."""
MOST_SINGLE = 64
METRICS = ("accuracy", "nll", "ece")


def adaptive_part(stages: Stages, plain: bytes, dataset: Dataset, stem: str, target: ExitTarget) -> AdaptivePart:
    """Calibrate a threshold, try it, time it, and say whether it pays.

    Args:
        stages: What was cut.
        plain: The plain graph's file.
        dataset: Whose validation samples calibrate.
        stem: What the stages' files start with.
        target: What to keep.
    """
    splits = {"val": dataset.val, "test": dataset.test}
    traces = {name: trace_split(stages.staged, dataset, split) for name, split in splits.items()}
    threshold = calibrate_threshold(traces["val"], dataset.val.targets, stages.flops, target)
    left = {name: stages_left(trace, threshold) for name, trace in traces.items()}
    probs = {name: probs_left(trace, left[name]) for name, trace in traces.items()}
    metrics = {name: class_metrics(probs[name], split.targets) for name, split in splits.items()}
    kept = {
        name: metrics[name]["accuracy"] / max(class_metrics(traces[name][-1], split.targets)["accuracy"], 1e-12)
        for name, split in splits.items()
    }
    stages.staged.threshold = threshold
    timing = time_adaptive(plain, stages.staged, without_frame(dataset.val.inputs[:MOST_TIMED], dataset.frame))
    count = len(stages.contents)
    fractions = {name: np.bincount(stage, minlength=count) / len(stage) for name, stage in left.items()}
    return AdaptivePart(
        stages=_stage_parts(stages, stem),
        threshold=threshold,
        target=target,
        fractions={name: tuple(values.tolist()) for name, values in fractions.items()},
        metrics=metrics,
        accuracy_kept=kept,
        mean_flops={name: float(stages.flops[stage].mean()) for name, stage in left.items()},
        calibration=calibrate(class_scores(probs["val"], dataset.val.targets), "one_minus_probability"),
        largest_difference=stages.largest_difference,
        timing=timing,
        time_ratio=timing.adaptive / timing.plain,
        pays=does_pay(timing),
        verdict=verdict(timing, 1 - float(fractions["val"][-1]), kept["test"]),
    )


def _stage_parts(stages: Stages, stem: str) -> tuple[StagePart, ...]:
    network = stages.network
    described = zip(stages.contents, network.exits, network.seen, network.flops, strict=True)
    return tuple(
        StagePart(
            file=f"{stem}.stage{number}.onnx",
            sha256=sha256_of(content),
            bytes=len(content),
            exit=exit_number,
            seen=seen,
            flops=flops,
        )
        for number, (content, exit_number, seen, flops) in enumerate(described, start=1)
    )


def adaptive_curve(run: Path, target: ExitTarget, eval_exits: int | None = None) -> list[dict[str, Any]]:
    """A row for each threshold, from everyone leaving at the first exit to nobody, and one for the plain graph.

    Thresholds are laid on the validation split, the calibrated one among them; all numbers are of
    the test split. A second session of the plain graph, `again`, shows the noise of the times.

    Args:
        run: The run folder.
        target: What the calibrated threshold keeps.
        eval_exits: K′; by default the trained K.
    """
    record = RunRecord.open(run)
    with torch_threads(record.config.train.threads):
        method, dataset = restore(record, "cpu")
        pruned = method.pruned(method.resolve_exits(eval_exits))
        check_adaptive(pruned, dataset)
        content = graph_content(ShippedGraph(pruned.folded(dataset.spec.shape), dataset), dataset)
        plain = Session(content)
        stages = cut(pruned, dataset, plain)
        return curve_rows(stages, content, dataset, target)


def curve_rows(stages: Stages, plain: bytes, dataset: Dataset, target: ExitTarget) -> list[dict[str, Any]]:
    """The rows of `adaptive_curve`, of stages that were cut already."""
    val, test = (trace_split(stages.staged, dataset, split) for split in (dataset.val, dataset.test))
    chosen = calibrate_threshold(val, dataset.val.targets, stages.flops, target)
    tried = sorted({*grid(val, stages.flops), chosen})
    times = measure_times(stages.staged, plain, without_frame(dataset.test.inputs[:MOST_TIMED], dataset.frame), tried)
    whole = class_metrics(test[-1], dataset.test.targets)
    rows = [
        {
            "kind": kind,
            "threshold": "",
            **_measured(whole),
            "mean_flops": 1.0,
            **times[kind],
            **_left(stages, test, NEVER),
        }
        for kind in ("plain", "again")
    ]
    for threshold in tried:
        left = stages_left(test, threshold)
        rows.append(
            {
                "kind": "calibrated" if threshold == chosen else "adaptive",
                "threshold": threshold,
                **_measured(class_metrics(probs_left(test, left), dataset.test.targets)),
                "mean_flops": float(stages.flops[left].mean()),
                **times[str(threshold)],
                **_left(stages, test, threshold),
            }
        )
    return rows


def grid(trace: Array, flops: Array, points: int = POINTS) -> list[float]:
    """Thresholds at about even steps of the mean FLOPs that a trace comes to, both ends among them."""
    steps = np.linspace(flops[0], 1.0, points)[1:-1]
    labels = np.zeros(trace.shape[1], int)  # FLOPs do not depend on them
    between = [
        calibrate_threshold(trace, labels, flops, ExitTarget(kind="mean_flops", value=float(step))) for step in steps
    ]
    return sorted({0.0, *between, NEVER})


def measure_times(staged: Staged, plain: bytes, samples: Array, tried: list[float]) -> dict[str, dict[str, float]]:
    """`ms_batch64` and `ms_batch1` of the plain graph, of the same again, and of each threshold by its text."""
    one, other = Session(plain), Session(plain)
    found: dict[str, dict[str, float]] = {}
    for size, repeats in REPEATS.items():
        batches = batches_of(samples, size, MOST_SINGLE if size == 1 else 8)

        calls = {"plain": over(one.run, batches), "again": over(other.run, batches)}
        calls |= {str(value): over(functools.partial(_run_at, staged, value), batches) for value in tried}
        for name, milliseconds in median_times(calls, repeats).items():
            found.setdefault(name, {})[f"ms_batch{size}"] = milliseconds
    return found


def _run_at(staged: Staged, threshold: float, batch: Array) -> None:
    staged.threshold = threshold
    staged.run(batch)


def _measured(metrics: dict[str, float]) -> dict[str, float]:
    return {key: metrics[key] for key in METRICS}


def _left(stages: Stages, trace: Array, threshold: float) -> dict[str, float]:
    left = stages_left(trace, threshold)
    return {f"left_at_{number}": float((left == index).mean()) for index, number in enumerate(stages.network.exits)}
