import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy import stats

from sae.analysis.bootstrap import Difference, compare_samples, resampled_means
from sae.analysis.contestants import Contestant
from sae.analysis.ensemble_equivalent import ensemble_equivalent, interpolate_members, subset_mean, subsets
from sae.analysis.sample_metrics import SAMPLE_METRICS, sample_metric
from sae.analysis.statistics import ALIKE, BETTER, UNKNOWN, WORSE
from sae.core.errors import ConfigError
from sae.core.objectives import TaskName
from sae.core.predictive import Categorical, Gaussian, mix_categoricals, mix_gaussians
from sae.measure.calibration import calibrated, fit_temperature
from sae.measure.metrics import measure_all
from sae.records.predictions import Numbers, Predictions, SplitPredictions

CLASSES = 5


def log_softmax(logits: Numbers) -> Numbers:
    return torch.from_numpy(logits).log_softmax(dim=-1).numpy()


def split(count: int, seed: int, skill: float, members: int = 0, hard: int = 0) -> SplitPredictions:
    """Made-up predictions; the labels depend on the number of samples alone, the noise of the logits on the seed."""
    labels = np.random.default_rng(count).integers(0, CLASSES, count)
    noise = np.random.default_rng((seed, count)).normal(size=(max(members, 1), count, CLASSES))
    logits = skill * np.eye(CLASSES)[labels] + noise
    alone = log_softmax(logits)
    joint = subset_mean("classification", alone)
    samples = f"{count} {hard}"
    return SplitPredictions(samples, labels, {1: joint, 2: alone[0]}, alone if members else None)


def contestant(
    name: str, skill: float, seeds: Sequence[int] = (0, 1, 2), count: int = 400, members: int = 0
) -> Contestant:
    runs = tuple(
        Predictions("classification", split(600, seed, skill, members), split(count, seed, skill, members))
        for seed in seeds
    )
    return Contestant(name, runs, (1,) * len(runs))


def real_numbers(count: int = 200) -> tuple[Numbers, np.ndarray]:
    rng = np.random.default_rng(0)
    return np.stack([rng.normal(size=count), rng.uniform(0.1, 2, count)], axis=1), rng.normal(size=count)


@pytest.mark.parametrize("name", SAMPLE_METRICS["classification"])
def test_a_metric_of_classes_is_the_one_that_runs_record(name: str) -> None:
    found = split(500, 0, 2.0)
    expected = measure_all(Categorical(torch.from_numpy(found.readings[1])), torch.from_numpy(found.targets))[name]
    assert sample_metric(name, "classification").value(found.readings[1], found.targets) == pytest.approx(expected)


@pytest.mark.parametrize("name", SAMPLE_METRICS["regression"])
def test_a_metric_of_real_values_is_the_one_that_runs_record(name: str) -> None:
    numbers, targets = real_numbers()
    tensor = torch.from_numpy(numbers)
    expected = measure_all(Gaussian(tensor[:, 0], tensor[:, 1]), torch.from_numpy(targets))[name]
    assert sample_metric(name, "regression").value(numbers, targets) == pytest.approx(expected)


def test_f1_leaves_out_a_class_that_is_neither_true_nor_predicted() -> None:
    numbers, labels = split(50, 0, 2.0).readings[1], split(50, 0, 2.0).targets
    wider = np.concatenate([numbers, np.full((50, 1), -50.0)], axis=1)
    f1 = sample_metric("f1", "classification")
    assert f1.value(wider, labels) == pytest.approx(f1.value(numbers, labels))


def test_a_class_that_is_never_predicted_counts_zero_in_the_uniform_calibration_error_of_classes() -> None:
    part = split(50, 0, 2.0)
    wider = np.concatenate([part.readings[1], np.full((50, 1), -50.0)], axis=1)
    uniform = sample_metric("cc_ece_uniform", "classification")
    expected = uniform.value(part.readings[1], part.targets) * CLASSES / (CLASSES + 1)
    assert uniform.value(wider, part.targets) == pytest.approx(expected)


