"""Stopping early by several objectives: successive halving at rungs of epochs, asynchronously.

Optuna's pruners know one objective. Here a trial passes a rung if it is among the best of all
that have been there: by non-dominated rank, and within a rank spread over the front, so that
what goes on covers all trade-offs (MO-ASHA's ε-net). Nobody waits for anybody: a trial is
judged against those that came before it.
"""

import math

import numpy as np

from sae.analysis.pareto import Losses, spread_order

NUM_RUNGS = 2


def rungs(epochs: int, reduction: int) -> tuple[int, ...]:
    """Epochs after which trials are judged, a `reduction` apart.

    Example:
        >>> rungs(50, 3), rungs(3, 3), rungs(1, 3)
        ((6, 17), (1,), ())
    """
    steps = {math.ceil(epochs / reduction**level) for level in range(1, NUM_RUNGS + 1)}
    return tuple(sorted(step for step in steps if step < epochs))


def passes(losses: Losses, reduction: int) -> bool:
    """Whether the last of the trials at a rung goes on; the first few always do.

    Args:
        losses: Of all trials that have been at the rung, (trial, objective).
        reduction: One of so many goes on.
    """
    if len(losses) < reduction:
        return True
    best = spread_order(losses)[: math.ceil(len(losses) / reduction)]
    return bool(np.isin(len(losses) - 1, best))
