"""The learnt distribution over exits: for each input a categorical distribution over depths."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

MIN_WEIGHT = 1e-3
"""Exits with a smaller weight are dropped at evaluation, as in the authors' code; the rest is renormalised."""

EPSILON = 1e-8
"""Keeps log(1 − p) finite in the relaxed top-K sample."""


class ExitDistribution(nn.Module):
    """Exit logits l, which start at zero, and the weights derived from them.

    Everything is computed in float32, also under mixed precision, and is finite down to a
    temperature of 1e-3.

    Args:
        num_inputs: N.
        depth: D.
        is_learnt: Whether the logits are trained; otherwise all exits keep the same weight.
        noise_on: Where samples add the noise: to l, as the authors' code does, or to l/T, so that they follow θ.

    Attributes:
        logits: (input, exit).
    """

    def __init__(
        self, num_inputs: int, depth: int, *, is_learnt: bool = True, noise_on: Literal["logits", "tempered"] = "logits"
    ) -> None:
        super().__init__()
        self.noise_on = noise_on
        self.logits = nn.Parameter(torch.zeros(num_inputs, depth), requires_grad=is_learnt)

    def probs(self, temperature: float) -> Tensor:
        """Return θ = softmax(l / T), (input, exit)."""
        return (self.logits.float() / temperature).softmax(dim=-1)

    def kl_from_uniform(self, temperature: float) -> Tensor:
        """Return Σ_i KL(θ_i ‖ uniform), a scalar that is 0 where θ is uniform."""
        log_probs = (self.logits.float() / temperature).log_softmax(dim=-1)
        num_inputs, depth = log_probs.shape
        return (log_probs.exp() * log_probs).sum() + num_inputs * math.log(depth)

    def sample(self, exits: int, temperature: float, generator: torch.Generator) -> Tensor:
        """Draw one relaxed top-K sample of exit weights, (input, exit); rows sum to K.

        The sample is the sum of K softmaxes over Gumbel-perturbed logits. Each softmax lowers the
        logits of the exits already taken by log(1 − p), so the sum tends to a K-hot vector as T → 0.
        Nothing is drawn if the distribution is not learnt: all exits then weigh K/D.
        """
        if not self.logits.requires_grad:
            return torch.full_like(self.logits, exits / self.logits.shape[1], dtype=torch.float32)
        uniform = torch.rand(self.logits.shape, generator=generator).to(self.logits.device)
        logits = self.logits.float() / (temperature if self.noise_on == "tempered" else 1.0)
        return relaxed_top_k(logits + gumbel(uniform), exits, temperature)

    def weights(self, eval_exits: int, temperature: float) -> Tensor:
        """Return the evaluation weights θ*, (input, exit): softmax over the K′ largest logits, 0 elsewhere."""
        logits = self.logits.detach().float()
        kept = top_k_mask(logits, eval_exits)
        theta = (logits / temperature).masked_fill(~kept, -torch.inf).softmax(dim=-1)
        theta = theta.masked_fill(theta < MIN_WEIGHT, 0.0)
        return theta / theta.sum(dim=-1, keepdim=True)


def gumbel(uniform: Tensor) -> Tensor:
    """Turn uniform noise in [0, 1) into Gumbel noise."""
    tiny = torch.finfo(uniform.dtype).tiny
    return -(-uniform.clamp_min(tiny).log()).clamp_min(tiny).log()


def relaxed_top_k(perturbed: Tensor, k: int, temperature: float) -> Tensor:
    """Return the sum of K successive softmaxes, (input, exit); see `ExitDistribution.sample`.

    Example:
        >>> relaxed_top_k(torch.tensor([[0.0, 2.0, 1.0]]), k=2, temperature=1e-3).round()
        tensor([[0., 1., 1.]])
    """
    taken = (perturbed / temperature).softmax(dim=-1)
    total = taken
    for _ in range(k - 1):
        perturbed = perturbed + (1 - taken).clamp_min(EPSILON).log()
        taken = (perturbed / temperature).softmax(dim=-1)
        total = total + taken
    return total


def top_k_mask(logits: Tensor, k: int) -> Tensor:
    """Mark the K largest logits of each row, (input, exit); the deepest wins a tie.

    Example:
        >>> top_k_mask(torch.tensor([[0.0, 0.0, 0.0]]), k=1)
        tensor([[False, False,  True]])
    """
    from_deepest = logits.flip(-1).argsort(dim=-1, descending=True, stable=True)
    order = logits.shape[-1] - 1 - from_deepest
    return torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order[:, :k], True)
