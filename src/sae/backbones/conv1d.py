"""Convolutions over time in five stages, for signals of any length."""

from torch import nn

from sae.backbones.base import Backbone, FeatureKind, StageInfo
from sae.config.backbones import Conv1dConfig
from sae.core.errors import ShapeError
from sae.core.task import Shape

BASE_CHANNELS = (16, 32, 64, 64, 64)
NUM_POOLED_STAGES = 4
"""Stages that end in a max-pool over 2 time steps."""


def build_conv1d(settings: Conv1dConfig, shape: Shape, num_inputs: int = 1) -> Backbone:
    """Build stages of conv-BN-ReLU; the stem is the convolution of stage 1.

    A pool rounds up, so that signals of any length fit: 5 time steps become 3, 2, 1, 1.

    Example:
        >>> [info.shape for info in build_conv1d(Conv1dConfig(depth=2), (3, 25)).stage_info]
        [(16, 13), (32, 7)]
    """
    if len(shape) != 2:
        given = "×".join(map(str, shape))
        raise ShapeError(
            f"conv1d needs signals (channel, length), got inputs of shape {given}: use the fc backbone for tables, "
            "vgg for images"
        )
    in_channels, length = num_inputs * shape[0], shape[1]
    stages, infos = [], []
    for index in range(settings.depth):
        out_channels = int(settings.width * BASE_CHANNELS[index])
        layers: list[nn.Module] = [
            nn.Conv1d(in_channels, out_channels, settings.kernel, padding=settings.kernel // 2, bias=False),
            nn.BatchNorm1d(out_channels),
            nn.ReLU(),
        ]
        if index < NUM_POOLED_STAGES:
            layers.append(nn.MaxPool1d(2, ceil_mode=True))
            length = -(-length // 2)
        stages.append(layers)
        infos.append(StageInfo(FeatureKind.SIGNAL, (out_channels, length)))
        in_channels = out_channels
    stem = nn.Sequential(stages[0].pop(0))
    return Backbone(stem, [nn.Sequential(*layers) for layers in stages], infos)
