"""Proof that a graph predicts what the run's own network predicts: before it is written, not after."""

from typing import Any

import numpy as np
import torch

from sae.core.errors import ParityError
from sae.core.predictive import Categorical, Gaussian
from sae.core.task import Regression
from sae.data.batches import Preparation
from sae.data.dataset import Array, Dataset, Split
from sae.deploy.graph import Aggregation, without_frame
from sae.deploy.manifest import (
    ParityPart,
)
from sae.deploy.session import CHUNK, NEVER, Session, Staged
from sae.methods import Method
from sae.training.evaluator import measure_predictive

TOLERANCE = 1e-5
NUM_SAMPLES = 64
"""Of the validation and of the test split, each."""
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)


def split_outputs(session: Session, split: Split, dataset: Dataset) -> dict[str, Any]:
    """What the graph says of a split, a chunk in memory at a time."""
    chunks = [
        session.run(without_frame(split.inputs[start : start + CHUNK], dataset.frame))
        for start in range(0, len(split), CHUNK)
    ]
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in session.outputs}


def trace_split(staged: Staged, dataset: Dataset, split: Split) -> Array:
    """Running probabilities after every stage, (stage, sample, class)."""
    chunks = (split.inputs[start : start + CHUNK] for start in range(0, len(split), CHUNK))
    return np.concatenate([staged.trace(without_frame(chunk, dataset.frame)) for chunk in chunks], axis=1)


def graph_metrics(outputs: dict[str, Any], split: Split) -> dict[str, float]:
    """Of the graph's own answers; a probability that underflows counts as the smallest that does not."""
    told = {name: torch.from_numpy(values) for name, values in outputs.items()}
    predictive = (
        Categorical(told["probs"].clamp_min(SMALLEST_PROBABILITY).log())
        if "probs" in told
        else Gaussian(told["mean"], told["variance"])
    )
    measured = measure_predictive(predictive, torch.from_numpy(np.array(split.targets)))
    return {**measured, "disagreement": told["disagreement"].double().mean().item()}


def class_metrics(probs: Array, labels: Array) -> dict[str, float]:
    """Quality of probabilities; one that underflows counts as the smallest that does not."""
    told = Categorical(torch.from_numpy(probs).clamp_min(SMALLEST_PROBABILITY).log())
    return measure_predictive(told, torch.from_numpy(np.array(labels)))


def check_parity(session: Session, method: Method, dataset: Dataset, max_exits: int) -> ParityPart:
    """Compare a graph with the unpruned, unfolded network on real samples.

    Args:
        session: The graph.
        method: What was trained, on the CPU.
        dataset: Its data.
        max_exits: K′ of the graph.
    """
    samples = np.concatenate([split.inputs[:NUM_SAMPLES] for split in (dataset.val, dataset.test)])
    expected = _expected(method, dataset, max_exits, samples)
    raw = without_frame(samples, dataset.frame)
    batches = {
        "all samples at once": (raw, expected),
        "one sample alone": (raw[:1], {k: v[:1] for k, v in expected.items()}),
    }
    largest = 0.0
    for how, (batch, wanted) in batches.items():
        found = session.run(batch)
        for name, values in wanted.items():
            unit = np.maximum(_unit(dataset, name), np.abs(values))  # of large values, as many digits as of 1
            difference = float((np.abs(found[name].astype(np.float64) - values) / unit).max())
            if not difference <= TOLERANCE:  # NaN is no match
                raise ParityError(
                    f"the exported graph must predict what the run's network predicts to {TOLERANCE:g}, however "
                    f"{name} differs by {difference:.2g} over {how}: nothing was written"
                )
            largest = max(largest, difference)
    return ParityPart(samples=len(samples), largest_difference=largest, tolerance=TOLERANCE)


def _expected(method: Method, dataset: Dataset, max_exits: int, samples: Array) -> dict[str, Array]:
    prepare = Preparation(dataset.normalisation, len(dataset.spec.shape), torch.device("cpu"))
    aggregation = Aggregation(method.task, method.member_weights(max_exits))
    with torch.inference_mode():
        outputs = aggregation(method.eval().shipped_outputs(prepare(samples)))
    return {name: output.double().numpy() for name, output in zip(aggregation.output_names, outputs, strict=True)}


def _unit(dataset: Dataset, output: str) -> float:
    """Values are compared as the network learnt them: standardised."""
    task = dataset.spec.task
    if not isinstance(task, Regression) or output == "entropy":
        return 1.0
    return task.std if output == "mean" else task.std**2


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
