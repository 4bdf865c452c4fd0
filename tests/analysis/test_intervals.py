import math

import numpy as np
import pytest
from benchmarks.coverage import coverage
from scipy import stats

from sae.analysis.intervals import Estimate, Side, combine


def side(*points: float, noise: float = 0.0, seed: int = 0) -> Side:
    """Runs whose resamples move together."""
    common = noise * np.random.default_rng(seed).standard_normal((4000, 1))
    return Side(np.array(points), np.array(points) + common)


@pytest.mark.parametrize(("seeds", "share"), [(3, 0.0), (3, 0.5), (3, 1.0), (4, 0.5), (6, 1.0)])
def test_intervals_cover_the_truth_between_93_and_98_times_in_100(seeds: int, share: float) -> None:
    assert 0.93 <= coverage(seeds, share, samples=300) <= 0.98


def test_intervals_cover_the_truth_at_least_93_times_in_100_with_two_seeds() -> None:
    assert coverage(2, 0.5, samples=300) >= 0.93


def test_seeds_alone_have_welchs_interval_and_p_value() -> None:
    one, other = (0.31, 0.35, 0.33, 0.40), (0.30, 0.28, 0.33, 0.31)
    found = combine([side(*one), side(*other)], [1, -1])
    expected = stats.ttest_ind(one, other, equal_var=False)
    assert found.interval == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.p == pytest.approx(expected.pvalue)


def test_samples_alone_have_the_normal_interval_and_p_value() -> None:
    found = combine([side(0.3, noise=0.01), side(0.28, noise=0.01, seed=1)], [1, -1])
    error = math.sqrt(found.by_samples)
    assert error == pytest.approx(0.01 * math.sqrt(2), rel=0.05)
    assert found.interval == pytest.approx((0.02 - 1.96 * error, 0.02 + 1.96 * error), rel=1e-3)
    assert found.p == pytest.approx(2 * stats.norm.sf(0.02 / error))


def test_noise_that_all_runs_share_cancels_in_a_difference() -> None:
    assert combine([side(0.3, noise=0.01), side(0.28, noise=0.01)], [1, -1]).by_samples == pytest.approx(0, abs=1e-12)


def test_noise_of_each_run_alone_is_not_counted_twice() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(0, 0.01, 50)
    own = Side(points, points + rng.normal(0, 0.01, (4000, 50)))
    found = combine([own], [1])
    assert found.by_samples == pytest.approx(0, abs=0.1 * found.by_seeds[0])


def test_the_p_value_is_the_level_at_which_the_interval_ends_at_zero() -> None:
    found = combine([side(0.31, 0.35, 0.33, noise=0.01), side(0.30, 0.28, 0.33, noise=0.01, seed=1)], [1, -1])
    assert found.reach(found.p) == pytest.approx(abs(found.value))


def test_unequal_numbers_of_seeds_have_a_wider_interval_than_welchs() -> None:
    one, other = (0.31, 0.38), (0.30, 0.28, 0.33, 0.31, 0.29, 0.32)
    low, high = combine([side(*one), side(*other)], [1, -1]).interval
    expected = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    assert low < expected.low
    assert high > expected.high


def test_equal_networks_have_a_p_value_of_one() -> None:
    assert combine([side(0.3, 0.4), side(0.4, 0.3)], [1, -1]).p == 1.0
    assert combine([side(0.3), side(0.3)], [1, -1]).interval == (0.0, 0.0)


def test_a_certain_difference_has_the_smallest_p_value() -> None:
    found = Estimate(1.0, 0.0, (), ())
    assert found.interval == (1.0, 1.0)
    assert 0 < found.p < 1e-50


def test_a_clear_difference_of_two_seeds_does_not_overflow() -> None:
    assert 0 < combine([side(0.30, 0.31), side(1e6, 1e6 + 1)], [1, -1]).p < 1e-3


def test_an_infinite_loss_has_an_infinite_interval() -> None:
    found = combine([side(math.inf, 0.3), side(0.2, 0.3)], [1, -1])
    assert found.interval == (-math.inf, math.inf)
    assert found.p == 1.0
