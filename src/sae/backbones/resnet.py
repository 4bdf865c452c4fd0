"""ResNet-34 for small images, with a 3×3 stem without pooling; every stage halves the map."""

from torch import Tensor, nn

from sae.backbones.base import Backbone, ChannelsLast, FeatureKind, StageInfo
from sae.config.backbones import ResnetConfig
from sae.core.errors import ShapeError
from sae.core.task import Shape

CHANNELS = (64, 128, 256, 512)
NUM_BLOCKS = (3, 4, 6, 3)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut; the shortcut is a 1×1 convolution if the stride is not 1."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.shortcut = nn.Identity() if stride == 1 else _projection(in_channels, out_channels, stride)
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, in, height, width) → (batch, out, height / stride, width / stride)."""
        output: Tensor = self.activation(self.residual(x) + self.shortcut(x))
        return output


def build_resnet(settings: ResnetConfig, shape: Shape, num_inputs: int = 1) -> Backbone:
    """Build up to four stages of [3, 4, 6, 3] basic blocks, for images of any size.

    Example:
        >>> [info.shape for info in build_resnet(ResnetConfig(depth=2), (3, 64, 64)).stage_info]
        [(64, 32, 32), (128, 16, 16)]
    """
    if len(shape) != 3:
        raise ShapeError(f"resnet needs images (channel, height, width), got {shape}: use the fc backbone")
    height, width = shape[1:]
    stem = nn.Sequential(
        ChannelsLast(),
        nn.Conv2d(num_inputs * shape[0], CHANNELS[0], kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(CHANNELS[0]),
        nn.ReLU(),
    )
    stages, infos, in_channels = [], [], CHANNELS[0]
    for out_channels, num_blocks in zip(CHANNELS[: settings.depth], NUM_BLOCKS, strict=False):
        first = BasicBlock(in_channels, out_channels, stride=2)
        rest = [BasicBlock(out_channels, out_channels, stride=1) for _ in range(num_blocks - 1)]
        stages.append(nn.Sequential(first, *rest))
        height, width, in_channels = (height + 1) // 2, (width + 1) // 2, out_channels
        infos.append(StageInfo(FeatureKind.MAP, (out_channels, height, width)))
    return Backbone(stem, stages, infos)


def _projection(in_channels: int, out_channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size=1, stride=stride, bias=False),
        nn.BatchNorm2d(out_channels),
    )
