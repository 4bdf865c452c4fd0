"""The network in training: N inputs joined at the stem, and an exit behind every stage."""

import torch
from torch import Tensor, nn

from sae.backbones.base import (
    Backbone,
    FeatureKind,
    GlobalAveragePool,
    StageInfo,
    TimeMean,
    TokenMean,
    tokens_read,
)


class MultiExitNetwork(nn.Module):
    """A backbone that predicts for every input at every depth.

    Shape: (batch, input, *sample) → (batch, input, exit, out).

    Args:
        backbone: Built for `num_inputs` joined samples.
        num_inputs: N.
        num_outputs: How many numbers the task needs for one prediction.
        shared_head: Whether one head serves all exits.
        exit_gradient: The share of an early exit's gradient that reaches the stages before it.
    """

    def __init__(
        self,
        backbone: Backbone,
        num_inputs: int,
        num_outputs: int,
        *,
        shared_head: bool = False,
        exit_gradient: float = 1.0,
    ) -> None:
        super().__init__()
        self.exit_gradient = exit_gradient
        num_features = backbone.stage_info[-1].num_features
        self.backbone = backbone
        early = [build_connector(info, num_features) for info in backbone.stage_info[:-1]]
        self.connectors = nn.ModuleList([*early, backbone.readout()])
        self.heads = ExitHeads(backbone.depth, num_features, num_inputs, num_outputs, is_shared=shared_head)

    def forward(self, x: Tensor) -> Tensor:
        """Return the raw outputs of every (input, exit) pair."""
        features = self.backbone(join_inputs(x))
        if self.exit_gradient < 1:
            features = [*(scale_gradient(feature, self.exit_gradient) for feature in features[:-1]), features[-1]]
        vectors = [connector(feature) for connector, feature in zip(self.connectors, features, strict=True)]
        outputs: Tensor = self.heads(torch.stack(vectors))
        return outputs


def build_connector(info: StageInfo, num_features: int) -> nn.Sequential:
    """Build a module that maps the features of one stage to a vector of the last stage's size.

    Args:
        info: The features of the stage.
        num_features: F_last, the feature size behind the last stage.
    """
    if info.kind is FeatureKind.VECTOR:
        return nn.Sequential(nn.Linear(info.num_features, num_features), nn.BatchNorm1d(num_features), nn.ReLU())
    if info.kind is FeatureKind.MAP:
        convolution = nn.Conv2d(info.num_features, num_features, kernel_size=1)
        return nn.Sequential(convolution, nn.BatchNorm2d(num_features), nn.ReLU(), GlobalAveragePool())
    if info.kind is FeatureKind.SIGNAL:
        pointwise = nn.Conv1d(info.num_features, num_features, kernel_size=1)
        return nn.Sequential(pointwise, nn.BatchNorm1d(num_features), nn.ReLU(), TimeMean())
    linear = nn.Linear(info.num_features, num_features)
    return nn.Sequential(*tokens_read(info), linear, nn.GELU(), nn.LayerNorm(num_features), TokenMean())


class ExitHeads(nn.Module):
    """A Linear head for each exit, or one for all of them, computed in one batched product.

    Attributes:
        weight: (head, input·out, feature), each head initialised like torch's Linear.
        bias: (head, input·out).
        is_shared: Whether there is one head for all exits.
    """

    def __init__(
        self, depth: int, num_features: int, num_inputs: int, num_outputs: int, *, is_shared: bool = False
    ) -> None:
        super().__init__()
        self.is_shared = is_shared
        self.num_inputs, self.num_outputs = num_inputs, num_outputs
        heads = [nn.Linear(num_features, num_inputs * num_outputs) for _ in range(1 if is_shared else depth)]
        self.weight = nn.Parameter(torch.stack([head.weight.detach() for head in heads]))
        self.bias = nn.Parameter(torch.stack([head.bias.detach() for head in heads]))

    def forward(self, features: Tensor) -> Tensor:
        """Map (exit, batch, feature) → (batch, input, exit, out)."""
        weight = self.weight.expand(len(features), -1, -1)
        outputs: Tensor = torch.baddbmm(self.bias[:, None], features, weight.transpose(1, 2))
        return outputs.view(*outputs.shape[:2], self.num_inputs, self.num_outputs).permute(1, 2, 0, 3)

    def linear(self, exit_index: int, inputs: list[int]) -> nn.Linear:
        """Return a new Linear with the rows of one exit that belong to the given inputs."""
        rows = torch.tensor([row for i in inputs for row in range(i * self.num_outputs, (i + 1) * self.num_outputs)])
        head = nn.Linear(self.weight.shape[-1], len(rows), device=self.weight.device)
        index = 0 if self.is_shared else exit_index
        with torch.no_grad():
            head.weight.copy_(self.weight[index, rows])
            head.bias.copy_(self.bias[index, rows])
        return head


def scale_gradient(x: Tensor, share: float) -> Tensor:
    """Return the same values, through which only a share of a gradient flows back.

    Example:
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> scale_gradient(x, 0.5).square().backward()
        >>> x.grad
        tensor(3.)
    """
    fixed = x.detach()
    return fixed if share == 0 else fixed + share * (x - fixed)


def join_inputs(x: Tensor) -> Tensor:
    """Concatenate the inputs on channels: (batch, input, channel, …) → (batch, input·channel, …)."""
    return x.flatten(1, 2)


def repeat_sample(x: Tensor, num_inputs: int) -> Tensor:
    """Repeat each sample at every input: (batch, …) → (batch, input, …)."""
    return x[:, None].expand(-1, num_inputs, *x.shape[1:])
