"""Training of SAE: the mixing of samples over inputs, and the negative ELBO to minimise."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sae.core.predictive import Guidance, member_loss
from sae.core.task import Task
from sae.ensemble.exit_distribution import ExitDistribution


def mix_indices(
    batch_size: int, num_inputs: int, repetition: int, repeat_fraction: float, generator: torch.Generator
) -> Tensor:
    """Draw the sample that each input sees at each position, as indices (batch·repetition, input).

    The batch is repeated and shuffled once into a common order. In the last
    ⌈repeat_fraction · positions⌉ positions all inputs see the same sample. The other positions
    are shuffled again for each input, so that the inputs are independent there. Every input sees
    every sample `repetition` times.

    Example:
        >>> mix_indices(3, num_inputs=1, repetition=1, repeat_fraction=0.0,
        ...             generator=torch.Generator().manual_seed(0)).sort(dim=0).values.T
        tensor([[0, 1, 2]])
    """
    positions = batch_size * repetition
    common = torch.randperm(positions, generator=generator) % batch_size
    num_free = positions - num_repeated(positions, repeat_fraction)
    order = torch.rand(num_inputs, num_free, generator=generator).argsort(dim=1).T  # (free position, input)
    same = common[num_free:, None].expand(-1, num_inputs)
    return torch.cat([common[order], same])


def num_repeated(positions: int, repeat_fraction: float) -> int:
    """Return ⌈fraction · positions⌉, unaffected by rounding errors in the fraction.

    Example:
        >>> num_repeated(10, 0.1 + 0.2)
        3
    """
    return math.ceil(round(repeat_fraction * positions, 6))


@dataclass(frozen=True)
class Elbo:
    """The negative ELBO and its parts, scalars.

    Attributes:
        loss: scale · data_fit + kl_weight · kl.
        data_fit: Σ over inputs and exits of sampled weight · mean loss.
        kl: Σ over inputs of KL(θ ‖ uniform).
    """

    loss: Tensor
    data_fit: Tensor
    kl: Tensor


def expected_cost(theta: Tensor, exit_costs: Tensor) -> Tensor:
    """Return the expected cost of the exit that an input uses, as a mean over inputs, a scalar.

    Example:
        >>> expected_cost(torch.tensor([[0.5, 0.5], [0.0, 1.0]]), torch.tensor([0.2, 1.0]))
        tensor(0.8000)

    Args:
        theta: θ, (input, exit).
        exit_costs: The cost of each exit, (exit,).
    """
    return (theta * exit_costs).sum(dim=-1).mean()  # a matrix product would run in bfloat16 under autocast


def exit_loss(
    task: Task,
    outputs: Tensor,
    targets: Tensor,
    guidance: Guidance | None = None,
    sample_weights: Tensor | None = None,
) -> Tensor:
    """Return the mean loss of every (input, exit) pair: its NLL, or the loss with a teacher.

    Args:
        task: The task, which defines what the outputs mean.
        outputs: (batch, input, exit, out).
        targets: The target of each input, (batch, input[, target]).
        guidance: The predictions of a teacher for each output.
        sample_weights: How much each input's sample counts, (batch, input); None if all count 1.

    Returns:
        (input, exit).
    """
    expanded = targets[:, :, None].expand(*outputs.shape[:-1], *targets.shape[2:])
    losses = member_loss(task, outputs, expanded, guidance)
    return (losses if sample_weights is None else losses * sample_weights[:, :, None]).mean(dim=0)


def teacher_of(num_teachers: int, num_inputs: int, depth: int) -> Tensor:
    """Return the teacher of each (input, exit) pair, (input, exit): input i begins at teacher i·⌊M/N⌋.

    Example:
        >>> teacher_of(4, num_inputs=2, depth=3)
        tensor([[0, 1, 2],
                [2, 3, 0]])
    """
    inputs, exits = torch.arange(num_inputs), torch.arange(depth)
    return (inputs[:, None] * (num_teachers // num_inputs) + exits) % num_teachers


def negative_elbo(
    losses: Tensor,
    exit_weights: Tensor,
    exit_distribution: ExitDistribution,
    temperature: float,
    kl_weight: float,
    scale: int = 1,
) -> Elbo:
    """Return the negative ELBO of one batch: the paper's equation with |D|/B replaced by 1, unless `scale` is |D|.

    Args:
        losses: Mean negative log-likelihoods, or losses with a teacher, (input, exit).
        exit_weights: One relaxed top-K sample, (input, exit).
        exit_distribution: The distribution that the sample came from.
        temperature: T at this step.
        kl_weight: α at this step.
        scale: A factor of the data term; |D| gives |D|/B times the sum over the batch, as `losses` holds means.
    """
    data_fit = (exit_weights * losses).sum()
    kl = exit_distribution.kl_from_uniform(temperature)
    return Elbo(scale * data_fit + kl_weight * kl, data_fit, kl)
