"""The network in training: N inputs joined at the stem, an exit behind every stage."""

import torch
from torch import Tensor, nn

from sae.backbones.base import Backbone
from sae.ensemble.exits import ExitHeads, build_connector


class MultiExitNetwork(nn.Module):
    """A backbone that predicts for every input at every depth.

    Shape: (batch, input, *sample) → (batch, input, exit, out).

    Args:
        backbone: Built for `num_inputs` joined samples.
        num_inputs: N.
        num_outputs: Numbers that the task needs for one prediction.
    """

    def __init__(self, backbone: Backbone, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        num_features = backbone.stage_info[-1].num_features
        self.backbone = backbone
        early = [build_connector(info, num_features) for info in backbone.stage_info[:-1]]
        self.connectors = nn.ModuleList([*early, backbone.readout()])
        self.heads = ExitHeads(backbone.depth, num_features, num_inputs, num_outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Raw outputs of every (input, exit) pair."""
        features = self.backbone(join_inputs(x))
        vectors = [connector(feature) for connector, feature in zip(self.connectors, features, strict=True)]
        outputs: Tensor = self.heads(torch.stack(vectors))
        return outputs


def join_inputs(x: Tensor) -> Tensor:
    """Concatenate the inputs on channels: (batch, input, channel, …) → (batch, input·channel, …)."""
    return x.flatten(1, 2)


def repeat_sample(x: Tensor, num_inputs: int) -> Tensor:
    """The same sample at every input: (batch, …) → (batch, input, …)."""
    return x[:, None].expand(-1, num_inputs, *x.shape[1:])
