"""Networks in stages. To add one: a file with a builder, its settings, and a line below."""

from collections.abc import Callable
from typing import Any

from sae.backbones.base import Backbone, FeatureKind, MemberNetwork, PlainNetwork, StageInfo, named_parts
from sae.backbones.fc import build_fc
from sae.backbones.resnet import build_resnet
from sae.backbones.vgg import build_vgg
from sae.backbones.vit import build_vit
from sae.config.run import BackboneConfig
from sae.core.task import Shape

BACKBONES: dict[str, Callable[[Any, Shape, int], Backbone]] = {
    "fc": build_fc,
    "vgg": build_vgg,
    "resnet": build_resnet,
    "vit": build_vit,
}


def build_backbone(settings: BackboneConfig, shape: Shape, num_inputs: int = 1) -> Backbone:
    """A backbone with fresh weights.

    Args:
        settings: Which one, and its sizes.
        shape: One sample, (channel, height, width) or (feature,).
        num_inputs: How many samples, joined on channels, the first layer takes at once.
    """
    return BACKBONES[settings.name](settings, shape, num_inputs)


__all__ = [
    "BACKBONES",
    "Backbone",
    "FeatureKind",
    "MemberNetwork",
    "PlainNetwork",
    "StageInfo",
    "build_backbone",
    "named_parts",
]
