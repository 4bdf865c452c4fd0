"""EfficientNet-Lite, whose network and weights from ImageNet are packages of the extra `pretrained`."""

from functools import cache, partial

import torch
from torch import nn

from sae.backbones.base import Backbone
from sae.backbones.weights import checked_file, load_weights, published_weights
from sae.backbones.wrapped import SPREAD, Blueprint
from sae.config.backbones import EfficientNetConfig
from sae.core.errors import ConfigError, require
from sae.core.task import Shape

EARLY_EXITS = (5, 3, 1)
"""Places of the blocks with an early exit, counted from the end; behind them are the last convolution and pooling."""
POOLING = "_avg_pooling"
CLASSIFIER = "_fc."


def build_efficientnet(settings: EfficientNetConfig, shape: Shape, num_inputs: int = 1) -> Backbone:
    """Build a backbone of the published network, with its weights or with fresh ones."""
    return _blueprint(settings, shape).build(shape, num_inputs)


@cache
def _blueprint(settings: EfficientNetConfig, shape: Shape) -> Blueprint:
    if len(shape) != 3 or shape[0] != 3:
        raise ConfigError(
            f"{settings.name} must get images in colour, (3, height, width), got samples of shape {shape}"
        )
    make = partial(_make, settings.name, shape)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        template = make()
    if settings.pretrained:
        file = checked_file(settings.weights_file or published_weights(settings.name), settings.weights_sha256)
        load_weights(template, file, unused=CLASSIFIER)
    num_blocks = len(template.get_submodule("_blocks")._modules)
    exits = (*(f"_blocks.{num_blocks - place}" for place in EARLY_EXITS), POOLING)[: settings.depth]
    return Blueprint(template, make, exits, None, {}, settings.pretrained, SPREAD, is_pooled_first=True)


def _make(name: str, shape: Shape) -> nn.Module:
    """Return the network with fresh weights, padded for this size, and without random depth, which cannot be cut."""
    require("efficientnet_lite_pytorch", name)
    from efficientnet_lite_pytorch import EfficientNet

    network: nn.Module = EfficientNet.from_name(name, image_size=list(shape[1:]), drop_connect_rate=0.0)
    return network
