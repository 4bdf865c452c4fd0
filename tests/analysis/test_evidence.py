import math
import statistics
from dataclasses import replace

import numpy as np
import pytest

from sae.analysis.contestants import Contestant
from sae.analysis.evidence import Evidence, corrected, gather_evidence
from sae.analysis.results import Result
from sae.analysis.statistics import ALIKE, BETTER, UNKNOWN, WORSE, Spread, Verdict
from sae.core.objectives import TaskName
from sae.records.predictions import Predictions, SplitPredictions
from tests.results import result, run_of, small_config

TASK: TaskName = "classification"
CLASSES = 4


def over_seeds(values: list[float]) -> Result:
    """A configuration whose metrics all had these values, one for each seed."""
    spread = Spread(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None)
    runs = [run_of(small_config(seed), {}) for seed in range(len(values))]
    return result("x/0", {"f1": spread, "nll": spread}, runs=runs)


def verdict(one: Result, other: Result, metric: str, where: str = "test") -> Verdict | None:
    found = gather_evidence(one, other, (None, None), [metric], TASK)
    return next((item.verdict for item in found if item.where == where), None)


def kept(sharpness: float, seeds: int = 2, samples: int = 400, name: str = "x/0") -> Contestant:
    """Predictions that are the more often right and sure the sharper they are; targets are the same for all."""
    targets = np.random.default_rng(0).integers(0, CLASSES, samples)
    runs = []
    for seed in range(seeds):
        logits = np.random.default_rng(seed + 1).normal(size=(samples, CLASSES)) + sharpness * np.eye(CLASSES)[targets]
        numbers = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        split = SplitPredictions("same", targets, {1: numbers})
        runs.append(Predictions("classification", split, split))
    return Contestant(name, tuple(runs), (1,) * seeds, tuple(range(seeds)))


def test_what_differs_clearly_is_better_or_worse_by_its_direction() -> None:
    high, low = over_seeds([0.9, 0.91, 0.92, 0.9]), over_seeds([0.5, 0.51, 0.52, 0.5])
    assert verdict(high, low, "f1") == BETTER
    assert verdict(low, high, "f1") == WORSE
    assert verdict(high, low, "nll") == WORSE
    assert verdict(low, high, "nll") == BETTER


def test_a_difference_within_a_wide_spread_is_not_called_none() -> None:
    assert verdict(over_seeds([0.4, 0.6, 0.5, 0.7]), over_seeds([0.5, 0.6, 0.7, 0.45]), "f1") == UNKNOWN


def test_no_significant_difference_needs_an_interval_no_wider_than_the_margin() -> None:
    one, other = over_seeds([0.500, 0.501, 0.499, 0.5]), over_seeds([0.5005, 0.4995, 0.5, 0.501])
    assert verdict(one, other, "nll") == ALIKE
    wider = over_seeds([0.48, 0.52, 0.49, 0.51])
    (item,) = gather_evidence(one, wider, (None, None), ["nll"], TASK)
    assert item.high - item.low > item.margin == 0.01
    assert item.verdict == UNKNOWN


def test_a_single_seed_without_predictions_gives_no_evidence() -> None:
    assert verdict(over_seeds([0.9]), over_seeds([0.1, 0.11, 0.12]), "f1") is None
    assert verdict(over_seeds([0.1, 0.11, 0.12]), over_seeds([0.9]), "f1") is None


def test_any_difference_is_significant_if_all_seeds_agree() -> None:
    assert verdict(over_seeds([0.1, 0.1]), over_seeds([0.2, 0.2]), "nll") == BETTER
    assert verdict(over_seeds([0.1, 0.1]), over_seeds([0.1, 0.1]), "nll") == ALIKE


def test_a_metric_that_one_of_them_lacks_is_not_compared() -> None:
    assert verdict(over_seeds([0.9, 0.91]), over_seeds([0.1, 0.11]), "ece") is None


def test_unknown_seeds_make_no_result_better() -> None:
    whole, other = over_seeds([0.1, 0.11, 0.12, 0.1]), over_seeds([0.5, 0.51, 0.52, 0.5])
    lucky = replace(whole, test={"nll": Spread(0.1, 0.01, left_out=2)})
    assert verdict(whole, other, "nll") == BETTER
    assert verdict(lucky, other, "nll") == UNKNOWN
    assert verdict(replace(whole, failed=1), other, "nll") == UNKNOWN
    assert verdict(other, lucky, "nll") == UNKNOWN


def test_under_shift_only_the_seeds_that_were_measured_there_count() -> None:
    one = over_seeds([0.1] * 4)
    better, worse = (result("x", {}, runs=one.runs, shift={"nll": nll}) for nll in (0.1, 0.2))
    assert verdict(better, worse, "nll", "shift") == BETTER
    assert verdict(better, worse, "nll") is None
    assert verdict(one, one, "nll", "shift") is None


def test_kept_predictions_are_compared_sample_by_sample_even_of_one_seed() -> None:
    one, other = over_seeds([0.5]), over_seeds([0.5])
    found = gather_evidence(one, other, (kept(3.0, seeds=1), kept(2.0, seeds=1)), ["nll", "f1"], TASK)
    assert [item.samples for item in found] == [400, 400]
    assert [item.verdict for item in found] == [BETTER, BETTER]
    for item in found:
        assert item.low < item.value < item.high


def test_other_samples_leave_the_comparison_to_the_seeds() -> None:
    one, other = over_seeds([0.5, 0.51]), over_seeds([0.7, 0.71])
    fewer = kept(2.0, samples=300)
    strange = replace(fewer, runs=tuple(replace(run, test=replace(run.test, samples="others")) for run in fewer.runs))
    (found,) = gather_evidence(one, other, (kept(3.0), strange), ["nll"], TASK)
    assert found.samples is None


def test_holm_multiplies_the_smallest_p_by_all_and_never_reorders() -> None:
    item = Evidence("nll", "test", -0.1, -0.2, -0.01, 0.01, 0.01, True, (2, 2), 100)
    families = {"a": [item, replace(item, p=0.04)], "b": [replace(item, p=0.03)]}
    found = [one.p for items in corrected(families).values() for one in items]
    assert found == pytest.approx([0.03, 0.06, 0.06])
    # the textbook: p(i) · (m − i + 1), made monotone and at most 1
    ordered = sorted([0.01, 0.04, 0.03])
    textbook = np.minimum(1, np.maximum.accumulate([p * (3 - rank) for rank, p in enumerate(ordered)]))
    assert sorted(found) == pytest.approx(textbook.tolist())
    assert math.isclose(corrected({"a": [replace(item, p=0.9)] * 5})["a"][0].p, 1.0)
