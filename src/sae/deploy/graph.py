"""The exported graph: raw samples → preprocessing → folded network → prediction, and its ONNX file."""

import contextlib
import functools
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from sae.backbones import MemberNetwork
from sae.backbones.dry_run import attention_in_steps
from sae.core.collection import paused_collection
from sae.core.predictive import Categorical, Gaussian, Predictive, aggregate, member_values
from sae.core.task import Classification, DataSpec, MultiLabel, SampleKind, Shape, Task
from sae.data.batches import standardise_each
from sae.data.dataset import Depth, Normalisation
from sae.deploy.session import MEMBERS
from sae.measure.uncertainty import disagreement, entropy
from sae.methods import Method

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

CLASS_OUTPUTS = ("probs", "entropy", "disagreement")
VALUE_OUTPUTS = ("mean", "variance", "entropy", "disagreement")
INPUT_NAMES = {SampleKind.IMAGES: "pixels", SampleKind.SIGNALS: "signals", SampleKind.TABLE: "features"}
MARK = "shipped_"
"""Prefix of an output's name during export, so that it cannot clash with a value inside the graph."""


class SampleForm(Protocol):
    """The form of the samples that a graph takes. A `Dataset` is one."""

    @property
    def spec(self) -> DataSpec:
        """Shape of a prepared sample, and the task."""

    @property
    def normalisation(self) -> Normalisation:
        """Applied to every sample."""

    @property
    def frame(self) -> int:
        """Black pixels to add on each side of a new image."""

    @property
    def depth(self) -> Depth:
        """Bits of a channel of an image."""


class Preprocessing(nn.Module):
    """A black frame, then (x − mean) / std, and optionally a standardisation of each image by itself.

    As in training, the frame is black before normalisation.

    Tables and signals are normalised in float64 and then rounded, as in training.

    Shape: (batch, *raw) in the type of `sample_dtype` → (batch, *sample) in float32.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, normalisation: Normalisation, num_dimensions: int, frame: int = 0) -> None:
        super().__init__()
        shape = (-1, *[1] * (num_dimensions - 1))  # channels first, or features
        self.frame, self.each_image = frame, normalisation.each_image
        dtype = torch.float32 if num_dimensions == 3 else torch.float64  # pixels fit into float32
        self.register_buffer("shift", torch.tensor(normalisation.mean, dtype=dtype).view(shape))
        self.register_buffer("scale", torch.tensor(normalisation.std, dtype=dtype).view(shape).reciprocal())

    def forward(self, x: Tensor) -> Tensor:
        """Return samples as the network was trained on them."""
        x = x.to(self.shift.dtype)
        normalised = ((F.pad(x, [self.frame] * 4) if self.frame else x) - self.shift) * self.scale
        prepared = normalised.to(torch.float32)
        return standardise_each(prepared) if self.each_image else prepared


class Aggregation(nn.Module):
    """Member outputs → one prediction and its uncertainty, defined as in evaluation.

    A temperature scales the joint prediction and its entropy. The disagreement of members does not depend on it.

    Shape: (batch, member, out) → `CLASS_OUTPUTS` or `VALUE_OUTPUTS`, (batch, class) or (batch[, target]) each.
    """

    weights: Tensor

    def __init__(self, task: Task, weights: Tensor, temperature: float = 1.0) -> None:
        super().__init__()
        self.task, self.temperature = task, temperature
        self.register_buffer("weights", weights.detach().clone())

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return CLASS_OUTPUTS if isinstance(self.task, Classification) else VALUE_OUTPUTS

    def forward(self, outputs: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs in the order of `output_names`."""
        predictive = aggregate(self.task, outputs, self.weights)
        if self.temperature != 1.0:
            predictive = tempered(predictive, self.temperature)
        doubt = entropy(predictive), disagreement(self.task, outputs, self.weights)
        if isinstance(predictive, Categorical):
            return shown_probs(self.task, predictive.probs), *doubt
        return predictive.mean, predictive.variance, *doubt


def tempered(predictive: Predictive, temperature: float) -> Predictive:
    """Return a prediction at a temperature, in float32 as the graph computes it; see `sae.analysis.temperature`."""
    if isinstance(predictive, Categorical):
        return Categorical((predictive.log_probs / temperature).log_softmax(dim=-1))
    return Gaussian(predictive.mean, predictive.variance * temperature)


