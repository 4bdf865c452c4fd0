"""Many parameters as one: their values and gradients side by side in two long tensors.

Zeroing, clipping and Adam then take one operation each instead of one for every tensor of
the network, which for small networks is a tenth of a training step.
"""

import torch
from torch import nn


class FlatParameters:
    """A view of parameters as one; the modules that own them see no difference.

    Attributes:
        parameter: All values in one vector, for an optimiser.
        gradient: All gradients in one vector; backward passes add to it.

    Example:
        >>> linear = nn.Linear(2, 1)
        >>> flat = FlatParameters(list(linear.parameters()))
        >>> linear(torch.ones(1, 2)).sum().backward()
        >>> flat.gradient
        tensor([1., 1., 1.])
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self.parameter = nn.Parameter(values)
        self.gradient = torch.zeros_like(values)
        self.parameter.grad = self.gradient
        start = 0
        for parameter in parameters:
            stop = start + parameter.numel()
            parameter.data = values[start:stop].view_as(parameter)
            parameter.grad = self.gradient[start:stop].view_as(parameter)
            start = stop

    def zero_grad(self) -> None:
        """Forget the gradients but keep their memory."""
        self.gradient.zero_()

    def clip_grad_norm(self, max_norm: float) -> torch.Tensor:
        """Scale the gradients down to a norm of at most `max_norm`; returns the norm before."""
        norm: torch.Tensor = torch.linalg.vector_norm(self.gradient)
        self.gradient.mul_((max_norm / norm.clamp_min(1e-6)).clamp_max(1.0))
        return norm
