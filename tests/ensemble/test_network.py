import pytest
import torch

from sae.backbones import PlainNetwork, build_backbone
from sae.core.errors import ConfigError
from sae.core.predictive import Categorical, Gaussian, aggregate
from sae.ensemble.exits import ExitHeads
from sae.ensemble.network import MultiExitNetwork, join_inputs, repeat_sample
from sae.ensemble.pruning import PrunedNetwork, active_counts
from sae.measure.cost import measure_cost
from tests.builders import REGRESSION_SPEC, SHAPE, SMALL_BACKBONES, SPEC, small_sae


def test_resnet_with_two_inputs_and_all_exits_has_the_published_parameters() -> None:
    from sae.config.backbones import ResnetConfig

    with torch.device("meta"):
        network = MultiExitNetwork(build_backbone(ResnetConfig(), (3, 64, 64), 2), 2, 200)
    assert sum(parameter.numel() for parameter in network.parameters()) == 22_337_728


@pytest.mark.parametrize("backbone", SMALL_BACKBONES)
def test_outputs_are_ordered_batch_input_exit_out(backbone: str) -> None:
    method = small_sae(backbone, num_inputs=3, max_exits=2)
    assert method.network(torch.randn(5, 3, *SHAPE)).shape == (5, 3, method.depth, 3)


def test_batched_heads_are_separate_linears() -> None:
    heads = ExitHeads(depth=3, num_features=4, num_inputs=2, num_outputs=5)
    features = torch.randn(3, 6, 4)
    outputs = heads(features)
    for j in range(3):
        for i in range(2):
            torch.testing.assert_close(outputs[:, i, j], heads.linear(j, [i])(features[j]))


def test_inputs_are_joined_on_channels_in_their_order() -> None:
    x = torch.randn(2, 3, 4, 5, 5)
    torch.testing.assert_close(join_inputs(x), torch.cat([x[:, 0], x[:, 1], x[:, 2]], dim=1))


def test_a_repeated_sample_is_the_same_at_every_input() -> None:
    x = torch.randn(2, 4)
    assert (repeat_sample(x, 3) == x[:, None]).all()


@pytest.mark.parametrize("backbone", SMALL_BACKBONES)
def test_one_input_at_the_last_exit_is_the_plain_network(backbone: str) -> None:
    method = small_sae(backbone, num_inputs=1, max_exits=1)
    with torch.no_grad():
        method.exits.logits.zero_()  # a tie: the last exit is chosen
    plain = PlainNetwork(build_backbone(SMALL_BACKBONES[backbone], SHAPE), 3)
    plain.backbone.load_state_dict(method.network.backbone.state_dict())
    readout, head = plain.exit
    readout.load_state_dict(method.network.connectors[-1].state_dict())
    last = method.network.heads.linear(method.depth - 1, [0])
    head.load_state_dict(last.state_dict())
    x = torch.randn(4, *SHAPE)
    members = method.predict_members(x)
    mixed = aggregate(SPEC.task, members.outputs, members.weights)
    assert isinstance(mixed, Categorical)
    torch.testing.assert_close(mixed.probs, plain.eval()(x).softmax(-1))


@pytest.mark.parametrize("backbone", SMALL_BACKBONES)
@pytest.mark.parametrize("num_inputs", [1, 2, 3])
def test_pruned_predicts_what_the_masked_network_does_at_every_k(backbone: str, num_inputs: int) -> None:
    for seed in range(2):
        method = small_sae(backbone, num_inputs, max_exits=1, seed=seed)
        x = torch.randn(4, *SHAPE)
        for k in method.exit_choices:
            pruned = method.pruned(k)
            masked = aggregate(SPEC.task, method.member_outputs(x), method.member_weights(k))
            direct = aggregate(SPEC.task, pruned(x), pruned.weights)
            assert isinstance(masked, Categorical)
            assert isinstance(direct, Categorical)
            torch.testing.assert_close(direct.probs, masked.probs, rtol=1e-4, atol=1e-6)


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


@pytest.mark.parametrize("backbone", SMALL_BACKBONES)
def test_pruning_leaves_nothing_behind_the_last_used_exit(backbone: str) -> None:
    method = small_sae(backbone, num_inputs=2, max_exits=1)
    weights = torch.zeros(2, method.depth)
    weights[:, 0] = 1.0
    pruned = PrunedNetwork(method.network, weights)
    assert len(pruned.stages) == 1
    assert list(pruned.exits) == ["0"]
    assert measure_cost(pruned, SHAPE).params < measure_cost(method.pruned(method.depth), SHAPE).params


def test_pruning_keeps_only_the_head_rows_in_use() -> None:
    method = small_sae("fc", num_inputs=3, max_exits=1)
    pruned = method.pruned_to([1, 0, 2])
    rows = {name: len(value) for name, value in pruned.state_dict().items() if name.endswith("head.bias")}
    assert rows == {"exits.0.head.bias": 3, "exits.2.head.bias": 6}
    assert pruned.members == ((0, 0), (0, 2), (1, 2))


def test_pruning_leaves_the_network_itself_alone() -> None:
    method = small_sae("fc", num_inputs=2, max_exits=1)
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
        small_sae("fc", num_inputs=2, max_exits=1).pruned_to(active)
