"""Graphs of a stranger: they load, but do not predict what their manifest says."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GOLDEN = Path(__file__).parents[1] / "golden" / "study" / "shipped"
"""A classification of 16×16 gray images, 10 classes."""


def _graph(
    nodes: Sequence[onnx.NodeProto],
    constants: dict[str, np.ndarray],
    shape: Sequence[str | int],
    probs: Sequence[str | int] = ("n", 10),
) -> bytes:
    outputs: dict[str, Sequence[str | int]] = {"probs": probs, "entropy": ["n"], "disagreement": ["n"]}
    graph = helper.make_graph(
        nodes,
        "forged",
        [helper.make_tensor_value_info("pixels", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    content: bytes = model.SerializeToString()
    return content


def _means(constants: dict[str, np.ndarray]) -> list[onnx.NodeProto]:
    """The mean of each image, (n,), as `entropy` and `disagreement`."""
    constants["axes"] = np.array([1, 2, 3])
    return [
        helper.make_node("Cast", ["pixels"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["floats", "axes"], ["entropy"], keepdims=0),
        helper.make_node("Identity", ["entropy"], ["disagreement"]),
    ]


def nan_below(level: float, probs: Sequence[float] = (0.1,) * 10) -> bytes:
    """A graph that returns these probabilities, or NaN for an image whose mean is below a level."""
    constants = {
        "level": np.array(level, np.float32),
        "last": np.array([1]),
        "zero": np.array(0, np.float32),
        "always": np.array([probs], np.float32),
    }
    nodes = [
        *_means(constants),
        helper.make_node("Sub", ["entropy", "level"], ["above"]),
        helper.make_node("Sqrt", ["above"], ["root"]),
        helper.make_node("Mul", ["root", "zero"], ["nothing"]),
        helper.make_node("Unsqueeze", ["nothing", "last"], ["column"]),
        helper.make_node("Add", ["column", "always"], ["probs"]),
    ]
    return _graph(nodes, constants, ["n", 1, 16, 16])


def endless() -> bytes:
    """A graph that never returns."""
    constants = {"true": np.array(True), "always": np.full((1, 10), 0.1, np.float32)}
    values = [("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("v", TensorProto.FLOAT, ["n"])]
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["v"], ["w"])],
        "body",
        [helper.make_tensor_value_info(*value) for value in values],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, ["n"]),
        ],
    )
    nodes = [
        *_means(constants),
        helper.make_node("Loop", ["", "true", "entropy"], ["looped"], body=body),
        helper.make_node("Shape", ["pixels"], ["sizes"], start=0, end=1),
        helper.make_node("Unsqueeze", ["looped", "one"], ["column"]),
        helper.make_node("Add", ["column", "always"], ["probs"]),
    ]
    return _graph(nodes, {**constants, "one": np.array([1])}, ["n", 1, 16, 16])


def scalar() -> bytes:
    """A graph whose input is a single number."""
    constants = {"always": np.full((1, 10), 0.1, np.float32)}
    nodes = [
        helper.make_node("Identity", ["always"], ["probs"]),
        helper.make_node("Cast", ["pixels"], ["entropy"], to=TensorProto.FLOAT),
        helper.make_node("Identity", ["entropy"], ["disagreement"]),
    ]
    return _graph(nodes, constants, [])


def one_row() -> bytes:
    """A graph that returns one row of probabilities however many samples there are."""
    constants = {"always": np.full((1, 10), 0.1, np.float32)}
    nodes = [*_means(constants), helper.make_node("Identity", ["always"], ["probs"])]
    return _graph(nodes, constants, ["n", 1, 16, 16])


def odd_shape(sizes: Sequence[str | int], shape: Sequence[int]) -> bytes:
    """A graph whose probabilities say that they have these sizes, and have this shape."""
    constants = {"always": np.full((1, 10), 0.1, np.float32), "shape": np.array(shape)}
    nodes = [*_means(constants), helper.make_node("Reshape", ["always", "shape"], ["probs"])]
    return _graph(nodes, constants, ["n", 1, 16, 16], sizes)


def forge(folder: Path, content: bytes) -> Path:
    """Put a graph in the place of a shipped one, with a manifest that fits."""
    shutil.copytree(GOLDEN, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    path: Path = folder / manifest["graph"]["file"]
    path.write_bytes(content)
    manifest["graph"] |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    manifest["graph"]["outputs"] = ["probs", "entropy", "disagreement"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return path
