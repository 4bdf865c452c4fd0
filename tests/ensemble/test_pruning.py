"""Pruned and folded networks: what they predict and what they cost."""

import pytest
import torch
from torch import nn

from sae.backbones import PlainNetwork, build_backbone
from sae.config.methods import SaeConfig
from sae.core.errors import ConfigError
from sae.core.predictive import Categorical, Gaussian, aggregate
from sae.ensemble.pruning import PrunedNetwork, active_counts, folded_stem
from sae.measure.cost import measure_cost, measure_shipped_cost
from sae.methods import build_method
from sae.methods.sae import Sae
from tests.builders import (
    REGRESSION_SPEC,
    SHAPE,
    SHAPES,
    SMALL_BACKBONES,
    SMALL_METHODS,
    small_method,
    small_sae,
    spec_of,
)
from tests.networks import without_batch_norm

every_backbone = pytest.mark.parametrize("backbone", SMALL_BACKBONES)


@every_backbone
@pytest.mark.parametrize("num_inputs", [1, 2, 3])
def test_pruned_predicts_what_the_masked_network_does_at_every_k(backbone: str, num_inputs: int) -> None:
    for seed in range(2):
        method = small_sae(backbone, num_inputs, exits=1, seed=seed)
        x = torch.randn(4, *SHAPES[backbone])
        for k in method.exit_choices:
            pruned = method.pruned(k)
            masked = aggregate(spec_of(backbone).task, method.member_outputs(x), method.member_weights(k))
            direct = aggregate(spec_of(backbone).task, pruned(x), pruned.weights)
            assert isinstance(masked, Categorical)
            assert isinstance(direct, Categorical)
            torch.testing.assert_close(direct.probs, masked.probs, rtol=1e-4, atol=1e-6)


@every_backbone
@pytest.mark.parametrize("num_inputs", [1, 3])
@torch.no_grad()
def test_a_shared_head_is_pruned_folded_and_counted_once(backbone: str, num_inputs: int) -> None:
    settings = SaeConfig(inputs=num_inputs, exits=1, shared_head=True)
    method = build_method(settings, SMALL_BACKBONES[backbone], spec_of(backbone)).eval()
    assert isinstance(method, Sae)
    method.exit_distribution.logits.normal_(std=0.1, generator=torch.Generator().manual_seed(0))
    x, shape = torch.randn(4, *SHAPES[backbone]), SHAPES[backbone]
    for k in method.exit_choices:
        pruned = method.pruned(k)
        masked = (method.member_outputs(x).softmax(-1) * method.member_weights(k)[:, None]).sum(dim=1)
        for network in (pruned, pruned.folded(shape)):
            mixed = (network(x).softmax(-1) * network.weights[:, None]).sum(dim=1)
            torch.testing.assert_close(mixed, masked, rtol=1e-4, atol=1e-6)
        cost = measure_cost(pruned, shape)
        assert cost == measure_cost(method.pruned_to(method.active_counts(k)), shape)
        heads = (method.network.heads.weight.shape[-1] + 1) * 3 * num_inputs
        connectors = sum(tensor.numel() for name, tensor in pruned.named_parameters() if ".connector." in name)
        exits = sum(part.params for name, part in cost.by_part.items() if name.startswith("exit"))
        assert exits == connectors + heads
        assert cost.params == sum(parameter.numel() for parameter in pruned.parameters())
        assert sum(part.params for part in cost.by_part.values()) == cost.params


def test_pruned_regression_predicts_what_the_masked_network_does() -> None:
    method = small_sae("fc", 2, 2, spec=REGRESSION_SPEC)
    x = torch.randn(4, *SHAPE)
    pruned = method.pruned()
    masked = aggregate(REGRESSION_SPEC.task, method.member_outputs(x), method.member_weights())
    direct = aggregate(REGRESSION_SPEC.task, pruned(x), pruned.weights)
    assert isinstance(masked, Gaussian)
    assert isinstance(direct, Gaussian)
    torch.testing.assert_close(direct.mean, masked.mean)
    torch.testing.assert_close(direct.variance, masked.variance)


