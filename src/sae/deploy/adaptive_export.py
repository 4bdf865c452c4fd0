"""Stages beside the plain graph: cut, checked against it, calibrated on validation data, tried on test data."""

from dataclasses import dataclass

import numpy as np
import torch

from sae.backbones import MemberNetwork
from sae.core.errors import ParityError
from sae.core.predictive import Categorical
from sae.data.dataset import Array, Dataset, Split
from sae.deploy.adaptive import NEVER, Staged
from sae.deploy.adaptive_part import AdaptivePart, StagePart
from sae.deploy.adaptive_timing import does_pay, time_adaptive, verdict
from sae.deploy.conformal import calibrate, class_scores
from sae.deploy.exit_rule import ExitTarget, calibrate_threshold, probs_left, stages_left
from sae.deploy.manifest import sha256_of
from sae.deploy.parity import NUM_SAMPLES, TOLERANCE, without_frame
from sae.deploy.segments import StagedNetwork, staged_sessions
from sae.deploy.session import CHUNK, Session
from sae.training.evaluator import measure_predictive

MOST_TIMED = 512
"""Samples that times are taken on."""
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Stages:
    """Stages that were checked against the plain graph.

    Attributes:
        network: The same in torch.
        contents: The file of each stage.
        staged: Those in onnxruntime.
        largest_difference: To the plain graph.
    """

    network: StagedNetwork
    contents: list[bytes]
    staged: Staged
    largest_difference: float

    @property
    def flops(self) -> Array:
        """Of a sample that leaves after each stage, as a share of the plain graph's, (stage,)."""
        shares: Array = np.array(self.network.flops) / self.network.flops[-1]
        return shares


def cut(network: MemberNetwork, dataset: Dataset, plain: Session) -> Stages:
    """The stages of a pruned network; refused unless they say what the plain graph says."""
    segments = StagedNetwork(network, dataset)
    contents = segments.to_stages(dataset)
    staged = staged_sessions(contents, segments.seen)
    return Stages(segments, contents, staged, check_stages(staged, plain, dataset))


def check_stages(staged: Staged, plain: Session, dataset: Dataset) -> float:
    """The largest difference between stages that nobody leaves early and the plain graph, on real samples."""
    assert staged.threshold == NEVER, f"nobody may leave while stages are compared, however: {staged.threshold}"
    samples = np.concatenate([split.inputs[:NUM_SAMPLES] for split in (dataset.val, dataset.test)])
    raw = without_frame(samples, dataset.frame)
    largest = 0.0
    for batch in (raw, raw[:1]):
        found, wanted = staged.run(batch), plain.run(batch)
        for name, values in wanted.items():
            difference = float(np.abs(found[name].astype(np.float64) - values).max())
            if not difference <= TOLERANCE:  # NaN is no match
                raise ParityError(
                    f"the stages must predict what the plain graph predicts to {TOLERANCE:g}, however {name} differs "
                    f"by {difference:.2g} over {len(batch)} samples: nothing was written"
                )
            largest = max(largest, difference)
    return largest


def trace_split(staged: Staged, dataset: Dataset, split: Split) -> Array:
    """Running probabilities after every stage, (stage, sample, class)."""
    chunks = (split.inputs[start : start + CHUNK] for start in range(0, len(split), CHUNK))
    return np.concatenate([staged.trace(without_frame(chunk, dataset.frame)) for chunk in chunks], axis=1)


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


def class_metrics(probs: Array, labels: Array) -> dict[str, float]:
    """Quality of probabilities; one that underflows counts as the smallest that does not."""
    told = Categorical(torch.from_numpy(probs).clamp_min(SMALLEST_PROBABILITY).log())
    return measure_predictive(told, torch.from_numpy(np.array(labels)))


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
