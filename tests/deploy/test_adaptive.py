"""Where samples leave, which threshold is chosen, and when adaptive exits pay."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sae.deploy.adaptive
from sae.core.errors import ConfigError
from sae.deploy.adaptive import (
    batch_times,
    batches_of,
    choose_target,
    choose_threshold,
    does_pay,
    leaving_probs,
    leaving_segments,
    thresholds,
    verdict,
)
from sae.deploy.latency import Effort, Maker, Timing
from sae.deploy.manifest import DEFAULT_TARGET, ExitTarget, TimingPart
from sae.deploy.session import NEVER

pytestmark = pytest.mark.long

FLOPS = np.array([0.3, 0.6, 1.0])


def trace_of(seed: int, samples: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Running probabilities that get better with depth, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, samples)
    logits = rng.normal(size=(3, samples, 4)) + np.eye(4)[labels] * np.array([0.5, 1.5, 3.0])[:, None, None]
    probs = np.exp(logits)
    return probs / probs.sum(axis=-1, keepdims=True), labels


def accuracy(trace: np.ndarray, labels: np.ndarray, threshold: float) -> float:
    return float((leaving_probs(trace, leaving_segments(trace, threshold)).argmax(axis=1) == labels).mean())


@given(st.integers(0, 50), st.floats(0.5, 1.0))
def test_the_accuracy_is_kept_at_the_threshold_and_above(seed: int, share: float) -> None:
    trace, labels = trace_of(seed)
    found = choose_threshold(trace, labels, FLOPS, ExitTarget(kind="keep_accuracy", value=share))
    plain = accuracy(trace, labels, NEVER)
    above = [threshold for threshold in thresholds(trace) if threshold >= found]
    assert all(accuracy(trace, labels, threshold) >= share * plain - 1e-9 for threshold in above)


@given(st.integers(0, 50), st.floats(0.31, 1.0))
def test_the_flops_stay_within_their_share(seed: int, share: float) -> None:
    trace, labels = trace_of(seed)
    found = choose_threshold(trace, labels, FLOPS, ExitTarget(kind="mean_flops", value=share))
    assert FLOPS[leaving_segments(trace, found)].mean() <= share + 1e-9
    larger = [threshold for threshold in thresholds(trace) if threshold > found]
    assert all(FLOPS[leaving_segments(trace, threshold)].mean() > share for threshold in larger)


def test_everything_and_nothing_leave_at_the_ends() -> None:
    trace, _ = trace_of(0)
    assert set(leaving_segments(trace, 0.0)) == {0}
    assert set(leaving_segments(trace, NEVER)) == {2}
    assert set(leaving_segments(np.ones((3, 5, 1), np.float32), 1.0)) == {0}


def test_a_share_below_the_first_exit_is_refused() -> None:
    trace, labels = trace_of(0)
    with pytest.raises(ConfigError, match=r"--mean-flops must be at least 0\.3 .*, got 0\.2"):
        choose_threshold(trace, labels, FLOPS, ExitTarget(kind="mean_flops", value=0.2))


def test_one_target_at_a_time() -> None:
    assert choose_target(None, None) == DEFAULT_TARGET
    assert choose_target(None, 0.5) == ExitTarget(kind="mean_flops", value=0.5)
    with pytest.raises(ConfigError, match="not both"):
        choose_target(0.9, 0.5)
    for value in (0.0, 1.5, float("nan")):
        with pytest.raises(ConfigError, match="--keep-accuracy must be a share"):
            choose_target(value, None)


def test_the_time_of_a_batch_is_its_median_averaged_over_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(makers: Mapping[str, Maker], effort: Effort) -> dict[str, Timing]:
        seconds = {label: float(len(str(maker()()))) for label, maker in makers.items()}
        return {label: Timing(value, 0, 0, 0) for label, value in seconds.items()}

    monkeypatch.setattr(sae.deploy.adaptive, "interleaved", fake)
    batches = [np.zeros(1), np.zeros(2)]
    times = batch_times({"a": lambda batch: "x" * len(batch), "b": lambda batch: "xxxx" * len(batch)}, batches)
    assert times == {"a": 1500.0, "b": 6000.0}


def test_batches_are_full_or_all_there_is() -> None:
    samples = np.arange(10)
    assert [batch.tolist() for batch in batches_of(samples, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [len(batch) for batch in batches_of(samples, 2, most=3)] == [2, 2, 2]
    assert [len(batch) for batch in batches_of(samples, 64)] == [10]


def test_adaptive_exits_pay_if_they_save_more_than_the_noise_and_a_minimum() -> None:
    def timing(adaptive: float, noise: float) -> TimingPart:
        return TimingPart(batch=64, plain=1.0, adaptive=adaptive, noise=noise, stages=(0.5, 0.5))

    assert does_pay(timing(0.8, noise=0.1))
    assert not does_pay(timing(0.96, noise=0.0))
    assert not does_pay(timing(0.8, noise=0.3))
    assert verdict(timing(0.8, noise=0.1), 0.5, 0.99).startswith("adaptive exits pay here: a batch of 64 takes 0.80 ms")
    assert verdict(timing(0.8, noise=0.3), 0.5, 0.99).startswith("use the plain graph")
