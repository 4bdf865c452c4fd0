"""Eight-bit graphs: static quantisation by onnxruntime, calibrated on real samples."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sae.core.errors import QuantisationError
from sae.data.dataset import Array, Dataset
from sae.deploy.graph import quiet, without_frame
from sae.deploy.latency import BATCH, Effort, interleaved, session_maker
from sae.deploy.manifest import FloatPart, QuantisationPart

LAYERS = ("Conv", "Gemm", "MatMul")
"""What is computed in eight bits; preprocessing, attention, BatchEnsemble's factors and the averaging are not."""
SCHEME = "static QDQ, activations uint8, weights int8 per channel in 7 bits"
NUM_SAMPLES = 256
"""Training samples by which the ranges of activations are found."""
CHUNK = 64
EFFORT = Effort(repeats=15, sessions=3)


def quantise(content: bytes, samples: Array, input_name: str) -> bytes:
    """An eight-bit version of a graph, one file.

    Unsigned activations and signed weights, per channel, in a reduced range: without it sums of
    products overflow on processors that lack VNNI. The heads stay as they are: they cost next to
    nothing, and eight bits of a logit or a log-variance are too few.

    Args:
        content: The graph in float32.
        samples: What it takes; the ranges of activations are found with them.
        input_name: Of the graph's input.
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
    """Names of the nodes that multiply by weights and feed another such: all layers but the heads."""
    import onnx

    graph = onnx.load_from_string(content).graph
    weights = {value.name for value in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    layers = [node for node in graph.node if node.op_type in LAYERS and weights.intersection(node.input[1:2])]
    feeding: set[str] = set()
    seen: set[str] = set()
    waiting = [name for node in layers for name in node.input]
    while waiting:
        name = waiting.pop()
        if name in makers and name not in seen:
            seen.add(name)
            feeding.add(makers[name].name)
            waiting.extend(makers[name].input)
    return [node.name for node in layers if node.name in feeding]


def calibration_samples(dataset: Dataset, seed: int) -> Array:
    """Training samples as they come, spread over the split."""
    inputs = dataset.train.inputs
    chosen = np.random.default_rng(seed).permutation(len(inputs))[:NUM_SAMPLES]
    return without_frame(inputs[np.sort(chosen)], dataset.frame)


def check_finite(outputs: dict[str, dict[str, Array]]) -> None:
    """Refuse a graph that says something that is no number."""
    for split, values in outputs.items():
        for name, array in values.items():
            wrong = int((~np.isfinite(array)).any(axis=tuple(range(1, array.ndim))).sum())
            if wrong:
                raise QuantisationError(
                    f"an int8 graph must put out finite numbers, however {name} is not for {wrong} of {len(array)} "
                    f"{split} samples: nothing was written; export without --int8"
                )


def describe_quantisation(
    content: bytes, quantised: bytes, metrics: dict[str, dict[str, float]], samples: int
) -> QuantisationPart:
    """What an eight-bit graph was made from, and how long it takes beside that.

    Args:
        content: The graph in float32.
        quantised: The graph that is shipped.
        metrics: Of the graph in float32, by split.
        samples: That it was calibrated with.
    """
    timings = interleaved({"float": session_maker(content, BATCH), "int8": session_maker(quantised, BATCH)}, EFFORT)
    return QuantisationPart(
        scheme=SCHEME,
        calibration_samples=samples,
        float32=FloatPart(bytes=len(content), metrics=metrics),
        size_ratio=len(quantised) / len(content),
        time_ratio=timings["int8"].seconds / timings["float"].seconds,
        batch=BATCH,
    )


class _Reader:
    """Hands out chunks of samples, as onnxruntime asks for them."""

    def __init__(self, samples: Array, input_name: str) -> None:
        self._chunks = iter([samples[start : start + CHUNK] for start in range(0, len(samples), CHUNK)])
        self._name = input_name

    def get_next(self) -> dict[str, Array] | None:
        """The next chunk by the name of the input, or None."""
        chunk = next(self._chunks, None)
        return None if chunk is None else {self._name: chunk}

    def __iter__(self) -> Iterator[dict[str, Array]]:
        return iter(lambda: self.get_next(), None)


def _without_traces(content: bytes) -> bytes:
    import onnx

    model: Any = onnx.load_from_string(content)
    model.producer_name = "sae"
    model.ClearField("metadata_props")
    model.graph.ClearField("value_info")
    for described in (model, model.graph, *model.graph.node):
        described.ClearField("doc_string")
    cleaned: bytes = model.SerializeToString()
    return cleaned
