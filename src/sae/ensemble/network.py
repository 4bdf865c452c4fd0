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
    VolumeMean,
    tokens_read,
)
from sae.backbones.streams import streamed


class MultiExitNetwork(nn.Module):
    """A backbone that predicts for every input at every depth.

    Shape: (batch, input, *sample) → (batch, slot, exit, out). A slot is an input, or with several streams a pair
    (stream, input), ordered by stream.

    Args:
        backbone: Built for `num_inputs` joined samples; its stages work in `num_streams` groups.
        num_inputs: N.
        num_outputs: How many numbers the task needs for one prediction.
        shared_head: Whether one head serves all exits.
        exit_gradient: The share of an early exit's gradient that reaches the stages before it.
        num_streams: G; every stream predicts for all inputs.
    """

    def __init__(
        self,
        backbone: Backbone,
        num_inputs: int,
        num_outputs: int,
        *,
        shared_head: bool = False,
        exit_gradient: float = 1.0,
        num_streams: int = 1,
    ) -> None:
        super().__init__()
        self.exit_gradient = exit_gradient
        num_features = backbone.stage_info[-1].num_features
        self.backbone, self.num_inputs = backbone, num_inputs
        early = [streamed(build_connector(info, num_features), num_streams) for info in backbone.stage_info[:-1]]
        self.connectors = nn.ModuleList([*early, backbone.readout()])
        self.heads = ExitHeads(
            backbone.depth, num_features, num_inputs, num_outputs, is_shared=shared_head, num_streams=num_streams
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the raw outputs of every slot at every exit."""
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
    if info.kind is FeatureKind.VECTOR or (info.kind is FeatureKind.MAP and info.is_pooled_first):
        pool = [GlobalAveragePool()] if info.kind is FeatureKind.MAP else []
        linear = nn.Linear(info.num_features, num_features)
        return nn.Sequential(*pool, linear, nn.BatchNorm1d(num_features), nn.ReLU())
    if info.kind is FeatureKind.MAP:
        convolution = nn.Conv2d(info.num_features, num_features, kernel_size=1)
        return nn.Sequential(convolution, nn.BatchNorm2d(num_features), nn.ReLU(), GlobalAveragePool())
    if info.kind is FeatureKind.SIGNAL:
        pointwise = nn.Conv1d(info.num_features, num_features, kernel_size=1)
        return nn.Sequential(pointwise, nn.BatchNorm1d(num_features), nn.ReLU(), TimeMean())
    if info.kind is FeatureKind.VOLUME:
        voxelwise = nn.Conv3d(info.num_features, num_features, kernel_size=1)
        return nn.Sequential(voxelwise, nn.BatchNorm3d(num_features), nn.ReLU(), VolumeMean())
    linear = nn.Linear(info.num_features, num_features)
    return nn.Sequential(*tokens_read(info), linear, nn.GELU(), nn.LayerNorm(num_features), TokenMean())


class ExitHeads(nn.Module):
    """A Linear head for each exit, or one for all of them, computed in one batched product.

    A stream's head reads the stream's own features.

    Attributes:
        weight: (head, slot·out, feature of a stream), each head initialised like torch's Linear.
        bias: (head, slot·out).
        is_shared: Whether there is one head for all exits.
        num_streams: G.
    """

    def __init__(
        self,
        depth: int,
        num_features: int,
        num_inputs: int,
        num_outputs: int,
        *,
        is_shared: bool = False,
        num_streams: int = 1,
    ) -> None:
        super().__init__()
        self.is_shared, self.num_streams = is_shared, num_streams
        self.num_inputs, self.num_outputs = num_inputs, num_outputs
        sizes = num_features // num_streams, num_streams * num_inputs * num_outputs
        heads = [nn.Linear(*sizes) for _ in range(1 if is_shared else depth)]
        self.weight = nn.Parameter(torch.stack([head.weight.detach() for head in heads]))
        self.bias = nn.Parameter(torch.stack([head.bias.detach() for head in heads]))

    def forward(self, features: Tensor) -> Tensor:
        """Map (exit, batch, feature) → (batch, slot, exit, out)."""
        if self.num_streams > 1:
            return self._by_stream(features)
        weight = self.weight.expand(len(features), -1, -1)
        outputs: Tensor = torch.baddbmm(self.bias[:, None], features, weight.transpose(1, 2))
        return outputs.view(*outputs.shape[:2], self.num_inputs, self.num_outputs).permute(1, 2, 0, 3)

    def _by_stream(self, features: Tensor) -> Tensor:
        """Compute `forward` for several streams, in one product over exits and streams."""
        depth, streams = len(features), (self.num_streams, -1)
        own = features.unflatten(2, streams).transpose(1, 2).flatten(0, 1)  # (exit·stream, batch, feature)
        weight = self.weight.expand(depth, -1, -1).unflatten(1, streams).flatten(0, 1)
        bias = self.bias.expand(depth, -1).unflatten(1, streams).flatten(0, 1)
        outputs: Tensor = torch.baddbmm(bias[:, None], own, weight.transpose(1, 2))  # (exit·stream, batch, input·out)
        shape = (depth, self.num_streams, -1, self.num_inputs, self.num_outputs)
        return outputs.view(shape).permute(2, 1, 3, 0, 4).flatten(1, 2)

    def pruned(self, exit_index: int, slots: list[int]) -> "nn.Linear | StreamHeads":
        """Return a new head for the given slots at one exit."""
        if self.num_streams == 1:
            return self.linear(exit_index, slots)
        streams = sorted({slot // self.num_inputs for slot in slots})
        linears = [
            self.linear(exit_index, [slot for slot in slots if slot // self.num_inputs == stream]) for stream in streams
        ]
        return StreamHeads(linears, streams)

    def linear(self, exit_index: int, slots: list[int]) -> nn.Linear:
        """Return a new Linear with the rows of one exit that belong to the given slots, all of one stream."""
        rows = torch.tensor([row for i in slots for row in range(i * self.num_outputs, (i + 1) * self.num_outputs)])
        head = nn.Linear(self.weight.shape[-1], len(rows), device=self.weight.device)
        index = 0 if self.is_shared else exit_index
        with torch.no_grad():
            head.weight.copy_(self.weight[index, rows])
            head.bias.copy_(self.bias[index, rows])
        return head


def scale_gradient(x: Tensor, share: float) -> Tensor:
    """Return the same values, but let only a share of the gradient flow back.

    Example:
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> scale_gradient(x, 0.5).square().backward()
        >>> x.grad
        tensor(3.)
    """
    fixed = x.detach()
    return fixed if share == 0 else fixed + share * (x - fixed)


class StreamHeads(nn.Module):
    """Heads for some of the streams; each reads the features of its own stream.

    Args:
        heads: One for each stream that is used.
        streams: The numbers of these streams.
    """

    def __init__(self, heads: list[nn.Linear], streams: list[int]) -> None:
        super().__init__()
        self.heads, self.streams = nn.ModuleList(heads), streams
        self.num_features = heads[0].in_features

    def forward(self, features: Tensor) -> Tensor:
        """Map (batch, feature) → (batch, slot·out)."""
        starts = [stream * self.num_features for stream in self.streams]
        outputs = [
            head(features[:, start : start + self.num_features]) for head, start in zip(self.heads, starts, strict=True)
        ]
        return torch.cat(outputs, dim=1)


def join_inputs(x: Tensor) -> Tensor:
    """Concatenate the inputs on channels: (batch, input, channel, …) → (batch, input·channel, …)."""
    return x.flatten(1, 2)


def repeat_sample(x: Tensor, num_inputs: int) -> Tensor:
    """Repeat each sample at every input: (batch, …) → (batch, input, …)."""
    return x[:, None].expand(-1, num_inputs, *x.shape[1:])
