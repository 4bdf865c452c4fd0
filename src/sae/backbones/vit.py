"""Vision transformer with 4×4 patches, pre-norm encoder layers and a mean over all tokens, or over class tokens."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sae.backbones.base import Backbone, FeatureKind, StageInfo
from sae.config.backbones import VitConfig
from sae.core.errors import ShapeError
from sae.core.task import Shape

PATCH = 4
NUM_FEATURES = 192
NUM_HEADS = 4


class Positions(nn.Module):
    """A learnt vector added to each token; like the paper, we do not count its cost."""

    is_free_of_cost = True

    def __init__(self, num_tokens: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(num_tokens, NUM_FEATURES))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, token, feature) → (batch, token, feature)."""
        return x + self.table


class PatchStem(nn.Module):
    """Patches → LayerNorm → Linear → LayerNorm, then class tokens in front, then positions.

    A patch is flattened as (channel, row, column), so that the channels of one input stay
    side by side when several inputs are joined.
    """

    def __init__(self, shape: Shape, num_class_tokens: int) -> None:
        super().__init__()
        channels, height, width = shape
        patch_features = channels * PATCH * PATCH
        num_tokens = num_class_tokens + (height // PATCH) * (width // PATCH)
        self.embed = nn.Sequential(
            nn.LayerNorm(patch_features), nn.Linear(patch_features, NUM_FEATURES), nn.LayerNorm(NUM_FEATURES)
        )
        self.class_tokens = nn.Parameter(torch.randn(num_class_tokens, NUM_FEATURES))
        self.positions = Positions(num_tokens)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channel, height, width) → (batch, token, feature)."""
        batch, channels, height, width = x.shape
        grid = x.reshape(batch, channels, height // PATCH, PATCH, width // PATCH, PATCH)
        patches = grid.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (batch, patch, channel·4·4)
        class_tokens = self.class_tokens.expand(batch, -1, -1)
        output: Tensor = self.positions(torch.cat([class_tokens, self.embed(patches)], dim=1))
        return output


class DotProduct(nn.Module):
    """softmax(QKᵀ / √d) V in one fused operation."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Map three times (batch, head, token, d) → (batch, head, token, d)."""
        return F.scaled_dot_product_attention(query, key, value)


class OpenDotProduct(nn.Module):
    """softmax(QKᵀ / √d) V in single steps, for a layer that changes the attention probabilities in between.

    Args:
        change: A layer that takes and returns probabilities, (batch, head, token, token).
    """

    def __init__(self, change: nn.Module) -> None:
        super().__init__()
        self.change = change

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Map three times (batch, head, token, d) → (batch, head, token, d)."""
        scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        mixed: Tensor = self.change(scores.softmax(dim=-1)) @ value
        return mixed


class Attention(nn.Module):
    """Multi-head self-attention; qkv has no bias, the output projection has one."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(NUM_FEATURES, 3 * NUM_FEATURES, bias=False)
        self.product = DotProduct()
        self.project = nn.Linear(NUM_FEATURES, NUM_FEATURES)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, token, feature) → (batch, token, feature)."""
        qkv = self.qkv(x).unflatten(-1, (3, NUM_HEADS, -1)).permute(2, 0, 3, 1, 4)  # (3, batch, head, token, 48)
        mixed: Tensor = self.product(qkv[0], qkv[1], qkv[2])
        output: Tensor = self.project(mixed.transpose(1, 2).flatten(2))
        return output


class EncoderLayer(nn.Module):
    """Pre-norm attention and MLP, each with a residual connection."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(NUM_FEATURES), Attention())
        self.mlp = nn.Sequential(
            nn.LayerNorm(NUM_FEATURES),
            nn.Linear(NUM_FEATURES, hidden),
            nn.GELU(),
            nn.Linear(hidden, NUM_FEATURES),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, token, feature) → (batch, token, feature)."""
        x = x + self.attention(x)
        output: Tensor = x + self.mlp(x)
        return output


def build_vit(settings: VitConfig, shape: Shape, num_inputs: int = 1) -> Backbone:
    """Build encoder layers over 4×4 patches, with one class token for each input.

    Example:
        >>> [info.shape for info in build_vit(VitConfig(depth=2), (3, 16, 16)).stage_info]
        [(17, 192), (17, 192)]
    """
    if len(shape) != 3 or any(side % PATCH or not side for side in shape[1:]):
        given = "×".join(map(str, shape))
        raise ShapeError(f"vit needs images whose sides are multiples of {PATCH}, got inputs of shape {given}")
    channels, height, width = shape
    num_tokens = num_inputs + (height // PATCH) * (width // PATCH)
    stem = PatchStem((num_inputs * channels, height, width), num_class_tokens=num_inputs)
    layers = [EncoderLayer(NUM_FEATURES * settings.width) for _ in range(settings.depth)]
    class_tokens = num_inputs if settings.pooling == "class_token" else 0
    info = StageInfo(FeatureKind.TOKENS, (num_tokens, NUM_FEATURES), class_tokens)
    return Backbone(stem, layers, [info] * settings.depth)
