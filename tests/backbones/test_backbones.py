from itertools import pairwise

import pytest
import torch
from torch import nn

from sae.backbones import PlainNetwork, build_backbone
from sae.config.backbones import BackboneSettings, Conv1dConfig, FcConfig, ResnetConfig, VggConfig, VitConfig
from sae.config.settings import to_yaml
from sae.core.errors import ConfigError, ShapeError
from sae.measure.cost import measure_cost
from tests.builders import SHAPES, SMALL_BACKBONES, run_config

IMAGE = (3, 32, 32)


def num_params(settings: BackboneSettings, shape: tuple[int, ...], num_outputs: int) -> int:
    return measure_cost(PlainNetwork(build_backbone(settings, shape), num_outputs), shape).params


@pytest.mark.parametrize(("depth", "expected"), [(1, 241_032), (2, 1_370_248), (3, 8_218_248), (4, 21_383_816)])
def test_resnet_has_the_published_parameters(depth: int, expected: int) -> None:
    assert num_params(ResnetConfig(depth=depth), (3, 64, 64), 200) == expected


def test_fc_has_the_published_parameters() -> None:
    assert num_params(FcConfig(width=4), (1, 32, 32), 2) == 1_844_226


def test_vgg_has_the_published_parameters() -> None:
    assert num_params(VggConfig(width=4), IMAGE, 8) == 246_424


def test_vit_has_the_published_parameters() -> None:
    assert num_params(VitConfig(depth=1), IMAGE, 2) == 245_858


