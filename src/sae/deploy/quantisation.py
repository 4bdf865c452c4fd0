"""Int8 graphs: static quantisation by onnxruntime, with the ranges of activations found on real samples."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from sae.core.errors import QuantisationError
from sae.data.dataset import Dataset
from sae.deploy.evaluation import Metrics
from sae.deploy.graph import quiet, without_frame
from sae.deploy.latency import BATCH, Effort, interleaved, session_maker
from sae.deploy.manifest import FloatPart, QuantisationPart
from sae.deploy.session import Output, Samples

if TYPE_CHECKING:
    from onnx import ModelProto

LAYERS = ("Conv", "Gemm", "MatMul")
"""Operations computed in eight bits; preprocessing, attention, BatchEnsemble's factors and averaging are not."""
SCHEME = "static QDQ, activations uint8, weights int8 per channel in 7 bits"
CALIBRATION_SAMPLES = 256
"""Training samples that set the ranges of activations."""
CALIBRATION_CHUNK = 64
QUANTISED_EFFORT = Effort(repeats=15, sessions=3)


def quantise(content: bytes, samples: Samples, input_name: str) -> bytes:
    """Return the int8 version of a graph as one file.

    Activations are unsigned, weights signed, per channel and in a reduced range, because sums of
    products would overflow on processors without VNNI. The heads stay in float32: they cost next
    to nothing, and eight bits are too few for a logit or a log-variance.

    Args:
        content: The float32 graph.
        samples: Raw samples that set the ranges of activations.
        input_name: Name of the graph's input.
    """
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    reader = _Reader(samples, input_name)
    with TemporaryDirectory() as folder, quiet():
        given, prepared, made = (Path(folder) / f"{name}.onnx" for name in ("given", "prepared", "made"))
        given.write_bytes(content)
        quant_pre_process(str(given), str(prepared), skip_symbolic_shape=True)
        names = layers_to_quantise(prepared.read_bytes())
        quantize_static(
            str(prepared),
            str(made),
            reader,
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            op_types_to_quantize=list(LAYERS),
            nodes_to_quantize=names,
        )
        return _without_traces(made.read_bytes())


def layers_to_quantise(content: bytes) -> list[str]:
    """Return the names of nodes that multiply by weights and feed another such node: all layers except the heads.

    The block-diagonal layers of streams stay in float32, too: onnxruntime has no 8-bit product of several matrices at
    once with one scale for each column.
    """
    import onnx

    graph = onnx.load_from_string(content).graph
    weights = {value.name: len(value.dims) for value in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    layers = [node for node in graph.node if node.op_type in LAYERS and node.input[1] in weights]
    single = [node for node in layers if node.op_type == "Conv" or weights[node.input[1]] <= 2]
    feeding: set[str] = set()
    seen: set[str] = set()
    waiting = [name for node in layers for name in node.input]
    while waiting:
        name = waiting.pop()
        if name in makers and name not in seen:
            seen.add(name)
            feeding.add(makers[name].name)
            waiting.extend(makers[name].input)
    return [node.name for node in single if node.name in feeding]


def range_samples(dataset: Dataset, seed: int) -> Samples:
    """Draw raw training samples to set the ranges of activations."""
    inputs = dataset.train.inputs
    chosen = np.random.default_rng(seed).permutation(len(inputs))[:CALIBRATION_SAMPLES]
    return without_frame(inputs[np.sort(chosen)], dataset.frame)


def check_finite(outputs: Mapping[str, Mapping[str, Output]]) -> None:
    """Refuse a graph with outputs that are not finite.

    Args:
        outputs: Outputs by split and name.
    """
    for split, values in outputs.items():
        for name, array in values.items():
            wrong = int((~np.isfinite(array)).any(axis=tuple(range(1, array.ndim))).sum())
            if wrong:
                raise QuantisationError(
                    f"the outputs of an int8 graph must be finite, but {name} is not for {wrong} of {len(array)} "
                    f"{split} samples: nothing was written; export without --int8"
                )


def describe_quantisation(
    content: bytes, quantised: bytes, metrics: dict[str, Metrics], num_samples: int
) -> QuantisationPart:
    """Compare an int8 graph with the float32 graph that it was made from, in size and time.

    Args:
        content: The float32 graph.
        quantised: The int8 graph.
        metrics: Metrics of the float32 graph by split.
        num_samples: Number of samples that set the ranges of activations.
    """
    timings = interleaved(
        {"float": session_maker(content, BATCH), "int8": session_maker(quantised, BATCH)}, QUANTISED_EFFORT
    )
    return QuantisationPart(
        scheme=SCHEME,
        calibration_samples=num_samples,
        float32=FloatPart(bytes=len(content), metrics=metrics),
        size_ratio=len(quantised) / len(content),
        time_ratio=timings["int8"].seconds / timings["float"].seconds,
        batch=BATCH,
    )


class _Reader:
    """Chunks of samples, as a calibration data reader of onnxruntime."""

    def __init__(self, samples: Samples, input_name: str) -> None:
        self._chunks = iter(
            [samples[start : start + CALIBRATION_CHUNK] for start in range(0, len(samples), CALIBRATION_CHUNK)]
        )
        self._name = input_name

    def get_next(self) -> dict[str, Samples] | None:
        """Return the next chunk by the name of the input, or None."""
        chunk = next(self._chunks, None)
        return None if chunk is None else {self._name: chunk}

    def __iter__(self) -> Iterator[dict[str, Samples]]:
        return iter(lambda: self.get_next(), None)


def _without_traces(content: bytes) -> bytes:
    """Remove traces of the machine from a graph."""
    import onnx

    model: ModelProto = onnx.load_from_string(content)
    model.producer_name = "sae"
    model.ClearField("metadata_props")
    model.graph.ClearField("value_info")
    for described in (model, model.graph, *model.graph.node):
        described.ClearField("doc_string")
    cleaned: bytes = model.SerializeToString()
    return cleaned
