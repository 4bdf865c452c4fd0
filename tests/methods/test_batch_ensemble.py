import copy

import pytest
import torch
from torch import Tensor, nn

from sae.backbones import PlainNetwork, build_backbone
from sae.backbones.surgery import WeightLayer
from sae.config.methods import BatchEnsembleConfig, StandardConfig
from sae.config.run import parse_run, suit_method
from sae.measure.cost import measure_cost
from sae.methods import Batch, build_method
from sae.methods.batch_ensemble import BatchEnsemble, RankOneLayer, with_rank_one_factors
from sae.methods.costing import cost_of
from tests.builders import SHAPE, SHAPES, SMALL_BACKBONES, spec_of

M = 3
LAYERS: dict[str, tuple[WeightLayer, tuple[int, ...]]] = {
    "linear": (nn.Linear(6, 4), (6,)),
    "linear over tokens": (nn.Linear(6, 4, bias=False), (5, 6)),
    "conv": (nn.Conv2d(6, 4, 3), (6, 7, 8)),
    "conv with stride and padding": (nn.Conv2d(6, 4, 3, stride=2, padding=1, bias=False), (6, 7, 8)),
    "conv in groups": (nn.Conv2d(6, 4, 3, padding=1, groups=2), (6, 7, 8)),
    "conv in one dimension": (nn.Conv1d(6, 4, 3, dilation=2), (6, 9)),
}
every_layer = pytest.mark.parametrize("name", LAYERS)
every_backbone = pytest.mark.parametrize("backbone", SMALL_BACKBONES)


def rank_one(name: str) -> tuple[RankOneLayer, WeightLayer, tuple[int, ...]]:
    """A layer of members that are far apart, the layer it was made of, and the shape of its input."""
    own, shape = LAYERS[name]
    layer = RankOneLayer(copy.deepcopy(own), M)
    with torch.no_grad():
        for parameter in (layer.r, layer.s, layer.bias):
            if parameter is not None:
                parameter.normal_()
    return layer, own, shape


def member_weight(layer: RankOneLayer, own: WeightLayer, member: int) -> Tensor:
    """W ∘ (s rᵀ), one output at a time."""
    weight = own.weight.detach().clone()
    groups = 1 if isinstance(own, nn.Linear) else own.groups
    fan_in, per_group = weight.shape[1], weight.shape[0] // groups
    for out in range(weight.shape[0]):
        first = (out // per_group) * fan_in
        for index in range(fan_in):
            weight[out, index] *= layer.s[member, out].item() * layer.r[member, first + index].item()
    return weight


@every_layer
@pytest.mark.parametrize("num_rows", [1, 2, 6, 8])
@torch.no_grad()
def test_a_layer_is_a_loop_over_members(name: str, num_rows: int) -> None:
    layer, own, shape = rank_one(name)
    x = torch.randn(num_rows, *shape)
    outputs = layer(x)
    for row in range(num_rows):
        member = row % M
        single = copy.deepcopy(own)
        single.weight.copy_(member_weight(layer, own, member))
        if layer.bias is not None:
            assert single.bias is not None
            single.bias.copy_(layer.bias[member])
        torch.testing.assert_close(outputs[row], single(x[row : row + 1])[0], rtol=1e-4, atol=1e-5)


@every_layer
def test_members_start_near_the_layer_and_from_its_bias(name: str) -> None:
    own, _ = LAYERS[name]
    layer = RankOneLayer(copy.deepcopy(own), 64)
    for factor in (layer.r, layer.s):
        assert factor.mean().item() == pytest.approx(1.0, abs=0.003)
        assert factor.std().item() == pytest.approx(0.01, rel=0.25)
    assert (layer.bias is None) == (own.bias is None)
    if layer.bias is not None and own.bias is not None:
        assert torch.equal(layer.bias, own.bias.detach().expand(64, -1))


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleDict({"a": nn.Sequential(nn.Linear(4, 4), nn.ModuleList([nn.Conv2d(1, 1, 1)]))})
        self.deep = nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(4, 4))))


def test_layers_are_replaced_however_deep_they_are() -> None:
    replaced = with_rank_one_factors(Nested(), 2)  # type: ignore[arg-type]
    outside = [
        module
        for parent in replaced.modules()
        if not isinstance(parent, RankOneLayer)
        for module in parent.children()
        if isinstance(module, WeightLayer)
    ]
    assert outside == []
    assert sum(isinstance(module, RankOneLayer) for module in replaced.modules()) == 3


@every_backbone
def test_no_layer_of_a_backbone_is_left_out(backbone: str) -> None:
    network = PlainNetwork(build_backbone(SMALL_BACKBONES[backbone], SHAPES[backbone]), 3)
    num_layers = sum(isinstance(module, WeightLayer) for module in network.modules())
    replaced = with_rank_one_factors(network, 2)
    assert sum(isinstance(module, RankOneLayer) for module in replaced.modules()) == num_layers


