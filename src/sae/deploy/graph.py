"""The network that is exported, from samples as they come to what a user reads."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sae.backbones import MemberNetwork
from sae.core.predictive import Categorical, aggregate
from sae.core.task import Classification, DataSpec, Shape, Task
from sae.data.dataset import Array, Dataset, Normalisation
from sae.measure.uncertainty import disagreement, entropy
from sae.methods import Method

CLASS_OUTPUTS = ("probs", "entropy", "disagreement")
VALUE_OUTPUTS = ("mean", "variance", "entropy", "disagreement")
MARK = "shipped_"
"""In front of an output's name while it might clash with another."""


class SampleForm(Protocol):
    """All that a graph needs to know of the samples that it takes; a `Dataset` is one."""

    @property
    def spec(self) -> DataSpec:
        """Shape of a prepared sample, and the task."""

    @property
    def normalisation(self) -> Normalisation:
        """Applied to every sample."""

    @property
    def frame(self) -> int:
        """Black pixels on each side that new images need."""


class Preprocessing(nn.Module):
    """A black frame, then (x − mean) / std: the frame is black before it is normalised, as in training.

    Shape: (batch, *raw) in uint8 or float32 → (batch, *sample) in float32.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, normalisation: Normalisation, num_dimensions: int, frame: int = 0) -> None:
        super().__init__()
        shape = (-1, *[1] * (num_dimensions - 1))  # channels first, or features
        self.frame = frame
        self.register_buffer("shift", torch.tensor(normalisation.mean, dtype=torch.float32).view(shape))
        self.register_buffer("scale", torch.tensor(normalisation.std, dtype=torch.float32).view(shape).reciprocal())

    def forward(self, x: Tensor) -> Tensor:
        """What the network was trained on."""
        x = x.to(torch.float32)
        return ((F.pad(x, [self.frame] * 4) if self.frame else x) - self.shift) * self.scale


class Aggregation(nn.Module):
    """Member outputs → one answer and its uncertainty, by the definitions that evaluation uses.

    Shape: (batch, member, out) → `CLASS_OUTPUTS` or `VALUE_OUTPUTS`, (batch, class) or (batch,) each.
    """

    weights: Tensor

    def __init__(self, task: Task, weights: Tensor) -> None:
        super().__init__()
        self.task = task
        self.register_buffer("weights", weights.detach().clone())

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the outputs are called."""
        return CLASS_OUTPUTS if isinstance(self.task, Classification) else VALUE_OUTPUTS

    def forward(self, outputs: Tensor) -> tuple[Tensor, ...]:
        """In the order of `output_names`."""
        predictive = aggregate(self.task, outputs, self.weights)
        doubt = entropy(predictive), disagreement(self.task, outputs, self.weights)
        if isinstance(predictive, Categorical):
            return predictive.probs, *doubt
        return predictive.mean, predictive.variance, *doubt


class ShippedGraph(nn.Module):
    """Preprocessing, the folded network, aggregation.

    Args:
        network: Folded, in evaluation mode.
        dataset: Whose samples it takes.
    """

    def __init__(self, network: MemberNetwork, dataset: SampleForm) -> None:
        super().__init__()
        shape = dataset.spec.shape
        self.preprocessing = Preprocessing(dataset.normalisation, len(shape), dataset.frame)
        self.network = network
        self.aggregation = Aggregation(dataset.spec.task, network.weights)
        self.eval()

    def forward(self, samples: Tensor) -> tuple[Tensor, ...]:
        """(batch, *raw) → the outputs in the order of the aggregation's names."""
        outputs: tuple[Tensor, ...] = self.aggregation(self.network(self.preprocessing(samples)))
        return outputs


def raw_shape(dataset: SampleForm) -> Shape:
    """One sample as it comes: without the frame that reading added."""
    shape, frame = dataset.spec.shape, dataset.frame
    return shape if not frame else (shape[0], shape[1] - 2 * frame, shape[2] - 2 * frame)


def without_frame(images: Array, frame: int) -> Array:
    """Images as they come, from images as they were read; a table's samples have no frame."""
    return images[:, :, frame:-frame, frame:-frame] if frame else images


def shipped_content(method: Method, dataset: Dataset, max_exits: int) -> bytes:
    """The graph that would be shipped of a method at K′ exits."""
    return graph_content(ShippedGraph(method.pruned(max_exits).folded(dataset.spec.shape), dataset), dataset)


def graph_content(graph: ShippedGraph, dataset: Dataset) -> bytes:
    """The ONNX file of a graph that takes a data set's samples as they come."""
    is_image = len(dataset.spec.shape) == 3
    example = torch.zeros((2, *raw_shape(dataset)), dtype=torch.uint8 if is_image else torch.float32)
    return to_onnx(graph, example, "pixels" if is_image else "features", graph.aggregation.output_names)


def to_onnx(module: nn.Module, example: Tensor, input_name: str, output_names: Sequence[str]) -> bytes:
    """One self-contained file whose batch size is free.

    BatchNorm right behind a Linear or convolution goes into that layer: the exporter does it.

    Args:
        module: In evaluation mode; takes `example`.
        example: (2, *sample): a batch of one would be taken for a constant.
        input_name: What the input is called.
        output_names: What the outputs are called.
    """
    with torch.no_grad(), quiet():
        program = torch.onnx.export(
            module,
            (example,),
            dynamo=True,
            dynamic_shapes=({0: "batch"},),
            input_names=[input_name],
            output_names=[MARK + name for name in output_names],
            external_data=False,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    model.producer_name = "sae"
    graph = model.graph
    graph.ClearField("value_info")
    _name_outputs(graph, output_names)
    for described in (model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        described.ClearField("doc_string")
        described.ClearField("metadata_props")  # where in whose source it came from
    content: bytes = model.SerializeToString()
    return content


def _name_outputs(graph: Any, names: Sequence[str]) -> None:
    """Call the outputs what they are; the exporter itself lets them clash with values of the same name inside.

    A token mean, for one, is called `mean`.
    """
    renamed = {name: f"inner_{name}" for name in names} | {MARK + name: name for name in names}
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    for value in (*graph.initializer, *graph.output):
        value.name = renamed.get(value.name, value.name)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Neither warnings, nor log lines, nor prints of exporters; what they raise is raised."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            with contextlib.redirect_stderr(io.StringIO()):
                yield
    finally:
        logging.disable(before)
