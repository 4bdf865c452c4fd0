import pytest
import torch
from torch import nn

from sae.backbones import build_backbone
from sae.backbones.streams import BlockLinear, in_streams
from sae.backbones.surgery import without_batch_norm
from sae.config.backbones import BACKBONES, FcConfig, VggConfig
from sae.config.methods import PackedConfig, StandardConfig
from sae.core.errors import ConfigError
from sae.core.predictive import make_guidance, member_loss
from sae.core.task import Classification
from sae.methods import Batch, build_method
from sae.methods.costing import cost_of
from sae.methods.packed import Packed
from sae.training.trainer import Trainer
from tests.builders import SHAPES, SMALL_BACKBONES, SPEC, blobs, run_config, spec_of

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
                assert streams.get_submodule(name).weight.numel() * share == layer.weight.numel()  # type: ignore[union-attr, operator]


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
