"""Small networks as anybody writes them, to be wrapped: none of them knows of exits or of this package."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sae.core.task import Shape


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.act2, self.act3 = nn.ReLU(), nn.Tanh()
        self.out = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return self.out(self.act3(self.fc3(self.act2(self.fc2(x)))))  # type: ignore[no-any-return]


class Vgg(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width in (4, 8, 8):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            layers.append(nn.MaxPool2d(2))
            channels = width
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((2, 2))
        self.classifier = nn.Sequential(nn.Linear(8 * 4, 16), nn.ReLU(True), nn.Dropout(), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.features(x))
        return self.classifier(x.view(x.size(0), -1))  # type: ignore[no-any-return]


class Bottleneck(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = (
            nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
            if channels != out or stride != 1
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += identity
        return self.relu(out)  # type: ignore[no-any-return]


class Resnet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Bottleneck(4, 4, 1), Bottleneck(4, 4, 1))
        self.layer2 = nn.Sequential(Bottleneck(4, 8, 2), Bottleneck(8, 8, 1))
        self.layer3 = nn.Sequential(Bottleneck(8, 16, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(torch.flatten(self.avgpool(x), 1))  # type: ignore[no-any-return]


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1, self.act, self.pwconv2 = nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(0.1 * torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.gamma * self.pwconv2(self.act(self.pwconv1(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)  # type: ignore[no-any-return]


class ConvNext(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        dims = (4, 8, 8)
        self.downsample_layers = nn.ModuleList([nn.Sequential(nn.Conv2d(3, 4, 4, 4), LayerNorm2d(4))])
        for before, after in itertools.pairwise(dims):
            self.downsample_layers.append(nn.Sequential(LayerNorm2d(before), nn.Conv2d(before, after, 2, 2)))
        self.stages = nn.ModuleList(nn.Sequential(ConvNextBlock(dim), ConvNextBlock(dim)) for dim in dims)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3)

    def forward_features(self, x: Tensor) -> Tensor:
        for i in range(3):
            x = self.stages[i](self.downsample_layers[i](x))
        return self.norm(x.mean([-2, -1]))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.forward_features(x))  # type: ignore[no-any-return]


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.expand(F.relu(self.reduce(scale))))


class InvertedResidual(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        hidden = 2 * channels
        self.is_residual = stride == 1 and channels == out
        self.conv = nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.Hardswish(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            SqueezeExcite(hidden),
            nn.Conv2d(hidden, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.is_residual else self.conv(x)  # type: ignore[no-any-return]


class Mobilenet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        stem = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.SiLU(inplace=True))
        blocks = [InvertedResidual(4, 4, 1), InvertedResidual(4, 8, 2), InvertedResidual(8, 8, 1)]
        self.features = nn.Sequential(stem, *blocks)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean([2, 3]))  # type: ignore[no-any-return]


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patchify = nn.Conv2d(3, 16, 4, 4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, 16))
        self.pos_embed = nn.Parameter(torch.randn(1, 17, 16))
        layers = [
            nn.TransformerEncoderLayer(16, 2, 32, 0.1, "gelu", batch_first=True, norm_first=True) for _ in range(3)
        ]
        self.blocks = nn.ModuleList(layers)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patchify(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), tokens], dim=1) + self.pos_embed
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(self.norm(tokens[:, 0]))  # type: ignore[no-any-return]


class MixerBlock(nn.Module):
    def __init__(self, tokens: int, dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token_mlp = nn.Sequential(nn.Linear(tokens, 8), nn.GELU(), nn.Linear(8, tokens))
        self.channel_mlp = nn.Sequential(nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.token_mlp(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mlp(self.norm2(x))  # type: ignore[no-any-return]


class Mixer(nn.Module):
    """Patches by hand, and a Linear over them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3 * 16, 12)
        self.mixer = nn.Sequential(MixerBlock(16, 12), MixerBlock(16, 12), MixerBlock(16, 12))
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        x = x.reshape(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 1, 3, 5)
        x = self.embed(x.reshape(b, (h // 4) * (w // 4), c * 16))
        return self.head(self.mixer(x).mean(dim=1))  # type: ignore[no-any-return]


class SignalNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(2, 8, 5, padding=2), nn.BatchNorm1d(8)
        self.conv2, self.gn2 = nn.Conv1d(8, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.conv3, self.pool = nn.Conv1d(8, 16, 3, padding=1), nn.AvgPool1d(2)
        self.lin = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool1d(F.relu(self.bn1(self.conv1(x))), 2)
        x = self.pool(F.leaky_relu(self.gn2(self.conv2(x))))
        x = F.pad(x, (1, 1))
        return self.lin(self.conv3(x).mean(-1))  # type: ignore[no-any-return]


class VolumeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2))
        self.body = nn.Sequential(nn.Conv3d(4, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.AvgPool3d(2))
        self.tail = nn.Sequential(nn.Conv3d(8, 8, 3, padding=1), nn.InstanceNorm3d(8, affine=True), nn.ELU())
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.tail(self.body(self.stem(x))).mean((2, 3, 4)))  # type: ignore[no-any-return]


class SkipEncoder(nn.Module):
    """A U-shaped network: the way up reads what the way down has computed."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(channels, 4, 3, padding=1), nn.ReLU())
        self.down2 = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.join = nn.Conv2d(12, 4, 3, padding=1)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        third = self.middle(second)
        joined = self.join(torch.cat([self.up(third), first], dim=1))
        return self.head(F.relu(joined).mean([2, 3]))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Example:
    """A module to wrap, and where its exits may be."""

    make: Callable[[], nn.Module]
    shape: Shape
    exits: tuple[str, ...]

    @property
    def sample(self) -> Tensor:
        return torch.zeros(self.shape)


EXAMPLES = {
    "mlp": Example(Mlp, (6,), ("fc1", "act2", "act3")),
    "vgg": Example(Vgg, (3, 16, 16), ("features.3", "features.7", "features.11")),
    "resnet": Example(Resnet, (3, 32, 32), ("layer1", "layer2", "layer3")),
    "convnext": Example(ConvNext, (3, 16, 16), ("stages.0", "stages.1", "stages.2")),
    "mobilenet": Example(Mobilenet, (3, 16, 16), ("features.0", "features.1", "features.3")),
    "vit": Example(Vit, (3, 16, 16), ("blocks.0", "blocks.1", "blocks.2")),
    "mixer": Example(Mixer, (3, 16, 16), ("mixer.0", "mixer.1", "mixer.2")),
    "signals": Example(SignalNet, (2, 20), ("bn1", "pool", "conv3")),
    "volumes": Example(VolumeNet, (1, 8, 8, 8), ("stem", "body", "tail")),
    "skips": Example(SkipEncoder, (3, 8, 8), ("down1", "middle", "join")),
}
