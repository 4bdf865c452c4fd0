"""Networks in stages. To add one: a builder, and settings in the registry of `config.backbones`."""

from sae.backbones.base import Backbone, FeatureKind, MemberNetwork, PlainNetwork, StageInfo, named_parts
from sae.backbones.wrapped import WrappedBackbone
from sae.config.backbones import BACKBONES, BackboneSource
from sae.core.registry import resolve_reference
from sae.core.task import Shape


def build_backbone(source: BackboneSource, shape: Shape, num_inputs: int = 1) -> Backbone:
    """Build a backbone with fresh weights.

    Args:
        source: The settings of a registered backbone, or a wrapped module.
        shape: One sample: (channel, height, width), (channel, length) or (feature,).
        num_inputs: How many samples, joined on channels, the first layer takes at once.
    """
    if isinstance(source, WrappedBackbone):
        return source.build(shape, num_inputs)
    backbone: Backbone = resolve_reference(BACKBONES.get(source.name).build)(source, shape, num_inputs)
    return backbone


__all__ = [
    "Backbone",
    "FeatureKind",
    "MemberNetwork",
    "PlainNetwork",
    "StageInfo",
    "build_backbone",
    "named_parts",
]