@pytest.mark.parametrize("num_samples", [2, 3, 7, 12])
def test_shares_differ_by_at_most_one_and_cover_all_samples(num_samples: int) -> None:
    method = batch_ensemble("fc", members=5)
    seen: list[Tensor] = []
    head = method.network.network.get_submodule("exit.1")
    assert isinstance(head, RankOneLayer)
    assert head.bias is not None
    with torch.no_grad():
        head.layer.weight.zero_()
        head.bias.copy_(torch.arange(5.0)[:, None].expand(5, 3))  # a member puts out its number
    head.register_forward_hook(lambda _, __, output: seen.append(output[:, 0]))
    inputs = torch.randn(num_samples, *SHAPE)
    method.training_loss(Batch(inputs, torch.zeros(num_samples).long()), 0.0, torch.Generator())
    shares = torch.bincount(seen[0].long(), minlength=5)
    assert shares.sum().item() == num_samples
    assert shares.max() - shares.min() <= 1


@every_backbone
def test_every_sample_of_a_batch_has_a_gradient(backbone: str) -> None:
    method = batch_ensemble(backbone).train()
    inputs = torch.randn(7, *SHAPES[backbone], requires_grad=True)
    method.training_loss(Batch(inputs, torch.arange(7) % 3), 0.0, torch.Generator()).total.backward()
    assert inputs.grad is not None
    assert (inputs.grad.flatten(1).abs().sum(dim=1) > 0).all()


@every_backbone
@torch.no_grad()
def test_prediction_asks_every_member_of_every_sample(backbone: str) -> None:
    method, x = batch_ensemble(backbone, members=M), torch.randn(4, *SHAPES[backbone])
    outputs = method.member_outputs(x)
    for member in range(M):
        for sample in range(4):
            rows = torch.zeros(M, *SHAPES[backbone])
            rows[member] = x[sample]  # alone in the row of its member
            expected = method.network.network(rows)[member]
            torch.testing.assert_close(outputs[sample, member], expected, rtol=1e-4, atol=1e-5)


@every_backbone
@pytest.mark.parametrize("members", [1, 4])
def test_cost_is_members_times_the_standard_network_and_the_rank_one_products(backbone: str, members: int) -> None:
    settings = SMALL_BACKBONES[backbone]
    standard = cost_of(StandardConfig(), settings, SHAPES[backbone], 3)
    cost = cost_of(BatchEnsembleConfig(members=members), settings, SHAPES[backbone], 3)
    numel, params = _layer_sizes(backbone, members)
    assert cost.flops == members * standard.flops + members * numel
    assert cost.params == standard.params + params
    assert cost == measure_cost(batch_ensemble(backbone, members).pruned(), SHAPES[backbone])


@pytest.mark.parametrize(
    ("suggested", "given", "expected"),
    [
        ({}, {"method": {"name": "batch_ensemble"}}, 72),
        ({"train": {"batch_size": 128}}, {"method": "batch_ensemble"}, 144),
        ({"train": {"batch_size": 128}}, {"method": {"name": "mc_dropout"}}, 128),
        ({"train": {"batch_size": 100}}, {"method": {"name": "batch_ensemble"}}, 100),
        ({}, {"method": {"name": "batch_ensemble"}, "train": {"batch_size": 64}}, 64),
    ],
)
def test_batches_can_be_shared_evenly_unless_said_otherwise(
    suggested: dict[str, object], given: dict[str, object], expected: int
) -> None:
    base = {"data": {"name": "digits"}, "backbone": {"name": "fc"}, "method": {"name": "sae"}}
    assert parse_run(base, suit_method(suggested, given), given).train.batch_size == expected


def batch_ensemble(backbone: str, members: int = 4) -> BatchEnsemble:
    method = build_method(BatchEnsembleConfig(members=members), SMALL_BACKBONES[backbone], spec_of(backbone)).eval()
    assert isinstance(method, BatchEnsemble)
    return method


def _layer_sizes(backbone: str, members: int) -> tuple[int, int]:
    """Σ (numel in + numel out) over the layers of a standard network, and the parameters members add."""
    network, numel, params = PlainNetwork(build_backbone(SMALL_BACKBONES[backbone], SHAPES[backbone]), 3).eval(), 0, 0

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal numel, params
        numel += inputs[0].numel() + output.numel()
        axis = -1 if isinstance(layer, nn.Linear) else 1
        params += members * (inputs[0].shape[axis] + output.shape[axis])
        params += 0 if layer.bias is None else (members - 1) * output.shape[axis]

    for module in network.modules():
        if isinstance(module, WeightLayer):
            module.register_forward_hook(count)
    network(torch.zeros(1, *SHAPES[backbone]))
    return numel, params