@every_backbone
def test_pruning_leaves_nothing_behind_the_last_used_exit(backbone: str) -> None:
    method = small_sae(backbone, num_inputs=2, exits=1)
    weights = torch.zeros(2, method.depth)
    weights[:, 0] = 1.0
    pruned = PrunedNetwork(method.network, weights)
    assert len(pruned.stages) == 1
    assert list(pruned.exits) == ["0"]
    assert (
        measure_cost(pruned, SHAPES[backbone]).params
        < measure_cost(method.pruned(method.depth), SHAPES[backbone]).params
    )


def test_pruning_keeps_only_the_head_rows_in_use() -> None:
    method = small_sae("fc", num_inputs=3, exits=1)
    pruned = method.pruned_to([1, 0, 2])
    rows = {name: len(value) for name, value in pruned.state_dict().items() if name.endswith("head.bias")}
    assert rows == {"exits.0.head.bias": 3, "exits.2.head.bias": 6}
    assert pruned.members == ((0, 0), (0, 2), (1, 2))


def test_pruning_leaves_the_network_itself_alone() -> None:
    method = small_sae("fc", num_inputs=2, exits=1)
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    with torch.no_grad():
        for parameter in method.pruned().parameters():
            parameter.zero_()
    for name, tensor in method.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_active_counts_say_how_many_inputs_use_each_exit() -> None:
    assert active_counts(torch.tensor([[0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])) == (0, 1, 2)


@pytest.mark.parametrize("active", [[1, 1], [0, 0, 0], [3, 0, 0], [-1, 1, 1]])
def test_active_counts_that_cannot_be_are_refused(active: list[int]) -> None:
    with pytest.raises(ConfigError, match=r"active must hold 3 counts in \[0, 2\]"):
        small_sae("fc", num_inputs=2, exits=1).pruned_to(active)


@every_backbone
@pytest.mark.parametrize("num_inputs", [1, 2, 3, 4])
@torch.no_grad()
def test_folded_predicts_what_the_pruned_network_predicts_of_a_repeated_sample(backbone: str, num_inputs: int) -> None:
    method = small_sae(backbone, num_inputs, 2)
    x = torch.randn(5, *SHAPES[backbone], dtype=torch.float64)
    for k in method.exit_choices:
        pruned = method.pruned(k).double()
        torch.testing.assert_close(pruned.folded(SHAPES[backbone])(x), pruned(x), rtol=1e-10, atol=1e-10)


@every_backbone
@torch.no_grad()
def test_folding_loses_nothing_that_float32_holds(backbone: str) -> None:
    pruned, x = small_sae(backbone, 4, 2).pruned(), torch.randn(5, *SHAPES[backbone])
    torch.testing.assert_close(pruned.folded(SHAPES[backbone])(x), pruned(x), rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_a_layer_norm_with_a_scale_for_each_input_folds_with_its_own_eps() -> None:
    """Inputs so small that eps decides what comes out."""
    norm = nn.LayerNorm(6, eps=1e-2)
    norm.weight.normal_()
    norm.bias.normal_()
    stem = nn.Sequential(norm, nn.Linear(6, 4)).double()
    x = 0.1 * torch.randn(5, 2, dtype=torch.float64)
    torch.testing.assert_close(folded_stem(stem, 3)(x), stem(x.repeat(1, 3)), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("stem", "problem"),
    [
        (nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 4)), "before its first layer are the layers 0"),
        (nn.Sequential(nn.Conv2d(6, 6, 1, groups=3)), "its first convolution has 3 groups"),
        (nn.Sequential(nn.LayerNorm(6), nn.Conv2d(6, 4, 1)), "its LayerNorm is followed by Conv2d"),
        (nn.Sequential(nn.ReLU()), "it has no such layer"),
    ],
)
def test_a_stem_that_cannot_be_folded_is_refused(stem: nn.Module, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        folded_stem(stem, 3)


@every_backbone
@pytest.mark.parametrize("name", SMALL_METHODS)
@torch.no_grad()
def test_folded_is_what_the_method_says_it_ships(name: str, backbone: str) -> None:
    method, x = small_method(name, backbone).eval(), torch.randn(4, *SHAPES[backbone])
    folded, weights = method.pruned().folded(SHAPES[backbone]), method.member_weights()
    expected = (weights[:, None] * method.shipped_outputs(x).softmax(dim=-1)).sum(dim=1)
    actual = (folded.weights[:, None] * folded(x).softmax(dim=-1)).sum(dim=1)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


@every_backbone
@torch.no_grad()
def test_fixed_masks_are_those_of_a_sample_alone_and_the_same_for_all(backbone: str) -> None:
    method, x = small_method("mc_dropout", backbone).eval(), torch.randn(1, *SHAPES[backbone])
    folded = method.pruned().folded(SHAPES[backbone])
    torch.testing.assert_close(folded(x), method.member_outputs(x), rtol=1e-5, atol=1e-6)
    twice = folded(x.repeat(2, *[1] * len(SHAPES[backbone])))
    torch.testing.assert_close(twice[0], twice[1])
    assert not torch.allclose(twice[0, 0], twice[0, 1]), "members differ"


@every_backbone
@torch.no_grad()
def test_without_batch_norm_predicts_the_same(backbone: str) -> None:
    network, x = small_sae(backbone, 2, 2).pruned().folded(SHAPES[backbone]), torch.randn(4, *SHAPES[backbone])
    fused = without_batch_norm(network, SHAPES[backbone])
    assert not [module for module in fused.modules() if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)]
    torch.testing.assert_close(fused(x), network(x), rtol=1e-4, atol=1e-5)
    assert all(parameter.requires_grad for parameter in fused.parameters()), "a new bias is a parameter like others"