@pytest.mark.parametrize("name", SAMPLE_METRICS["classification"])
def test_resampled_metrics_are_those_of_a_naive_loop(name: str) -> None:
    found, metric, resamples = split(60, 0, 1.0), sample_metric(name, "classification"), 5
    (means,) = resampled_means([metric.features(found.readings[1], found.targets)], resamples, seed=7)
    rows = np.random.default_rng(7).integers(0, 60, (resamples, 60))
    for value, chosen in zip(metric.finish(means), rows, strict=True):
        drawn = Categorical(torch.from_numpy(found.readings[1][chosen]))
        assert value == pytest.approx(measure_all(drawn, torch.from_numpy(found.targets[chosen]))[name])


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution() -> None:
    one, other = contestant("a", 2.0, seeds=[0], count=4000), contestant("b", 2.0, seeds=[1], count=4000)
    (found,) = compare_samples(one, other, ["nll"], resamples=4000)
    labels = one.runs[0].test.targets
    pairs = [run.test.readings[1][np.arange(4000), labels] for run in (one.runs[0], other.runs[0])]
    difference = pairs[1] - pairs[0]
    error = difference.std() / math.sqrt(4000)
    assert found.value == pytest.approx(difference.mean())
    assert (found.low, found.high) == pytest.approx(
        (difference.mean() - 1.96 * error, difference.mean() + 1.96 * error), abs=0.15 * error
    )


def sure(name: str, *losses: float) -> Contestant:
    """Runs in which every sample has the same loss, so that only seeds vary."""
    part = split(50, 0, 1.0)
    runs = []
    for loss in losses:
        numbers = np.full((50, CLASSES), np.log((1 - math.exp(-loss)) / (CLASSES - 1)))
        numbers[np.arange(50), part.targets] = -loss
        runs.append(Predictions("classification", part, SplitPredictions(part.samples, part.targets, {1: numbers})))
    return Contestant(name, tuple(runs), (1,) * len(runs))


def test_the_interval_covers_the_choice_of_seeds() -> None:
    (found,) = compare_samples(sure("a", 0.1, 0.2, 0.6), sure("b", 0.05), ["nll"])
    assert found.value == pytest.approx(0.25)
    reach = stats.t.ppf(0.975, 2) * np.std([0.1, 0.2, 0.6], ddof=1) / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((0.25 - reach, 0.25 + reach))


def test_a_clear_difference_has_a_verdict_and_none_has_none() -> None:
    good, bad, like_good = contestant("a", 3.0), contestant("b", 1.0), contestant("c", 3.0, seeds=[5, 6, 7])
    names = ["nll", "accuracy", "nll_scaled", "brier"]
    assert [item.verdict for item in compare_samples(good, bad, names)] == [BETTER] * 4
    assert [item.verdict for item in compare_samples(bad, good, names)] == [WORSE] * 4
    (alike,) = compare_samples(good, like_good, ["nll_scaled"])
    assert alike.high - alike.low > 0.01  # nats, the margin of the NLL
    assert alike.verdict == UNKNOWN


def test_the_p_value_is_small_where_the_interval_holds_no_zero_and_only_there() -> None:
    good, bad, like_good = contestant("a", 3.0), contestant("b", 1.0), contestant("c", 3.0, seeds=[5, 6, 7])
    assert compare_samples(good, bad, ["nll"])[0].p < 0.01
    assert compare_samples(good, like_good, ["nll"])[0].p > 0.05


@pytest.mark.parametrize("name", ["ece_scaled", "cc_ece_scaled", "cc_ece", "cc_ece_uniform", "f1"])
def test_the_interval_of_a_metric_that_is_no_mean_holds_the_difference(name: str) -> None:
    (found,) = compare_samples(contestant("a", 1.0), contestant("b", 3.0), [name])
    assert found.low < found.value < found.high


def test_a_contestant_equals_itself() -> None:
    one = contestant("a", 2.0, seeds=[0])
    for found in compare_samples(one, one, ["nll", "ece", "cc_ece_scaled", "f1"]):
        assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)
        assert found.verdict == ALIKE


def test_scaled_values_are_those_after_temperature_scaling_on_validation() -> None:
    one = contestant("a", 6.0, seeds=[0])
    run = one.runs[0]
    (found,) = compare_samples(one, one, ["nll_scaled"], resamples=10)
    fitted = fit_temperature(Categorical(torch.from_numpy(run.val.readings[1])), torch.from_numpy(run.val.targets))
    scaled = calibrated(Categorical(torch.from_numpy(run.test.readings[1])), fitted.value)
    assert found.one == pytest.approx(measure_all(scaled, torch.from_numpy(run.test.targets))["nll"], rel=1e-5)


@pytest.mark.parametrize(
    ("metric", "low", "high", "margin", "is_match"),
    [
        ("nll", -0.02, 0.009, 0.01, True),
        ("nll", -0.02, 0.011, 0.01, False),
        ("accuracy", -0.009, 0.02, 0.01, True),
        ("accuracy", -0.011, 0.02, 0.01, False),
    ],
)
def test_a_match_is_worse_by_less_than_the_margin(
    metric: str, low: float, high: float, margin: float, is_match: bool
) -> None:
    assert Difference(metric, "classification", 0.5, 0.5, low, high).matches(margin) == is_match


