import pytest
import torch

from sae.backbones import PlainNetwork, build_backbone
from sae.core.predictive import Categorical, aggregate
from sae.ensemble.network import ExitHeads, MultiExitNetwork, join_inputs, repeat_sample
from tests.builders import SHAPES, SMALL_BACKBONES, small_sae, spec_of


def test_resnet_with_two_inputs_and_all_exits_has_the_published_parameters() -> None:
    from sae.config.backbones import ResnetConfig

    with torch.device("meta"):
        network = MultiExitNetwork(build_backbone(ResnetConfig(), (3, 64, 64), 2), 2, 200)
    assert sum(parameter.numel() for parameter in network.parameters()) == 22_337_728


@pytest.mark.parametrize("backbone", SMALL_BACKBONES)
def test_outputs_are_ordered_batch_input_exit_out(backbone: str) -> None:
    method = small_sae(backbone, num_inputs=3, exits=2)
    assert method.network(torch.randn(5, 3, *SHAPES[backbone])).shape == (5, 3, method.depth, 3)


def test_batched_heads_are_separate_linears() -> None:
    heads = ExitHeads(depth=3, num_features=4, num_inputs=2, num_outputs=5)
    features = torch.randn(3, 6, 4)
    outputs = heads(features)
    for j in range(3):
        for i in range(2):
            torch.testing.assert_close(outputs[:, i, j], heads.linear(j, [i])(features[j]))


def test_a_shared_head_is_the_same_linear_at_every_exit() -> None:
    heads = ExitHeads(depth=3, num_features=4, num_inputs=2, num_outputs=5, is_shared=True)
    features = torch.randn(3, 6, 4)
    outputs, linear = heads(features), heads.linear(0, [0, 1])
    assert sum(parameter.numel() for parameter in heads.parameters()) == 2 * 5 * (4 + 1)
    for j in range(3):
        torch.testing.assert_close(outputs[:, :, j].flatten(1), linear(features[j]))


def test_inputs_are_joined_on_channels_in_their_order() -> None:
    x = torch.randn(2, 3, 4, 5, 5)
    torch.testing.assert_close(join_inputs(x), torch.cat([x[:, 0], x[:, 1], x[:, 2]], dim=1))


def test_a_repeated_sample_is_the_same_at_every_input() -> None:
    x = torch.randn(2, 4)
    assert (repeat_sample(x, 3) == x[:, None]).all()


@pytest.mark.parametrize("backbone", SMALL_BACKBONES)
def test_one_input_at_the_last_exit_is_the_plain_network(backbone: str) -> None:
    method = small_sae(backbone, num_inputs=1, exits=1)
    with torch.no_grad():
        method.exit_distribution.logits.zero_()  # a tie: the last exit is chosen
    plain = PlainNetwork(build_backbone(SMALL_BACKBONES[backbone], SHAPES[backbone]), 3)
    plain.backbone.load_state_dict(method.network.backbone.state_dict())
    readout, head = plain.exit
    readout.load_state_dict(method.network.connectors[-1].state_dict())
    last = method.network.heads.linear(method.depth - 1, [0])
    head.load_state_dict(last.state_dict())
    x = torch.randn(4, *SHAPES[backbone])
    members = method.predict_members(x)
    mixed = aggregate(spec_of(backbone).task, members.outputs, members.weights)
    assert isinstance(mixed, Categorical)
    torch.testing.assert_close(mixed.probs, plain.eval()(x).softmax(-1))
