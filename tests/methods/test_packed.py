import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sae.backbones import build_backbone
from sae.backbones.streams import BlockLinear, in_streams
from sae.config.backbones import BACKBONES, FcConfig, VggConfig
from sae.config.methods import PackedConfig, SaeConfig, StandardConfig
from sae.core.errors import ConfigError
from sae.core.predictive import Categorical, aggregate, make_guidance, member_loss
from sae.core.task import Classification
from sae.ensemble.network import ExitHeads
from sae.ensemble.training import mix_indices
from sae.methods import Batch, build_method
from sae.methods.costing import cost_of
from sae.methods.packed import Packed
from sae.methods.sae import Sae
from sae.training.trainer import Trainer
from tests.builders import SHAPES, SMALL_BACKBONES, SPEC, blobs, run_config, spec_of
from tests.networks import without_batch_norm

STREAMED = [entry.name for entry in BACKBONES if entry.settings.can_stream]
every_streamed = pytest.mark.parametrize("backbone", STREAMED)


def packed(backbone: str, members: int = 2) -> Packed:
    method = build_method(PackedConfig(members=members), SMALL_BACKBONES[backbone], spec_of(backbone))
    assert isinstance(method, Packed)
    return method


@pytest.mark.parametrize("backbone", ["fc", "vgg"])
def test_a_packed_ensemble_of_one_trains_as_the_standard_network(backbone: str) -> None:
    dataset = blobs(Classification(3), shape=SHAPES[backbone])
    found = []
    for settings in (PackedConfig(members=1), StandardConfig()):
        config = run_config(backbone=SMALL_BACKBONES[backbone].model_dump(), train={"epochs": 2, "batch_size": 32})
        method = build_method(settings, config.backbone, dataset.spec)
        trainer = Trainer(method, dataset, config)
        log = [trainer.train_epoch(epoch) for epoch in range(2)]
        found.append((log, method.eval().member_outputs(torch.ones(2, *SHAPES[backbone]))))
    assert found[0][0] == found[1][0]
    assert torch.equal(found[0][1], found[1][1])


@every_streamed
def test_streams_share_nothing_behind_the_stem(backbone: str) -> None:
    method = packed(backbone).eval()
    network = method.network
    x = network.backbone.stem(torch.randn(3, *SHAPES[backbone])).detach().requires_grad_()
    features = x
    for stage in network.backbone.stages:
        features = stage(features)
    outputs = network.exit(features).unflatten(1, (2, -1))  # (batch, stream, out)
    for stream in range(2):
        (gradient,) = torch.autograd.grad(outputs[:, stream].square().sum(), x, retain_graph=True)
        by_stream = gradient.unflatten(1, (2, -1)).flatten(2).abs().sum(dim=(0, 2))
        assert by_stream[stream] > 0
        assert by_stream[1 - stream] == 0


@every_streamed
def test_inner_layers_cost_a_share_of_one_over_g(backbone: str) -> None:
    plain = build_backbone(SMALL_BACKBONES[backbone], SHAPES[backbone])
    for groups in (2, 4):
        streams = in_streams(plain, groups)
        for name, layer in plain.named_modules():
            if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
                share = 1 if name.startswith("stem.") else groups
                assert streams.get_submodule(name).weight.numel() * share == layer.weight.numel()  # type: ignore[operator]