def test_other_samples_are_refused() -> None:
    with pytest.raises(ConfigError, match="must have the same test samples, but b and a have different ones"):
        compare_samples(contestant("a", 2.0), contestant("b", 2.0, count=300), ["nll"])


def test_exits_that_were_not_kept_are_refused() -> None:
    one = contestant("a", 2.0)
    with pytest.raises(ConfigError, match="must be read at one of its numbers of exits, 1, 2; got 3"):
        compare_samples(Contestant("a", one.runs, (3, 3, 3)), one, ["nll"])


def test_an_unknown_metric_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        sample_metric("acuracy", "classification")


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_subset_is_mixed_as_an_ensemble_is(task: TaskName) -> None:
    rng = np.random.default_rng(0)
    logits, positive = rng.normal(size=(3, 7, 4)), rng.uniform(0.1, 1, (3, 7, 2))
    members: Numbers = log_softmax(logits) if task == "classification" else positive
    tensor, weight = torch.from_numpy(members).transpose(0, 1), torch.full((3,), 1 / 3, dtype=torch.float64)
    if task == "classification":
        expected = mix_categoricals(tensor, weight).log_probs
    else:
        mixed = mix_gaussians(tensor[..., 0], tensor[..., 1], weight)
        expected = torch.stack([mixed.mean, mixed.variance], dim=1)
    np.testing.assert_allclose(subset_mean(task, members), expected.numpy(), atol=1e-12)


def test_an_ensemble_of_its_own_members_is_worth_as_many() -> None:
    ensemble = contestant("e", 2.0, members=4)
    found = ensemble_equivalent(ensemble, ensemble, resamples=200)
    assert found.members == pytest.approx(4.0)
    assert list(found.curve) == sorted(found.curve, reverse=True)
    assert found.describe(found.members) == "4.0"


@pytest.mark.parametrize("rounding", [1e-13, 0.0, -1e-13])
def test_rounding_takes_nothing_out_of_the_range_of_members(rounding: float) -> None:
    curve = np.array([[0.4, 0.3, 0.2], [0.4, 0.4, 0.4]])
    assert interpolate_members(curve[:, 0] + rounding, curve) == pytest.approx([1.0, 3.0])
    assert interpolate_members(curve[:, -1] + rounding, curve) == pytest.approx([3.0, 3.0])


def test_two_of_its_members_are_worth_two() -> None:
    ensemble = contestant("e", 2.0, seeds=[0], members=4, count=3000)
    levels = []
    for chosen in subsets(4, 2):
        pair = tuple(
            Predictions(
                run.task,
                *(
                    SplitPredictions(part.samples, part.targets, {1: subset_mean(run.task, part.members[list(chosen)])})
                    for part in (run.val, run.test)
                    if part.members is not None
                ),
            )
            for run in ensemble.runs
        )
        levels.append(ensemble_equivalent(Contestant("two", pair, (1,)), ensemble, resamples=200))
    assert np.mean([found.members for found in levels]) == pytest.approx(2.0, abs=0.05)
    assert all(found.low <= found.members <= found.high for found in levels)


def test_what_no_number_of_members_reaches_is_said() -> None:
    ensemble = contestant("e", 2.0, members=4)
    better, worse = (ensemble_equivalent(contestant("x", skill), ensemble, resamples=100) for skill in (9.0, 0.1))
    assert [better.describe(value) for value in (better.members, better.low, better.high)] == [">4"] * 3
    assert [worse.describe(value) for value in (worse.members, worse.low, worse.high)] == ["<1"] * 3


def test_a_network_without_members_cannot_be_the_ensemble() -> None:
    with pytest.raises(ConfigError, match="b must be a deep ensemble, whose members are kept"):
        ensemble_equivalent(contestant("a", 2.0), contestant("b", 2.0))


def test_interpolation_is_that_of_a_naive_search() -> None:
    rng = np.random.default_rng(0)
    curves, levels = np.sort(rng.random((200, 4)))[:, ::-1].copy(), rng.random(200)
    for level, curve, found in zip(levels, curves, interpolate_members(levels, curves), strict=True):
        if level > curve[0] or level < curve[-1]:
            assert found == (-math.inf if level > curve[0] else math.inf)
        else:
            assert found == pytest.approx(np.interp(-level, -curve, [1, 2, 3, 4]))


def test_a_curve_that_rises_again_stays_at_its_lowest() -> None:
    assert interpolate_members(np.array([0.25]), np.array([[0.3, 0.2, 0.4]])).tolist() == [pytest.approx(1.5)]


def test_larger_ensembles_have_a_subset_beginning_at_each_member() -> None:
    assert len(subsets(8, 4)) == 8
    assert {member for subset in subsets(8, 4) for member in subset} == set(range(8))
