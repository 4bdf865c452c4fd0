"""Exported networks that others wrote: fewer operations where they end earlier, and the same predictions."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from sae.backbones.wrapped import wrap
from sae.config.methods import SaeConfig
from sae.deploy.graph import to_onnx
from sae.ensemble.pruning import PrunedNetwork
from sae.methods import build_method
from sae.methods.sae import Sae
from tests.modules import EXAMPLES, Example

QUICK = ("mlp", "skips")
NAMES = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in EXAMPLES]


def exported(network: PrunedNetwork, example: Example) -> bytes:
    return to_onnx(network.folded(example.shape).eval(), torch.zeros(2, *example.shape), "x", ["members"])


def run(content: bytes, x: Tensor) -> NDArray[np.float32]:
    outputs: NDArray[np.float32] = onnxruntime.InferenceSession(content).run(None, {"x": x.numpy()})[0]
    return outputs


@pytest.mark.parametrize("name", NAMES)
def test_a_network_that_ends_earlier_runs_fewer_operations_and_predicts_the_same(name: str) -> None:
    example = EXAMPLES[name]
    backbone = wrap(example.make, example.sample, example.exits, outputs=3)
    method = build_method(SaeConfig(inputs=2, exits=2), backbone, backbone.spec).eval()
    assert isinstance(method, Sae)
    x = torch.randn(5, *example.shape)
    num_operations, num_weights = [], []
    for active in ([2, 0, 0], [0, 2, 0], [0, 0, 2]):
        pruned = method.pruned_to(active)
        content = exported(pruned, example)
        with torch.no_grad():
            whole = method.network(torch.stack([x, x], dim=1))
        expected = torch.stack([whole[:, i, j] for i, j in pruned.members], dim=1)
        for count in (5, 1):
            np.testing.assert_allclose(run(content, x[:count]), expected[:count].numpy(), rtol=1e-4, atol=1e-5)
        graph = onnx.load_from_string(content).graph
        num_operations.append(len(graph.node))
        num_weights.append(sum(int(np.prod(item.dims)) for item in graph.initializer))
    assert num_operations == sorted(set(num_operations))
    assert num_weights == sorted(set(num_weights))