@every_backbone
@pytest.mark.parametrize("num_inputs", [2, 4])
def test_a_shipped_stem_costs_what_a_single_networks_does(backbone: str, num_inputs: int) -> None:
    method = small_sae(backbone, num_inputs, 1)
    at_last = method.pruned_to([0] * (method.depth - 1) + [1])
    shipped = measure_shipped_cost(at_last, SHAPES[backbone]).by_part["stem"]
    plain = PlainNetwork(build_backbone(SMALL_BACKBONES[backbone], SHAPES[backbone]), 3).eval()
    single = measure_cost(without_batch_norm(plain.backbone, SHAPES[backbone]), SHAPES[backbone]).by_part["stem"]
    extra_tokens = (num_inputs - 1) * 192 if backbone == "vit" else 0  # N class tokens, each with a position
    assert shipped.params == single.params + 2 * extra_tokens
    assert shipped.flops == single.flops


@every_backbone
def test_shipping_never_costs_more_and_leaves_the_papers_count_alone(backbone: str) -> None:
    pruned = small_sae(backbone, 3, 2).pruned()
    before = measure_cost(pruned, SHAPES[backbone])
    shipped = measure_shipped_cost(pruned, SHAPES[backbone])
    assert measure_cost(pruned, SHAPES[backbone]) == before
    assert shipped.params < before.params
    assert shipped.flops < before.flops


@every_backbone
@pytest.mark.parametrize("used", [[0], [1], [0, 2], [2]])
def test_inputs_without_members_leave_the_stem_and_change_no_prediction(backbone: str, used: list[int]) -> None:
    method = small_sae(backbone, num_inputs=3, exits=1)
    weights = torch.zeros(3, method.depth)
    weights[used, -1] = 1.0 / len(used)
    whole, narrow = PrunedNetwork(method.network, weights), PrunedNetwork(method.network, weights, used)
    x = torch.randn(4, *SHAPES[backbone])
    torch.testing.assert_close(narrow(x), whole(x), rtol=1e-4, atol=1e-5)
    shape = SHAPES[backbone]
    torch.testing.assert_close(narrow.folded(shape)(x), whole.folded(shape)(x), rtol=1e-4, atol=1e-5)
    assert measure_cost(narrow, shape).flops < measure_cost(whole, shape).flops
    assert measure_shipped_cost(narrow, shape).flops == measure_shipped_cost(whole, shape).flops
    assert narrow.num_inputs == len(used)
