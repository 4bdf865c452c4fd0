import math

import pytest

from sae.core.errors import ConfigError
from sae.core.objectives import COSTS, Limit, limits, metrics_of, objective, objectives

TASKS = ["classification", "regression"]


@pytest.mark.parametrize("task", TASKS)
def test_every_metric_and_cost_is_an_objective_and_every_metric_also_under_shift(task: str) -> None:
    for name in [*metrics_of(task), *COSTS, *(f"{metric}@shift" for metric in metrics_of(task))]:
        assert objective(name, task).name == name


def test_the_key_and_the_place_of_a_shifted_metric_are_told_apart() -> None:
    shifted, plain = objective("nll@shift", "classification"), objective("nll", "classification")
    assert (shifted.key, shifted.is_shifted, shifted.is_cost) == ("nll", True, False)
    assert (plain.key, plain.is_shifted) == ("nll", False)
    assert shifted.quantity == plain.quantity


@pytest.mark.parametrize(
    ("name", "task", "message"),
    [
        ("nlll", "classification", r"must be one of nll, .*; got 'nlll', did you mean nll\?"),
        ("flop", "regression", r"did you mean flops\?"),
        ("f1@shfit", "classification", r"did you mean f1@shift\?"),
        (
            "f1",
            "regression",
            "an objective of regression must be one of nll, mse, rmse, mae, r2, pinball, nll_scaled, flops",
        ),
        ("flops@shift", "classification", r"got 'flops@shift', did you mean flops\?"),
        ("@shift", "classification", "got '@shift'"),
        ("", "classification", "got ''"),
        ("NLL", "classification", "got 'NLL'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(name: str, task: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        objective(name, task)


@pytest.mark.parametrize("names", [[], ["nll", "nll"]])
def test_objectives_are_one_or_more_different_ones(names: list[str]) -> None:
    with pytest.raises(ConfigError, match="one or more different"):
        objectives(names, "classification")


def test_the_same_metric_plain_and_under_shift_are_two_objectives() -> None:
    assert [item.name for item in objectives(["nll", "nll@shift"], "regression")] == ["nll", "nll@shift"]


@pytest.mark.parametrize("task", TASKS)
def test_less_loss_is_better_whatever_the_direction(task: str) -> None:
    for name, quantity in {**metrics_of(task), **COSTS}.items():
        better, worse = (0.9, 0.1) if quantity.maximise else (0.1, 0.9)
        item = objective(name, task)
        assert item.loss(better) < item.loss(worse)
        assert item.scaled_loss(better) < item.scaled_loss(worse)


def test_costs_are_weighed_by_their_ratio_and_metrics_by_their_difference() -> None:
    flops, f1 = objective("flops", "classification"), objective("f1", "classification")
    gaps = [flops.scaled_loss(2 * value) - flops.scaled_loss(value) for value in (10, 1e9)]
    assert gaps == [pytest.approx(math.log(2))] * 2
    assert f1.scaled_loss(0.5) == -0.5


@pytest.mark.parametrize(
    ("bound", "is_maximum", "value", "expected"),
    [
        (2.0, True, 3.0, 0.5),
        (2.0, True, 2.0, 0.0),
        (2.0, True, 1.0, -0.5),
        (2.0, False, 1.0, 0.5),
        (2.0, False, 3.0, -0.5),
        (0.0, True, 0.25, 0.25),  # no share of nothing: by how much
        (0.0, False, -0.25, 0.25),
        (-2.0, True, -1.0, 0.5),
        (-2.0, False, -3.0, 0.5),
    ],
)
def test_a_violation_is_the_share_of_the_bound(bound: float, is_maximum: bool, value: float, expected: float) -> None:
    assert Limit(objective("nll", "regression"), bound, is_maximum).violation(value) == expected


def test_a_number_that_is_none_keeps_no_limit() -> None:
    assert not Limit(objective("nll", "regression"), 1.0, is_maximum=True).violation(math.nan) <= 0


def test_limits_keep_their_sides_and_are_written_as_people_read_them() -> None:
    found = limits({"flops": 2e6, "nll@shift": 0.5}, {"f1": 0.8}, "classification")
    assert [str(limit) for limit in found] == ["flops ≤ 2,000,000", "nll@shift ≤ 0.5", "f1 ≥ 0.8"]


@pytest.mark.parametrize(
    ("maximum", "minimum", "message"),
    [
        ({"flosp": 1.0}, {}, r"did you mean flops\?"),
        ({"flops": 1.0}, {"flops": 2.0}, "the limits on flops must allow some value, got at most 1 and at least 2"),
        ({}, {"f1": 80.0}, r"a lower limit on f1 must be at most 1 \(its largest value\), got 80"),
        ({"nll": -1.0}, {}, r"an upper limit on nll must be at least 0 \(its smallest value\), got -1"),
    ],
)
def test_limits_that_nothing_could_keep_are_refused(
    maximum: dict[str, float], minimum: dict[str, float], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        limits(maximum, minimum, "classification")


def test_a_regression_may_be_asked_for_a_negative_nll() -> None:
    assert limits({"nll": -1.0}, {}, "regression")[0].bound == -1.0


def test_latency_is_a_cost_that_only_a_clock_knows() -> None:
    latency, shipped = objective("latency", "regression"), objective("shipped_flops", "regression")
    assert (latency.is_cost, latency.is_measured) == (True, True)
    assert (shipped.is_cost, shipped.is_measured) == (True, False)
    assert (latency.show(1.23456), shipped.show(123456.0)) == ("1.235", "123,456")
    assert latency.scaled_loss(2.0) == math.log(2.0)
    with pytest.raises(ConfigError, match="got 'latency@shift'"):
        objective("latency@shift", "classification")
