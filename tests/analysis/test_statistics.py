import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind

from sae.analysis.statistics import Sample, Spread, spread_of, spreads_of, welch_interval

NUMBERS = st.floats(-1e6, 1e6)
ANY = st.one_of(NUMBERS, st.sampled_from([math.nan, math.inf, -math.inf]))


@given(st.lists(NUMBERS, min_size=2, max_size=9))
def test_a_spread_is_what_the_textbook_says(values: list[float]) -> None:
    spread = spread_of(values)
    assert spread is not None
    assert spread.mean == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert spread.std == pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-6)


@given(st.lists(ANY, max_size=9))
def test_numbers_that_are_not_finite_are_left_out_and_counted(values: list[float]) -> None:
    finite = [value for value in values if math.isfinite(value)]
    spread, alone = spread_of(values), spread_of(finite)
    if alone is None:
        assert spread is None
    else:
        assert spread == Spread(alone.mean, alone.std, len(values) - len(finite))


def test_one_number_has_no_deviation() -> None:
    assert spread_of([3.0]) == Spread(3.0, None)


def test_a_number_that_a_row_lacks_has_no_spread() -> None:
    spreads = spreads_of([{"a": 1.0, "b": 2.0, "c": math.nan}, {"a": 3.0, "c": math.inf}])
    assert list(spreads) == ["a"]
    assert spreads_of([]) == {}


def test_the_json_of_a_spread_is_its_mean_and_deviation() -> None:
    assert Spread(1.0, None, 2).describe() == {"mean": 1.0, "std": None}


SAMPLES = st.lists(st.integers(0, 64).map(lambda number: number / 64), min_size=2, max_size=6)


@given(SAMPLES, SAMPLES)
def test_p_value_and_interval_are_those_of_the_samples_themselves(one: list[float], other: list[float]) -> None:
    first, second = (Sample(statistics.mean(side), float(np.std(side, ddof=1)), len(side)) for side in (one, other))
    if min(first.std, second.std) > 1e-6:
        expected = ttest_ind(one, other, equal_var=False)
        found, textbook = welch_interval(first, second), expected.confidence_interval(0.95)
        assert found.p == pytest.approx(expected.pvalue, abs=1e-6)
        assert (found.low, found.high) == pytest.approx((textbook.low, textbook.high), abs=1e-6)


def test_samples_without_deviation_differ_surely_or_not_at_all() -> None:
    assert welch_interval(Sample(0.1, 0.0, 2), Sample(0.2, 0.0, 2)).p == 0.0
    assert welch_interval(Sample(0.1, 0.0, 2), Sample(0.1, 0.0, 2)).p == 1.0