class ShippedGraph(nn.Module):
    """Preprocessing, the network and aggregation; it also returns every member's prediction, (batch, member, out).

    Args:
        network: The network, in evaluation mode.
        dataset: The samples that it takes.
        temperature: T of temperature scaling; 1 for none.
    """

    def __init__(self, network: MemberNetwork, dataset: SampleForm, temperature: float = 1.0) -> None:
        super().__init__()
        shape = dataset.spec.shape
        self.preprocessing = Preprocessing(dataset.normalisation, len(shape), dataset.frame)
        self.network = network
        self.aggregation = Aggregation(dataset.spec.task, network.weights, temperature)
        self.output_names = (*self.aggregation.output_names, MEMBERS)
        self.eval()

    def forward(self, samples: Tensor) -> tuple[Tensor, ...]:
        """Compute (batch, *raw) → the outputs, in the order of `output_names`."""
        outputs: Tensor = self.network(self.preprocessing(samples))
        task = self.aggregation.task
        return *self.aggregation(outputs), shown_probs(task, member_values(task, outputs))


def shown_probs(task: Task, values: Tensor) -> Tensor:
    """Return values of members as a graph gives them: of several labels, only the probability that each holds."""
    return values[..., 1] if isinstance(task, MultiLabel) else values


def raw_shape(dataset: SampleForm) -> Shape:
    """Return the shape of one raw sample, without the frame that reading added."""
    shape, frame = dataset.spec.shape, dataset.frame
    return shape if not frame else (shape[0], shape[1] - 2 * frame, shape[2] - 2 * frame)


def without_frame(images: NDArray[np.number], frame: int) -> NDArray[np.number]:
    """Remove the frame that reading added, to get raw images. Other samples have no frame."""
    return images[:, :, frame:-frame, frame:-frame] if frame else images


def shipped_content(method: Method, dataset: SampleForm, eval_exits: int, temperature: float = 1.0) -> bytes:
    """Export a method at K′ exits, pruned and folded, as an ONNX file; its predictions are at a temperature."""
    folded = method.pruned(eval_exits).folded(dataset.spec.shape)
    return graph_content(ShippedGraph(folded, dataset, temperature), dataset)


def graph_content(graph: ShippedGraph, dataset: SampleForm) -> bytes:
    """Export a graph that takes the raw samples of a data set as an ONNX file."""
    example, name = example_input(dataset)
    return to_onnx(graph, example, name, graph.output_names)


def sample_dtype(dataset: SampleForm) -> Literal["uint8", "float32", "float64"]:
    """Return the type in which a graph takes raw samples: pixels, or the numbers of a table or a signal."""
    if dataset.spec.kind is not SampleKind.IMAGES:
        return "float64"
    return "uint8" if dataset.depth == 8 else "float32"


def example_input(dataset: SampleForm) -> tuple[Tensor, str]:
    """Return a batch of two raw samples to trace a graph with, and the name of the graph's input."""
    dtype = getattr(torch, sample_dtype(dataset))
    return torch.zeros((2, *raw_shape(dataset)), dtype=dtype), INPUT_NAMES[dataset.spec.kind]


def to_onnx(module: nn.Module, example: Tensor, input_name: str, output_names: Sequence[str]) -> bytes:
    """Export a module as one self-contained ONNX file with a free batch size.

    The exporter folds a BatchNorm into the Linear or convolution right before it. Facts about the machine,
    such as paths of source files, are removed.

    Args:
        module: The module, in evaluation mode; it takes `example`.
        example: (2, *sample). A batch of one would become a constant.
        input_name: Name of the input.
        output_names: Names of the outputs.
    """
    with torch.no_grad(), attention_in_steps(), quiet(), _operators_kept(), paused_collection():
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
    model: ModelProto = program.model_proto
    model.producer_name = "sae"
    graph = model.graph
    graph.ClearField("value_info")
    _name_outputs(graph, output_names)
    for described in (model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        described.ClearField("doc_string")
        described.ClearField("metadata_props")  # paths of source files
    content: bytes = model.SerializeToString()
    return content


@contextlib.contextmanager
def _operators_kept() -> Iterator[None]:
    """Let the exporter keep its table of operators, which takes longer to build than a small graph to export."""
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        build = vars(ONNXRegistry)["from_torchlib"]
    except (ImportError, KeyError):  # another version of torch: every export builds its own
        yield
        return
    setattr(ONNXRegistry, "from_torchlib", staticmethod(_kept(ONNXRegistry.from_torchlib)))  # noqa: B010
    try:
        yield
    finally:
        setattr(ONNXRegistry, "from_torchlib", build)  # noqa: B010


@functools.cache
def _kept(build: Callable[..., object]) -> Callable[..., object]:
    return functools.cache(build)


def _name_outputs(graph: "GraphProto", names: Sequence[str]) -> None:
    """Rename the outputs.

    The exporter lets them clash with values of the same name inside the graph; a mean over tokens, for
    example, is called `mean`.
    """
    renamed = {name: f"inner_{name}" for name in names} | {MARK + name: name for name in names}
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    for value in (*graph.initializer, *graph.output):
        value.name = renamed.get(value.name, value.name)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings, log lines and prints of exporters. Their exceptions are still raised."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            with contextlib.redirect_stderr(io.StringIO()):
                yield
    finally:
        logging.disable(before)
