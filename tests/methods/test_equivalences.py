"""Methods that are the same network in a special case. SAE with one input and the last exit is in tests/ensemble."""

import pytest
import torch
from torch import Tensor

from sae.backbones import PlainNetwork
from sae.backbones.surgery import weight_layers
from sae.config.methods import BatchEnsembleConfig, McDropoutConfig, StandardConfig
from sae.core.predictive import Categorical, aggregate
from sae.core.task import Shape
from sae.methods import Method, build_method
from sae.methods.batch_ensemble import BatchEnsemble, RankOneLayer
from sae.methods.deep_ensemble import DeepEnsemble
from sae.methods.mc_dropout import McDropout
from tests.builders import SHAPES, SMALL_BACKBONES, SPEC, small_sae, spec_of

every_backbone = pytest.mark.parametrize("backbone", SMALL_BACKBONES)


def standard_network(backbone: str) -> PlainNetwork:
    """Built with the same seed as what it is compared with, and after it has seen some data."""
    method = build_method(StandardConfig(), SMALL_BACKBONES[backbone], spec_of(backbone))
    assert isinstance(method, DeepEnsemble)
    network = method.network.members[0]
    assert isinstance(network, PlainNetwork)
    return seen_data(network, SHAPES[backbone])


def seen_data(network: PlainNetwork, shape: Shape) -> PlainNetwork:
    with torch.no_grad():
        network.train()(torch.randn(16, *shape, generator=torch.Generator().manual_seed(0)))
    return network.eval()


def probs(method: Method, x: Tensor) -> Tensor:
    mixed = aggregate(SPEC.task, method.member_outputs(x), method.member_weights())
    assert isinstance(mixed, Categorical)
    return mixed.probs


@every_backbone
@torch.no_grad()
def test_mc_dropout_that_drops_nothing_is_the_standard_network(backbone: str) -> None:
    method = build_method(McDropoutConfig(rate=0), SMALL_BACKBONES[backbone], spec_of(backbone))
    assert isinstance(method, McDropout)
    x = torch.randn(4, *SHAPES[backbone])
    with method.source.drawing_from(torch.Generator()):
        seen_data(method.network.network, SHAPES[backbone])
    method.eval()
    torch.testing.assert_close(probs(method, x), standard_network(backbone)(x).softmax(dim=-1))


@every_backbone
@torch.no_grad()
def test_batch_ensemble_of_equal_members_is_the_standard_network(backbone: str) -> None:
    method = build_method(BatchEnsembleConfig(members=3), SMALL_BACKBONES[backbone], spec_of(backbone))
    assert isinstance(method, BatchEnsemble)
    for module in method.network.modules():
        if isinstance(module, RankOneLayer):
            module.r.fill_(1.0)
            module.s.fill_(1.0)  # biases are equal from the start
    x = torch.randn(4, *SHAPES[backbone])
    seen_data(method.network.network, SHAPES[backbone])
    method.eval()
    torch.testing.assert_close(probs(method, x), standard_network(backbone)(x).softmax(dim=-1), rtol=1e-4, atol=1e-6)


@every_backbone
@torch.no_grad()
def test_sae_with_one_input_and_all_exits_is_an_early_exit_ensemble(backbone: str) -> None:
    method = small_sae(backbone, num_inputs=1, exits=SMALL_BACKBONES[backbone].depth)
    method.exit_distribution.logits.zero_()  # uniform θ
    x = torch.randn(4, *SHAPES[backbone])
    exits = zip(method.network.connectors, method.network.backbone(x), strict=True)
    answers = [
        method.network.heads.linear(j, [0])(connector(feature)).softmax(dim=-1)
        for j, (connector, feature) in enumerate(exits)
    ]
    torch.testing.assert_close(probs(method, x), torch.stack(answers).mean(dim=0), rtol=1e-4, atol=1e-6)


@every_backbone
def test_methods_of_one_seed_start_from_the_same_layers(backbone: str) -> None:
    """What makes the comparisons above comparisons of like with like."""
    network = standard_network(backbone)
    method = build_method(McDropoutConfig(), SMALL_BACKBONES[backbone], spec_of(backbone))
    assert isinstance(method, McDropout)
    pairs = zip(weight_layers(network), weight_layers(method.network.network), strict=True)
    for one, other in pairs:
        mine, theirs = network.get_submodule(one), method.network.network.get_submodule(other)
        assert torch.equal(mine.get_parameter("weight"), theirs.get_parameter("weight"))
