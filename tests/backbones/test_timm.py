"""Networks of timm through wrap, a step of SAE, pruning and onnxruntime; skipped where timm is not installed."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from sae.backbones.wrapped import WrappedBackbone, wrap
from sae.config.methods import SaeConfig
from sae.deploy.graph import to_onnx
from sae.methods import Batch, build_method
from sae.methods.sae import Sae

timm = pytest.importorskip("timm")

SIDES = {"resnet18": 64, "mobilenetv3_small_100": 64, "convnext_atto": 64, "vit_tiny_patch16_224": 224}


def assert_features_are_those_of(module: nn.Module, backbone: WrappedBackbone, x: torch.Tensor) -> None:
    """Compare features of a backbone with what timm's forward_intermediates returns for the same stages."""
    named = [item["module"] for item in module.feature_info]  # type: ignore[union-attr]
    wanted = [named.index(name) for name in backbone.blueprint.exits]
    with torch.no_grad():
        returned = module.eval().forward_intermediates(x, indices=wanted, intermediates_only=True)  # type: ignore[operator]
        for found, other in zip(backbone.eval()(x), returned, strict=True):
            grid = other.shape[2] * other.shape[3]
            as_map = found if found.dim() == 4 else found[:, -grid:].transpose(1, 2).reshape(other.shape)
            torch.testing.assert_close(as_map, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIDES)
def test_a_network_of_timm_is_trained_pruned_and_exported(name: str, tmp_path: Path) -> None:
    shape = (3, SIDES[name], SIDES[name])
    module = timm.create_model(name, pretrained=False)
    backbone = wrap(module, torch.zeros(shape), outputs=10, pretrained=True)
    assert backbone.uncut_reason is None
    assert_features_are_those_of(module, backbone, torch.randn(2, *shape))
    method = build_method(SaeConfig(inputs=2, exits=2), backbone, backbone.spec)
    assert isinstance(method, Sae)
    x = torch.randn(4, *shape)
    method.training_loss(Batch(x, torch.arange(4)), 0.5, torch.Generator().manual_seed(0)).total.backward()
    assert [key for key, parameter in method.named_parameters() if parameter.grad is None] == []
    method.eval()
    num_operations = []
    for index in (0, method.depth - 1):
        pruned = method.pruned_to([2 if place == index else 0 for place in range(method.depth)])
        content = to_onnx(pruned.folded(shape).eval(), torch.zeros(2, *shape), "x", ["members"])
        with torch.no_grad():
            whole = method.network(torch.stack([x, x], dim=1))
        expected = torch.stack([whole[:, i, j] for i, j in pruned.members], dim=1).numpy()
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / f"{index}.onnx")
        found = onnxruntime.InferenceSession(content, options).run(None, {"x": x.numpy()})[0]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        num_operations.append(len(onnx.load(tmp_path / f"{index}.onnx").graph.node))
    assert num_operations[0] < num_operations[1] / 2
