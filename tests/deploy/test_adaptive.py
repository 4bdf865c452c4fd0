"""Thresholds that keep what they promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sae.core.errors import ConfigError
from sae.deploy.adaptive import calibrate_threshold, choose_target, probs_left, stages_left, thresholds
from sae.deploy.manifest import DEFAULT_TARGET, ExitTarget
from sae.deploy.session import NEVER

FLOPS = np.array([0.3, 0.6, 1.0])


def trace_of(seed: int, samples: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Running probabilities that get better with depth, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, samples)
    logits = rng.normal(size=(3, samples, 4)) + np.eye(4)[labels] * np.array([0.5, 1.5, 3.0])[:, None, None]
    probs = np.exp(logits)
    return probs / probs.sum(axis=-1, keepdims=True), labels


def accuracy(trace: np.ndarray, labels: np.ndarray, threshold: float) -> float:
    return float((probs_left(trace, stages_left(trace, threshold)).argmax(axis=1) == labels).mean())


@given(st.integers(0, 50), st.floats(0.5, 1.0))
def test_the_accuracy_is_kept_at_the_threshold_and_above(seed: int, share: float) -> None:
    trace, labels = trace_of(seed)
    found = calibrate_threshold(trace, labels, FLOPS, ExitTarget(kind="keep_accuracy", value=share))
    plain = accuracy(trace, labels, NEVER)
    above = [threshold for threshold in thresholds(trace) if threshold >= found]
    assert all(accuracy(trace, labels, threshold) >= share * plain - 1e-9 for threshold in above)


@given(st.integers(0, 50), st.floats(0.31, 1.0))
def test_the_flops_stay_within_their_share(seed: int, share: float) -> None:
    trace, labels = trace_of(seed)
    found = calibrate_threshold(trace, labels, FLOPS, ExitTarget(kind="mean_flops", value=share))
    assert FLOPS[stages_left(trace, found)].mean() <= share + 1e-9
    larger = [threshold for threshold in thresholds(trace) if threshold > found]
    assert all(FLOPS[stages_left(trace, threshold)].mean() > share for threshold in larger)


def test_everything_and_nothing_leave_at_the_ends() -> None:
    trace, _ = trace_of(0)
    assert set(stages_left(trace, 0.0)) == {0}
    assert set(stages_left(trace, NEVER)) == {2}
    assert set(stages_left(np.ones((3, 5, 1)), 1.0)) == {0}


def test_a_share_below_the_first_exit_is_refused() -> None:
    trace, labels = trace_of(0)
    with pytest.raises(ConfigError, match=r"--mean-flops must be at least 0\.3, got 0\.2"):
        calibrate_threshold(trace, labels, FLOPS, ExitTarget(kind="mean_flops", value=0.2))


def test_one_target_at_a_time() -> None:
    assert choose_target(None, None) == DEFAULT_TARGET
    assert choose_target(None, 0.5) == ExitTarget(kind="mean_flops", value=0.5)
    with pytest.raises(ConfigError, match="not both"):
        choose_target(0.9, 0.5)
    for value in (0.0, 1.5, float("nan")):
        with pytest.raises(ConfigError, match="--keep-accuracy must be a share"):
            choose_target(value, None)
