"""Decisions between two classes: a sample is called positive where that has at least a certain probability."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import ConfigError, check_known
from sae.records.evaluated import Decision

Scored = tuple[NDArray[np.float64], NDArray[np.bool_]]
"""The probability of the positive class, and whether it is the true one, (sample,) each."""


@dataclass(frozen=True)
class Costs:
    """What mistakes cost.

    Attributes:
        fp: Calling a negative sample positive.
        fn: Calling a positive sample negative.
    """

    fp: float
    fn: float


@dataclass(frozen=True)
class DecisionRule:
    """How to decide, as a user asks for it.

    Attributes:
        threshold: The smallest probability that is called positive; by default the best on validation by the costs.
        costs: What mistakes cost.
        positive: The name of the positive class; by default the last.
    """

    threshold: float | None
    costs: Costs | None
    positive: str | None = None

    @classmethod
    def of(
        cls, threshold: float | None, cost_fp: float | None, cost_fn: float | None, positive: str | None
    ) -> "DecisionRule | None":
        """Return what options ask for; None if none of them is given."""
        if threshold is not None and not 0 <= threshold <= 1:
            raise ConfigError(f"--threshold must be a probability in [0, 1], got {threshold:g}")
        if (cost_fp is None) != (cost_fn is None):
            raise ConfigError("--cost-fp and --cost-fn must be given together, got one: add the other, e.g. as 1")
        if cost_fp is None or cost_fn is None:
            if threshold is None and positive is not None:
                raise ConfigError("--positive must stand beside --threshold or --cost-fp and --cost-fn: add these")
            return None if threshold is None else cls(threshold, None, positive)
        if not (0 < cost_fp < np.inf and 0 < cost_fn < np.inf):
            raise ConfigError(f"--cost-fp and --cost-fn must be above 0, got {cost_fp:g} and {cost_fn:g}")
        return cls(threshold, Costs(cost_fp, cost_fn), positive)

    def label_in(self, names: tuple[str, ...], targets: tuple[str, ...] = ()) -> int:
        """Return the label of the positive class; refuse any other number of classes than two, and several targets."""
        if targets:
            given = f"{len(targets)} targets ({', '.join(map(repr, targets[:3]))}{', …' if len(targets) > 3 else ''})"
            raise ConfigError(f"--threshold and costs are for one target with two classes, got {given}: leave them out")
        if len(names) != 2:
            got = f"{len(names)} classes" if names else "data whose target is a number"
            raise ConfigError(f"--threshold and costs are for two classes, got {got}: leave them out")
        if self.positive is None:
            return 1
        check_known("--positive", self.positive, names)
        return names.index(self.positive)


def decide(rule: DecisionRule, positive: str, val: Scored, chosen: Scored) -> Decision:
    """Decide on the samples of a split, at the threshold of the rule or the best one on validation samples.

    Args:
        rule: How to decide.
        positive: The name of the positive class.
        val: The validation samples.
        chosen: The samples to decide on.
    """
    costs, (probs, truth) = rule.costs, chosen
    threshold = rule.threshold
    if threshold is None:
        assert costs is not None, "a rule without a threshold has costs"
        threshold = best_threshold(*val, costs)
    called = probs >= threshold
    false_positives, false_negatives = int((called & ~truth).sum()), int((~called & truth).sum())
    paid = None if costs is None else (costs.fp * false_positives + costs.fn * false_negatives) / len(truth)
    return Decision(
        positive=positive,
        threshold=threshold,
        is_best=rule.threshold is None,
        true_positives=int((called & truth).sum()),
        false_positives=false_positives,
        false_negatives=false_negatives,
        true_negatives=int((~called & ~truth).sum()),
        mean_cost=paid,
    )


def best_threshold(probs: NDArray[np.float64], truth: NDArray[np.bool_], costs: Costs) -> float:
    """Return the threshold of the lowest cost, half-way between two probabilities that occur.

    Of equally good ones it is the nearest to fp / (fp + fn), which is best for a calibrated network.

    Example:
        >>> best_threshold(np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, True, False, True]), Costs(1, 10))
        0.25
    """
    scores = np.unique(probs)
    thresholds = np.concatenate([[0.0], (scores[:-1] + scores[1:]) / 2, [1.0]])
    positives, negatives = np.sort(probs[truth]), np.sort(probs[~truth])
    false_positives = len(negatives) - np.searchsorted(negatives, thresholds)
    false_negatives = np.searchsorted(positives, thresholds)
    paid = costs.fp * false_positives + costs.fn * false_negatives
    far = np.abs(thresholds - costs.fp / (costs.fp + costs.fn))
    return float(thresholds[np.lexsort((far, paid))[0]])
