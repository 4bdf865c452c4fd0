"""Exported graphs on real samples: their outputs, their metrics, and their parity with the run's network."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from sae.core.errors import ParityError
from sae.core.predictive import Categorical, Gaussian, member_values
from sae.core.task import Regression, Task
from sae.data.batches import Preparation
from sae.data.dataset import Dataset, Split
from sae.deploy.graph import Aggregation, SampleForm, shown_probs, without_frame
from sae.deploy.manifest import ParityPart
from sae.deploy.session import CHUNK, MEMBERS, NEVER, Floats, Output, Samples, SegmentSessions, Session
from sae.methods import Method
from sae.training.evaluator import measure_predictive

Metrics = dict[str, float]

TOLERANCE = 1e-5
PARITY_SAMPLES = 64
"""Samples to compare on, from each of the validation and the test split."""
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)


def split_outputs(session: Session, split: Split, dataset: Dataset) -> dict[str, Output]:
    """Return the outputs of a graph for a split, reading one chunk of samples at a time."""
    chunks = [
        session.run(without_frame(split.inputs[start : start + CHUNK], dataset.frame))
        for start in range(0, len(split), CHUNK)
    ]
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def trace_split(segments: SegmentSessions, split: Split, dataset: Dataset) -> Floats:
    """Return the running probabilities after every segment, (segment, sample, class)."""
    chunks = (split.inputs[start : start + CHUNK] for start in range(0, len(split), CHUNK))
    return np.concatenate([segments.trace(without_frame(chunk, dataset.frame)) for chunk in chunks], axis=1)


def graph_metrics(outputs: Mapping[str, Output], split: Split) -> Metrics:
    """Measure the outputs of a graph for a split."""
    disagreement = {"disagreement": torch.from_numpy(outputs["disagreement"]).double().mean().item()}
    if "probs" in outputs:
        probs = outputs["probs"]
        several = split.targets.ndim == 2  # of labels, only the probability that each holds is given
        return class_metrics(np.stack([1 - probs, probs], axis=-1) if several else probs, split.targets) | disagreement
    gaussian = Gaussian(torch.from_numpy(outputs["mean"]), torch.from_numpy(outputs["variance"]))
    return measure_predictive(gaussian, torch.from_numpy(np.array(split.targets))) | disagreement


def class_metrics(probs: Output, labels: NDArray[np.generic]) -> Metrics:
    """Measure probabilities. One that underflows counts as the smallest normal float32."""
    categorical = Categorical(torch.from_numpy(probs).clamp_min(SMALLEST_PROBABILITY).log())
    return measure_predictive(categorical, torch.from_numpy(np.array(labels)))


def check_parity(
    session: Session, method: Method, dataset: Dataset, eval_exits: int, temperature: float = 1.0
) -> ParityPart:
    """Compare the graph of a run with the unpruned, unfolded network on samples of its data; see `compare_graph`."""
    return compare_graph(session, method, dataset, eval_exits, _compared_samples(dataset), temperature)


def compare_graph(
    session: Session,
    method: Method,
    form: SampleForm,
    eval_exits: int,
    samples: Samples,
    temperature: float = 1.0,
) -> ParityPart:
    """Compare a graph with the unpruned, unfolded network on real samples.

    Differences are in standardised units, relative where a value is above 1.

    Args:
        session: The graph.
        method: The trained method, on the CPU.
        form: The form of its samples.
        eval_exits: K′ of the graph.
        samples: Samples to compare on, with the frame that reading added.
        temperature: T of the graph.
    """
    expected = _expected(method, form, eval_exits, samples, temperature)
    raw = without_frame(samples, form.frame)
    batches = {
        "all samples at once": (raw, expected),
        "one sample alone": (raw[:1], {name: values[:1] for name, values in expected.items()}),
    }
    largest = 0.0
    for how, (batch, wanted) in batches.items():
        found = session.run(batch, members=True)
        for name, values in wanted.items():
            given, right = (_standardised(method.task, name, output) for output in (found[name], values))
            difference = float((np.abs(given - right) / np.maximum(1.0, np.abs(right))).max())
            if not difference <= TOLERANCE:  # NaN is no match
                raise ParityError(
                    f"the exported graph must predict what the trained network predicts to within {TOLERANCE:g}, but "
                    f"{name} differs by {difference:.2g} for {how}: nothing was written"
                )
            largest = max(largest, difference)
    return ParityPart(samples=len(samples), largest_difference=largest, tolerance=TOLERANCE)


def check_segments(segments: SegmentSessions, plain: Session, dataset: Dataset) -> float:
    """Return the largest difference between the plain graph and segments that no sample leaves early."""
    assert segments.threshold == NEVER, f"no sample may leave early in the comparison, got {segments.threshold}"
    raw = without_frame(_compared_samples(dataset), dataset.frame)
    largest = 0.0
    for batch in (raw, raw[:1]):
        (found, _), wanted = segments.run(batch), plain.run(batch)
        for name, values in wanted.items():
            difference = float(np.abs(found[name].astype(np.float64) - values).max())
            if not difference <= TOLERANCE:  # NaN is no match
                raise ParityError(
                    f"the segments must predict what the plain graph predicts to within {TOLERANCE:g}, but {name} "
                    f"differs by {difference:.2g} for {len(batch)} samples: nothing was written"
                )
            largest = max(largest, difference)
    return largest


def _compared_samples(dataset: Dataset) -> Samples:
    return np.concatenate([split.inputs[:PARITY_SAMPLES] for split in (dataset.val, dataset.test)])


def _expected(
    method: Method, form: SampleForm, eval_exits: int, samples: Samples, temperature: float
) -> dict[str, NDArray[np.float64]]:
    prepare = Preparation(form.normalisation, len(form.spec.shape), torch.device("cpu"))
    aggregation = Aggregation(method.task, method.member_weights(eval_exits), temperature)
    with torch.inference_mode():
        prepared = prepare(samples)
        combined = aggregation(method.eval().shipped_outputs(prepared))
        outputs = dict(zip(aggregation.output_names, combined, strict=True))
        folded = (
            method.pruned(eval_exits).folded(form.spec.shape).eval()
        )  # its members are those of the graph, in order
        outputs[MEMBERS] = shown_probs(method.task, member_values(method.task, folded(prepared)))
    return {name: output.double().numpy() for name, output in outputs.items()}


def _standardised(task: Task, output: str, values: Output) -> NDArray[np.float64]:
    """Return an output without the units of the data, as the network learnt it.

    In units of the data, a difference would look small beside a large mean of the targets.
    """
    exact = values.astype(np.float64)
    if not isinstance(task, Regression):
        return exact
    mean, std = np.array(task.mean), np.array(task.std)
    if output == MEMBERS:  # (sample, member, [target,] mean and variance)
        return np.stack([(exact[..., 0] - mean) / std, exact[..., 1] / np.square(std)], axis=-1)
    if output == "mean":
        return np.asarray((exact - mean) / std)
    if output == "entropy":
        return exact - float(np.log(std).mean())
    if output == "disagreement" and mean.ndim:
        return exact  # of several targets, it has no unit
    unitless: NDArray[np.float64] = exact / np.square(std)
    return unitless
