import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sae.core.errors import ConfigError
from sae.deploy.conformal import MOST_KEPT, class_scores, class_sets, intervals, keep_scores, value_scores


@given(st.integers(20, 1000), st.floats(0.05, 0.9), st.integers(0, 5))
def test_a_threshold_is_the_corrected_order_statistic_or_a_little_above(count: int, coverage: float, seed: int) -> None:
    scores = np.abs(np.random.default_rng(seed).normal(size=count))
    rank = math.ceil(round((count + 1) * coverage, 9))
    exact, threshold = np.sort(scores)[rank - 1], keep_scores(scores, "standardised_error").threshold(coverage)
    if count <= MOST_KEPT:
        assert threshold == exact
    assert exact <= threshold <= np.sort(scores)[min(rank + math.ceil(count / MOST_KEPT), count) - 1]


def test_sets_hold_the_truth_as_often_as_they_promise() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6000, 5)) * 2
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(5, p=row) for row in 0.5 * probs + 0.1])  # less certain than it says
    calibration = keep_scores(class_scores(probs[:3000], labels[:3000]), "one_minus_probability")
    sets = class_sets(probs[3000:], calibration.threshold(0.8))
    assert sets[np.arange(3000), labels[3000:]].mean() == pytest.approx(0.8, abs=0.03)
    assert sets.any(axis=1).all(), "no set is empty"


def test_intervals_hold_the_truth_as_often_as_they_promise() -> None:
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=4000), rng.uniform(0.5, 2, 4000)
    targets = mean + 3 * np.sqrt(variance) * rng.standard_t(3, 4000)
    scores = value_scores(mean[:2000], variance[:2000], targets[:2000])
    lower, upper = intervals(mean[2000:], variance[2000:], keep_scores(scores, "standardised_error").threshold(0.9))
    assert ((lower <= targets[2000:]) & (targets[2000:] <= upper)).mean() == pytest.approx(0.9, abs=0.03)


def test_too_few_samples_for_a_coverage_are_refused() -> None:
    calibration = keep_scores(np.arange(50.0), "standardised_error")
    with pytest.raises(ConfigError, match=r"0.99 needs at least 99 validation samples.*has 50"):
        calibration.threshold(0.99)
    with pytest.raises(ConfigError, match="above 0 and below 1, got 1"):
        calibration.threshold(1.0)
