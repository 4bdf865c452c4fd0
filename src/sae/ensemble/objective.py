"""What SAE minimises: the negative evidence lower bound, by its named terms."""

from dataclasses import dataclass

from torch import Tensor

from sae.core.predictive import member_nll
from sae.core.task import Task
from sae.ensemble.exit_distribution import ExitDistribution


@dataclass(frozen=True)
class Elbo:
    """The negative ELBO and its parts, scalars.

    Attributes:
        loss: data_fit + kl_weight · kl.
        data_fit: Σ over inputs and exits of sampled weight · mean negative log-likelihood.
        kl: Σ over inputs of KL(θ ‖ uniform).
    """

    loss: Tensor
    data_fit: Tensor
    kl: Tensor


def exit_nll(task: Task, outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean negative log-likelihood of every (input, exit) pair, in one call for all.

    Args:
        task: Says what the outputs mean.
        outputs: (batch, input, exit, out).
        targets: What each input should say, (batch, input).

    Returns:
        (input, exit).
    """
    expanded = targets[:, :, None].expand(outputs.shape[:-1])
    return member_nll(task, outputs, expanded).mean(dim=0)


def negative_elbo(
    nll: Tensor, exit_weights: Tensor, exits: ExitDistribution, temperature: float, kl_weight: float
) -> Elbo:
    """The paper's equation for one batch, with |D|/B replaced by 1.

    Args:
        nll: Mean negative log-likelihoods, (input, exit).
        exit_weights: One relaxed top-K sample, (input, exit).
        exits: The distribution that the sample came from.
        temperature: T at this step.
        kl_weight: α at this step.
    """
    data_fit = (exit_weights * nll).sum()
    kl = exits.kl_from_uniform(temperature)
    return Elbo(data_fit + kl_weight * kl, data_fit, kl)
