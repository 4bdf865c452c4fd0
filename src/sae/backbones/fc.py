"""Residual fully connected network."""

import math

from torch import Tensor, nn

from sae.backbones.base import Backbone, FeatureKind, StageInfo
from sae.config.backbones import FcConfig
from sae.core.task import Shape

BASE_FEATURES = 128


class FcBlock(nn.Module):
    """x + ReLU(BN(Linear(x)))."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_features, num_features)
        self.norm = nn.BatchNorm1d(num_features)
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, feature) → (batch, feature)."""
        update: Tensor = self.activation(self.norm(self.linear(x)))
        return x + update


def build_fc(settings: FcConfig, shape: Shape, num_inputs: int = 1) -> Backbone:
    """Build a stem (flatten, one Linear to 128·width features) and residual blocks, for samples of any shape.

    Example:
        >>> [info.shape for info in build_fc(FcConfig(depth=2), (1, 16, 16)).stage_info]
        [(128,), (128,)]
    """
    num_features = int(BASE_FEATURES * settings.width)
    stem = nn.Sequential(nn.Flatten(), nn.Linear(num_inputs * math.prod(shape), num_features), nn.ReLU())
    info = StageInfo(FeatureKind.VECTOR, (num_features,))
    return Backbone(stem, [FcBlock(num_features) for _ in range(settings.depth)], [info] * settings.depth)
