import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind

from sae.analysis.comparison import ALIKE, BETTER, WORSE, compare, difference_probability
from sae.analysis.results import Result, Spread
from sae.core.objectives import objective
from sae.records.run import RunRecord
from tests.results import result

F1, NLL = objective("f1", "classification"), objective("nll", "classification")


def over_seeds(values: list[float]) -> Result:
    """A configuration of which every metric had these values, a seed each."""
    spread = Spread(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None)
    runs = [RunRecord(Path(str(seed))) for seed in range(len(values))]
    return result("x/0", {"f1": spread, "nll": spread}, runs=runs)


numbers = st.lists(st.integers(0, 64).map(lambda number: number / 64), min_size=2, max_size=6)


@given(numbers, numbers)
def test_the_probability_is_that_of_the_samples_themselves(one: list[float], other: list[float]) -> None:
    sides = [(statistics.mean(side), float(np.std(side, ddof=1)), len(side)) for side in (one, other)]
    if min(side[1] for side in sides) > 1e-6:
        expected = ttest_ind(one, other, equal_var=False).pvalue
        assert difference_probability(sides[0], sides[1]) == pytest.approx(expected, abs=1e-6)


def test_what_differs_clearly_is_better_or_worse_by_its_direction() -> None:
    high, low = over_seeds([0.9, 0.91, 0.92, 0.9]), over_seeds([0.5, 0.51, 0.52, 0.5])
    assert compare(high, low, F1) == BETTER
    assert compare(low, high, F1) == WORSE
    assert compare(high, low, NLL) == WORSE
    assert compare(low, high, NLL) == BETTER


def test_what_differs_within_its_spread_is_not_told_apart() -> None:
    assert compare(over_seeds([0.4, 0.6, 0.5, 0.7]), over_seeds([0.5, 0.6, 0.7, 0.45]), F1) == ALIKE


def test_two_seeds_have_to_differ_by_far_more_than_four() -> None:
    two, four = ([0.50, 0.52], [0.54, 0.56]), ([0.50, 0.52, 0.50, 0.52], [0.54, 0.56, 0.54, 0.56])
    assert compare(over_seeds(two[0]), over_seeds(two[1]), NLL) == ALIKE
    assert compare(over_seeds(four[0]), over_seeds(four[1]), NLL) == BETTER


def test_one_seed_is_never_told_apart() -> None:
    assert compare(over_seeds([0.9]), over_seeds([0.1, 0.11, 0.12]), F1) == ALIKE
    assert compare(over_seeds([0.1, 0.11, 0.12]), over_seeds([0.9]), F1) == ALIKE


def test_seeds_that_all_agree_are_told_apart_by_any_difference() -> None:
    assert compare(over_seeds([0.1, 0.1]), over_seeds([0.2, 0.2]), NLL) == BETTER
    assert compare(over_seeds([0.1, 0.1]), over_seeds([0.1, 0.1]), NLL) == ALIKE


def test_a_metric_that_one_of_them_lacks_tells_nothing() -> None:
    assert compare(over_seeds([0.9, 0.91]), over_seeds([0.1, 0.11]), objective("ece", "classification")) == ALIKE


def test_seeds_of_which_nothing_is_known_make_nobody_better() -> None:
    whole, other = over_seeds([0.1, 0.11, 0.12, 0.1]), over_seeds([0.5, 0.51, 0.52, 0.5])
    half = Spread(0.1, 0.01, left_out=2)
    lucky = replace(whole, test={"nll": half})
    assert compare(whole, other, NLL) == BETTER
    assert compare(lucky, other, NLL) == ALIKE
    assert compare(replace(whole, failed=1), other, NLL) == ALIKE
    assert compare(other, lucky, NLL) == ALIKE