@torch.no_grad()
def test_a_vit_that_reads_class_tokens_reads_nothing_else_behind_its_last_layer() -> None:
    backbone = build_backbone(VitConfig(depth=2, pooling="class_token"), (3, 16, 16), num_inputs=2)
    features, readout = torch.randn(3, 2 + 16, 192), backbone.readout()
    others = torch.cat([features[:, :2], torch.randn(3, 16, 192)], dim=1)
    expected = torch.nn.functional.layer_norm(features[:, :2], (192,)).mean(dim=1)
    torch.testing.assert_close(readout(features), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(readout(features), readout(others))


def test_reading_class_tokens_needs_no_other_parameters_and_fewer_flops() -> None:
    mean, token = (
        measure_cost(PlainNetwork(build_backbone(VitConfig(depth=1, pooling=pooling), IMAGE), 2), IMAGE)
        for pooling in ("mean", "class_token")
    )
    assert token.params == mean.params
    assert mean.flops - token.flops == 64 * 192 * (2 + 1)  # LayerNorm and mean of the 64 other tokens


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("depth", [1, 3, 5])
def test_fc_parameters_follow_their_closed_form(width: int, depth: int) -> None:
    f = 128 * width
    closed_form = (48 * f + f) + depth * (f * f + f + 2 * f) + (f * 7 + 7)
    assert num_params(FcConfig(width=width, depth=depth), (3, 4, 4), 7) == closed_form


@pytest.mark.parametrize("blocks", [(1, 1, 1, 1, 1), (1, 1, 2, 2, 2), (2, 1, 1, 1, 3)])
@pytest.mark.parametrize("depth", [1, 4, 5])
def test_vgg_parameters_follow_their_closed_form(blocks: tuple[int, ...], depth: int) -> None:
    planes = [2 * base for base in (4, 8, 16, 32, 32)][:depth]
    closed_form = 0
    for before, plane, num_blocks in zip([3, *planes], planes, blocks, strict=False):
        closed_form += 9 * before * plane + (num_blocks - 1) * 9 * plane * plane + num_blocks * 2 * plane
    closed_form += planes[-1] * 7 + 7
    assert num_params(VggConfig(width=2, depth=depth, blocks=blocks), IMAGE, 7) == closed_form


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("depth", [1, 5])
def test_vit_parameters_follow_their_closed_form(width: int, depth: int) -> None:
    f, patch, tokens = 192, 48, 64 + 1
    stem = 2 * patch + (patch * f + f) + 2 * f + f + tokens * f
    layer = 2 * f + 3 * f * f + (f * f + f) + 2 * f + (f * f * width + f * width) + (f * width * f + f)
    assert num_params(VitConfig(width=width, depth=depth), IMAGE, 2) == stem + depth * layer + 2 * f + (2 * f + 2)


@pytest.mark.parametrize("kernel", [3, 9])
@pytest.mark.parametrize("depth", [1, 5])
def test_conv1d_parameters_follow_their_closed_form(kernel: int, depth: int) -> None:
    channels = [3, 32, 64, 128, 128, 128][: depth + 1]
    closed_form = sum(kernel * before * after + 2 * after for before, after in pairwise(channels))
    settings = Conv1dConfig.model_validate({"width": 2, "depth": depth, "kernel": kernel})
    assert num_params(settings, (3, 40), 7) == closed_form + channels[-1] * 7 + 7


@pytest.mark.parametrize("length", [1, 2, 5, 24, 33])
def test_conv1d_takes_signals_of_any_length(length: int) -> None:
    backbone = build_backbone(Conv1dConfig(), (2, length)).eval()
    features = backbone(torch.randn(2, 2, length))
    assert [tuple(feature.shape[1:]) for feature in features] == [info.shape for info in backbone.stage_info]


@pytest.mark.parametrize("shape", [(10,), (1, 8, 8)])
def test_conv1d_refuses_tables_and_images(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"conv1d needs signals \(channel, length\), got inputs of shape"):
        build_backbone(Conv1dConfig(), shape)


@pytest.mark.parametrize("name", SMALL_BACKBONES)
@pytest.mark.parametrize("num_inputs", [1, 3])
@pytest.mark.parametrize("side", [16, 20, 28])
def test_stages_put_out_what_they_declare(name: str, num_inputs: int, side: int) -> None:
    sides = (side,) * (len(SHAPES[name]) - 1)
    backbone = build_backbone(SMALL_BACKBONES[name], (2, *sides), num_inputs)
    features = backbone.eval()(torch.randn(2, num_inputs * 2, *sides))
    assert [tuple(feature.shape[1:]) for feature in features] == [info.shape for info in backbone.stage_info]


@pytest.mark.parametrize("name", SMALL_BACKBONES)
def test_only_the_first_layer_widens_with_the_inputs(name: str) -> None:
    shapes = []
    for num_inputs in (1, 2):
        state = build_backbone(SMALL_BACKBONES[name], SHAPES[name], num_inputs).stages.state_dict()
        shapes.append({key: value.shape for key, value in state.items()})
    assert shapes[0] == shapes[1]


def test_fc_takes_table_rows() -> None:
    backbone = build_backbone(FcConfig(depth=1), (10,), num_inputs=2)
    assert backbone(torch.randn(4, 20))[0].shape == (4, 128)


def test_vgg_names_the_smallest_size_it_takes() -> None:
    with pytest.raises(ShapeError, match="at least 16×16, got inputs of shape 1×8×8"):
        build_backbone(VggConfig(), (1, 8, 8))
    build_backbone(VggConfig(depth=3), (1, 8, 8))


@pytest.mark.parametrize("settings", [VggConfig(), ResnetConfig(), VitConfig()])
@pytest.mark.parametrize("shape", [(10,), (3, 40)], ids=["table", "signals"])
def test_image_backbones_refuse_tables_and_signals(settings: BackboneSettings, shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="images"):
        build_backbone(settings, shape)


def test_vit_refuses_sides_that_patches_do_not_cover() -> None:
    with pytest.raises(ShapeError, match="multiples of 4, got inputs of shape 1×18×16"):
        build_backbone(VitConfig(), (1, 18, 16))


@pytest.mark.parametrize("backbone", ["fc", "vgg", "conv1d"])
def test_four_networks_of_half_the_width_cost_the_inner_layers_of_one(backbone: str) -> None:
    narrow = run_config(method="ensemble", backbone={"name": backbone, "width": 0.5, "depth": 3})
    plain = run_config(method="standard", backbone={"name": backbone, "width": 1, "depth": 3})
    assert (narrow.backbone.width, plain.backbone.width) == (0.5, 1)
    layers = []
    for config in (narrow, plain):
        network = PlainNetwork(build_backbone(config.backbone, SHAPES[backbone]), 3).backbone.stages
        weights = (m.weight for m in network.modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d))
        layers.append([weight.numel() for weight in weights])
    assert [4 * size for size in layers[0]] == layers[1]
    assert narrow.summary.startswith("M=4 W=0.5 D=3")


def test_whole_widths_are_written_as_before() -> None:
    for given in (2, 2.0):
        written = to_yaml(run_config(backbone={"name": "fc", "width": given}))
        assert "  width: 2\n" in written


def test_a_width_must_keep_whole_channels() -> None:
    with pytest.raises(ConfigError, match=r"backbone.width must be a multiple of 0.25, got 0.3"):
        run_config(backbone={"name": "vgg", "width": 0.3})
