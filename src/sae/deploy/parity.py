"""Proof that a graph predicts what the run's own network predicts: before it is written, not after."""

import numpy as np
import torch

from sae.core.errors import ParityError
from sae.core.task import Regression
from sae.data.batches import Preparation
from sae.data.dataset import Array, Dataset
from sae.deploy.graph import Aggregation
from sae.deploy.manifest import ParityPart
from sae.deploy.session import Session
from sae.methods import Method

TOLERANCE = 1e-5
NUM_SAMPLES = 64
"""Of the validation and of the test split, each."""


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


def without_frame(images: Array, frame: int) -> Array:
    """Images as they come, from images as they were read; a table's samples have no frame."""
    return images[:, :, frame:-frame, frame:-frame] if frame else images


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