def test_the_cost_of_a_packed_network_is_the_closed_form() -> None:
    out, depth = 10, 3
    for width, groups in ((1, 2), (2, 4), (4, 4)):
        features, inputs = 128 * width, 2 * 8 * 8
        cost = cost_of(PackedConfig(members=groups), FcConfig(width=width, depth=depth), (2, 8, 8), out)
        stem = inputs * features + features + features
        inner = features * features // groups + features + 2 * features + features + features  # bias, norm, ReLU, add
        head = features // groups * groups * out + groups * out
        assert cost.flops == stem + depth * inner + head
        assert cost.params == inputs * features + features + depth * (features**2 // groups + 3 * features) + head


def test_twice_the_width_in_four_streams_costs_the_inner_layers_of_one_network() -> None:
    plain = cost_of(StandardConfig(), VggConfig(), (3, 32, 32), 10).by_part
    wide = cost_of(PackedConfig(members=4), VggConfig(width=2), (3, 32, 32), 10).by_part
    for stage, height in ((2, 16), (3, 8), (4, 4), (5, 2)):
        channels = (4, 8, 16, 32, 32)[stage - 1]
        others = (4 if stage < 5 else 3) * channels * height**2  # norm, ReLU and pool, which grow with the width
        assert wide[f"stage_{stage}"].flops - 2 * others == plain[f"stage_{stage}"].flops - others


def test_the_loss_is_the_mean_over_streams_each_with_its_teacher() -> None:
    method = packed("fc", members=4).eval()
    x, targets = torch.randn(5, *SPEC.shape), torch.tensor([0, 1, 2, 1, 0])
    guidance = make_guidance(SPEC.task, torch.randn(5, 3, 3), None, weight=0.5, temperature=2.0)
    loss = method.training_loss(Batch(x, targets, guidance=guidance), 0.0, torch.Generator()).total
    outputs = method.member_outputs(x)
    losses = [
        member_loss(SPEC.task, outputs[:, stream], targets, guidance.of_all(stream % 3)).mean() for stream in range(4)
    ]
    torch.testing.assert_close(loss, torch.stack(losses).mean())


def streams(backbone: str, num_inputs: int = 2, num_streams: int = 2, exits: int = 2) -> Sae:
    settings = SaeConfig(inputs=num_inputs, exits=exits, streams=num_streams)
    method = build_method(settings, SMALL_BACKBONES[backbone], spec_of(backbone))
    assert isinstance(method, Sae)
    with torch.no_grad():
        method.exit_distribution.logits.normal_(std=0.1, generator=torch.Generator().manual_seed(1))
        method.train().network(torch.randn(16, num_inputs, *SHAPES[backbone]))
    return method.eval()


@every_streamed
def test_members_of_an_sae_in_streams_are_streams_inputs_and_exits(backbone: str) -> None:
    method = streams(backbone)
    members = method.predict_members(torch.randn(4, *SHAPES[backbone]))
    assert members.outputs.shape == (4, 2 * 2 * method.depth, 3)
    assert members.weights.sum().item() == pytest.approx(1.0)
    assert (members.weights.view(4, -1) > 0).sum(dim=1).tolist() == [2] * 4  # K exits for each stream and input


@every_streamed
def test_an_sae_in_streams_predicts_the_same_pruned_folded_and_fused(backbone: str) -> None:
    method, x = streams(backbone), torch.randn(4, *SHAPES[backbone])
    for k in method.exit_choices:
        whole = aggregate(SPEC.task, method.member_outputs(x), method.member_weights(k))
        pruned = method.pruned(k)
        folded = pruned.folded(SHAPES[backbone])
        for network in (pruned, folded, without_batch_norm(folded, SHAPES[backbone])):
            found = aggregate(SPEC.task, network(x), network.weights)
            assert isinstance(found, Categorical)
            assert isinstance(whole, Categorical)
            torch.testing.assert_close(found.probs, whole.probs, rtol=1e-4, atol=1e-6)


def test_a_stream_of_an_sae_never_reads_another_at_any_exit() -> None:
    method = streams("vgg", num_inputs=2, num_streams=2)
    features = method.network.backbone(torch.randn(3, 4, 8, 8))
    vectors = torch.stack([c(f) for c, f in zip(method.network.connectors, features, strict=True)]).detach()
    vectors.requires_grad_()
    outputs = method.network.heads(vectors).unflatten(1, (2, 2))  # (batch, stream, input, exit, out)
    for stream in range(2):
        (gradient,) = torch.autograd.grad(outputs[:, stream].square().sum(), vectors, retain_graph=True)
        by_stream = gradient.unflatten(2, (2, -1)).abs().sum(dim=(0, 1, 3))
        assert by_stream[stream] > 0
        assert by_stream[1 - stream] == 0


def test_heads_of_streams_are_the_naive_loop() -> None:
    heads = ExitHeads(3, 8, num_inputs=2, num_outputs=5, num_streams=4)
    features = torch.randn(3, 6, 8)
    outputs = heads(features)  # (batch, slot, exit, out)
    for stream in range(4):
        for i in range(2):
            for j in range(3):
                slot = stream * 2 + i
                own = features[j, :, stream * 2 : stream * 2 + 2]
                rows = slice(slot * 5, slot * 5 + 5)
                expected = own @ heads.weight[j, rows].T + heads.bias[j, rows]
                torch.testing.assert_close(outputs[:, slot, j], expected, rtol=1e-4, atol=1e-5)


def test_one_input_and_one_exit_in_streams_cost_what_a_packed_ensemble_costs() -> None:
    settings = SaeConfig(inputs=1, exits=1, streams=4)
    for backbone, shape in ((FcConfig(width=2), (2, 8, 8)), (VggConfig(width=2), (3, 32, 32))):
        one, other = cost_of(settings, backbone, shape, 10), cost_of(PackedConfig(members=4), backbone, shape, 10)
        assert (one.flops, one.params) == (other.flops, other.params)


def test_inputs_of_streams_see_their_own_targets() -> None:
    method = streams("fc", num_inputs=2, num_streams=4)
    x, targets = torch.randn(4, *SPEC.shape), torch.tensor([0, 1, 2, 0])
    loss = method.training_loss(Batch(x, targets), 0.5, torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(0)
    index = mix_indices(4, 2, method.repetition, method.settings.repeat_fraction.at(0.5), generator)
    outputs = method.network(x[index])  # (position, slot, exit, out)
    weights = method.exit_distribution.sample(2, method.settings.temperature.at(0.5), generator)
    total = torch.tensor(0.0)
    for slot in range(8):
        for j in range(method.depth):
            nll = F.cross_entropy(outputs[:, slot, j], targets[index[:, slot % 2]])
            total = total + weights[slot, j] * nll
    torch.testing.assert_close(loss.terms["data_fit"], total)


def test_an_sae_in_streams_says_so() -> None:
    config = run_config(method={"name": "sae", "inputs": 1, "exits": 1, "streams": 4})
    assert (config.kind, config.summary) == ("STREAMS", "N=1 K=1 G=4 W=1 D=2")
    with pytest.raises(ConfigError, match=r"method.streams must be 1 with method.shared_head or method.trim, got 2"):
        run_config(method={"name": "sae", "streams": 2, "shared_head": True})


def test_features_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"divide into 3 streams, got a layer of 128 → 128: choose another"):
        build_method(PackedConfig(members=3), FcConfig(), SPEC)


def test_backbones_that_mix_features_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"method.members must be 1 on vit, whose layers mix all features, got 4"):
        run_config(method={"name": "packed"}, backbone={"name": "vit"})


def test_a_block_diagonal_layer_fuses_with_its_norm() -> None:
    method = packed("fc").eval()
    shape = SHAPES["fc"]
    x = torch.randn(4, *shape)
    fused = without_batch_norm(method.pruned(), shape)
    assert not any(isinstance(module, nn.BatchNorm1d) for module in fused.modules())
    assert sum(isinstance(module, BlockLinear) for module in fused.modules()) == 4
    torch.testing.assert_close(fused(x), method.member_outputs(x), rtol=1e-4, atol=1e-5)


def test_a_single_stream_is_the_backbone_itself() -> None:
    plain = build_backbone(SMALL_BACKBONES["vgg"], SHAPES["vgg"])
    assert in_streams(plain, 1) is plain
