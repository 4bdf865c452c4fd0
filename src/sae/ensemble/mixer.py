"""Which sample each input sees in a training batch."""

import math

import torch
from torch import Tensor


def mix_indices(
    batch_size: int, num_inputs: int, repetition: int, repeat_fraction: float, generator: torch.Generator
) -> Tensor:
    """Indices into the batch for every position and input, (batch·repetition, input).

    The batch is repeated and shuffled once into a common order. In its last
    ⌈repeat_fraction · positions⌉ positions all inputs see the same sample; the rest is
    shuffled anew for each input, so that there the inputs are independent. Every input sees
    every sample `repetition` times.

    Example:
        >>> mix_indices(3, num_inputs=1, repetition=1, repeat_fraction=0.0,
        ...             generator=torch.Generator().manual_seed(0)).sort(dim=0).values.T
        tensor([[0, 1, 2]])
    """
    positions = batch_size * repetition
    common = torch.randperm(positions, generator=generator) % batch_size
    num_free = positions - num_repeated(positions, repeat_fraction)
    order = torch.arange(positions).expand(num_inputs, positions).clone()
    order[:, :num_free] = torch.rand(num_inputs, num_free, generator=generator).argsort(dim=1)
    return common[order].T


def num_repeated(positions: int, repeat_fraction: float) -> int:
    """⌈fraction · positions⌉, not thrown off by the last bits of a float.

    Example:
        >>> num_repeated(10, 0.1 + 0.2)
        3
    """
    return math.ceil(round(repeat_fraction * positions, 6))
