import pytest
import torch

from sae.backbones import PlainNetwork, build_backbone
from sae.core.predictive import Categorical, aggregate
from sae.ensemble.network import ExitHeads, MultiExitNetwork, join_inputs, repeat_sample
from sae.methods import build_method
from sae.methods.sae import Sae
from tests.builders import SHAPES, SMALL_BACKBONES, run_config, small_sae, spec_of


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


def gradients_of(method: Sae, x: torch.Tensor, exits: slice) -> dict[str, torch.Tensor]:
    """The gradient of every parameter for a loss of some exits alone."""
    method.zero_grad()
    method.network(x)[:, :, exits].square().sum().backward()
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in method.network.named_parameters()
    }


@pytest.mark.parametrize("backbone", SMALL_BACKBONES)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_share_of_the_gradients_of_early_exits_reaches_the_stages(backbone: str, share: float) -> None:
    method = small_sae(backbone, num_inputs=2, exits=2)
    x = torch.randn(4, 2, *SHAPES[backbone])
    early, last = (gradients_of(method, x, exits) for exits in (slice(0, -1), slice(-1, None)))
    whole = method.network(x)
    method.network.exit_gradient = share
    assert torch.equal(method.network(x), whole)
    for name, found in gradients_of(method, x, slice(None)).items():
        reaching = share if name.startswith("backbone.") else 1.0
        torch.testing.assert_close(found, last[name] + reaching * early[name], rtol=1e-4, atol=1e-4)
    assert any(early[name].any() for name in early if name.startswith("backbone."))


def test_the_setting_reaches_the_network() -> None:
    config = run_config(method={"name": "sae", "exit_gradient": 0.25})
    method = build_method(config.method, config.backbone, spec_of("fc"), 0)
    assert isinstance(method, Sae)
    assert method.network.exit_gradient == 0.25
    assert "exit gradient=0.25" in config.summary
    assert "exit_gradient" not in run_config(method={"name": "sae", "exit_gradient": 1.0}).model_dump()["method"]
