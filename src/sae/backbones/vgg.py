"""VGG with 3×3 convolutions in five stages and without the large linear layers at the end."""

from torch import nn

from sae.backbones.base import Backbone, ChannelsLast, FeatureKind, StageInfo
from sae.config.backbones import VggConfig
from sae.core.errors import ShapeError
from sae.core.task import Shape

BASE_CHANNELS = (4, 8, 16, 32, 32)
NUM_POOLED_STAGES = 4
"""Stages that end in a 2×2 max-pool. The paper's text says three; its published costs need four."""


def build_vgg(settings: VggConfig, shape: Shape, num_inputs: int = 1) -> Backbone:
    """Build stages of conv-BN-ReLU; the stem is the first convolution of stage 1.

    Example:
        >>> [info.shape for info in build_vgg(VggConfig(depth=2), (3, 16, 16)).stage_info]
        [(4, 8, 8), (8, 4, 4)]
    """
    height, width = _check_shape(settings, shape)
    in_channels, stages, infos = num_inputs * shape[0], [], []
    for index in range(settings.depth):
        out_channels = int(settings.width * BASE_CHANNELS[index])
        layers = _stage(in_channels, out_channels, settings.blocks[index])
        if index < NUM_POOLED_STAGES:
            layers.append(nn.MaxPool2d(2))
            height, width = height // 2, width // 2
        stages.append(layers)
        infos.append(StageInfo(FeatureKind.MAP, (out_channels, height, width)))
        in_channels = out_channels
    stem = nn.Sequential(ChannelsLast(), stages[0].pop(0))
    return Backbone(stem, [nn.Sequential(*layers) for layers in stages], infos)


def _stage(in_channels: int, out_channels: int, num_blocks: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for block in range(num_blocks):
        from_channels = in_channels if block == 0 else out_channels
        convolution = nn.Conv2d(from_channels, out_channels, kernel_size=3, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(out_channels), nn.ReLU()]
    return layers


def _check_shape(settings: VggConfig, shape: Shape) -> tuple[int, int]:
    smallest = 2 ** min(settings.depth, NUM_POOLED_STAGES)
    if len(shape) != 3 or min(shape[1:]) < smallest:
        given = "×".join(map(str, shape))
        raise ShapeError(
            f"vgg with {settings.depth} stages needs images of at least {smallest}×{smallest}, got inputs of shape "
            f"{given}: use larger images, fewer stages (backbone.depth) or the fc backbone"
        )
    return shape[1], shape[2]
