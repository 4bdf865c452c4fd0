"""Exported networks that others wrote: fewer operations where they end earlier, and the same predictions."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from sae.backbones.wrapped import wrap
from sae.config.methods import SaeConfig
from sae.core.errors import ConfigError, UncutWarning
from sae.deploy.graph import ShippedGraph, to_onnx, without_frame
from sae.deploy.segments import SegmentedNetwork
from sae.ensemble.pruning import PrunedNetwork
from sae.methods import build_method
from sae.methods.sae import Sae
from tests.deploy.models import digits
from tests.modules import EXAMPLES, Example, SkipEncoder

pytestmark = pytest.mark.long

QUICK = ("mlp",)
NAMES = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in EXAMPLES]


def skipping() -> Sae:
    """An SAE whose later stages need more than the features of the exit before them."""
    shape = digits().spec.shape
    backbone = wrap(lambda: SkipEncoder(shape[0]), torch.zeros(shape), EXAMPLES["skips"].exits)
    method = build_method(SaeConfig(inputs=2, exits=2), backbone, digits().spec).eval()
    assert isinstance(method, Sae)
    return method


def test_segments_pass_on_all_that_later_ones_need() -> None:
    method = skipping()
    network = SegmentedNetwork(method.pruned_to([1, 0, 2]), digits())
    plain = ShippedGraph(method.pruned_to([1, 0, 2]).folded(digits().spec.shape), digits())
    raw = torch.from_numpy(without_frame(digits().test.inputs[:6], digits().frame).copy())
    with torch.no_grad():
        probs, left = network(raw)
        torch.testing.assert_close(probs, plain(raw)[0])
    assert left.tolist() == [1] * 6
    assert network.flops[0] < network.flops[1]


def in_one_piece() -> PrunedNetwork:
    shape = digits().spec.shape
    with pytest.warns(UncutWarning, match="differs between training and evaluation"):
        backbone = wrap(lambda: OnePiece(shape[0]), torch.zeros(shape), ["first", "second"])
    method = build_method(SaeConfig(inputs=2, exits=2), backbone, digits().spec).eval()
    assert isinstance(method, Sae)
    return method.pruned_to([1, 1])


def test_a_module_in_one_piece_has_no_adaptive_exits() -> None:
    with pytest.raises(ConfigError, match="can be cut between its exits, but this one stays in one piece: outside"):
        SegmentedNetwork(in_one_piece(), digits())


@pytest.mark.slow
def test_a_module_in_one_piece_is_exported() -> None:
    pruned, shape = in_one_piece(), digits().spec.shape
    x = torch.randn(3, *shape)
    content = to_onnx(pruned.folded(shape).eval(), torch.zeros(2, *shape), "x", ["members"])
    with torch.no_grad():
        np.testing.assert_allclose(run(content, x), pruned(x).numpy(), rtol=1e-4, atol=1e-5)


class OnePiece(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, 4, 3), nn.Conv2d(4, 4, 3)
        self.last = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(F.dropout(F.relu(self.first(x)), 0.1, self.training))
        return self.last(x.mean((2, 3)))  # type: ignore[no-any-return]


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
    for active in ([2, 0, 0], [2, 2, 0], [2, 2, 2]):
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
