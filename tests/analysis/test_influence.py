from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sae.analysis.influence import FEWEST, anova, influence, spearman
from sae.analysis.trial_values import TrialValues
from sae.records.run import RunRecord
from sae.records.study import Trial
from tests.builders import run_config

SETTINGS = ("i start", "i end", "α start", "α end", "T start", "T end", "N", "K", "W")


def trial(number: int, nll: float | None, state: str = "finished", width: int = 1, **method: Any) -> TrialValues:
    settings = {"name": "sae", **method}
    config = run_config(method=settings, backbone={"name": "fc", "depth": 3, "width": width})
    metrics = {} if nll is None else {"val": {"nll": nll}}
    return TrialValues(
        Trial("sae", number, RunRecord(Path("nowhere"))), config, state, metrics, {"flops": 10.0 + number}
    )


def random_trials(num: int) -> list[TrialValues]:
    rng = np.random.default_rng(0)
    return [
        trial(
            number,
            rng.normal(),
            width=int(rng.integers(1, 4)),
            inputs=int(rng.integers(1, 4)),
            exits=int(rng.integers(1, 4)),
            repeat_fraction={"start": rng.random(), "end": rng.random()},
            temperature={"start": rng.uniform(0.1, 1), "end": rng.uniform(0.1, 1)},
            kl_weight={"start": rng.random(), "end": rng.random()},
        )
        for number in range(num)
    ]


def test_every_setting_is_tested_by_every_metric_and_cost() -> None:
    rows = influence(random_trials(12), ["nll", "flops"])
    assert [(row["setting"], row["metric"]) for row in rows] == [
        (setting, metric) for metric in ("nll", "flops") for setting in SETTINGS
    ]
    assert {row["statistic"] for row in rows if row["statistic"] != "rho"} == {"F"}
    assert {row["setting"] for row in rows if row["statistic"] == "F"} == {"N", "K", "W"}
    assert {row["trials"] for row in rows} == {12}
    assert all(row["value"] is not None for row in rows)


def test_numbers_are_those_of_a_trial_by_trial_reading() -> None:
    trials = random_trials(12)
    rows = {(row["setting"], row["metric"]): row for row in influence(trials, ["nll"])}
    values = [item.get("nll") for item in trials]
    starts = [item.config.model_dump()["method"]["temperature"]["start"] for item in trials]
    expected = stats.spearmanr(starts, values)
    assert rows["T start", "nll"]["value"] == pytest.approx(expected.statistic)
    assert rows["T start", "nll"]["p"] == pytest.approx(expected.pvalue)
    ends = [item.config.model_dump()["method"]["kl_weight"]["end"] for item in trials]
    assert rows["α end", "nll"]["value"] == pytest.approx(stats.spearmanr(ends, values).statistic)
    widths = [item.config.backbone.width for item in trials]
    groups = [[v for v, w in zip(values, widths, strict=True) if w == width] for width in sorted(set(widths))]
    assert rows["W", "nll"]["value"] == pytest.approx(stats.f_oneway(*groups).statistic)


EIGHTHS = st.integers(-40, 40).map(lambda number: number / 8)
"""Numbers whose sums of squares are exact, so that two roads to a ratio of them meet."""


@given(st.lists(st.tuples(st.integers(0, 2), EIGHTHS), min_size=4, max_size=12))
def test_f_is_the_ratio_of_variances_between_and_within_groups(pairs: list[tuple[int, float]]) -> None:
    setting, values = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    f, p = anova(setting, values)
    groups = [values[setting == level] for level in np.unique(setting)]
    between = sum(len(group) * (group.mean() - values.mean()) ** 2 for group in groups)
    within = sum(((group - group.mean()) ** 2).sum() for group in groups)
    if len(groups) < 2 or all(np.ptp(group) == 0 for group in groups):
        assert (f, p) == (None, None)
    else:
        expected = (between / (len(groups) - 1)) / (within / (len(values) - len(groups)))
        assert f == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert p == pytest.approx(stats.f.sf(expected, len(groups) - 1, len(values) - len(groups)), abs=1e-9)


@given(st.lists(st.integers(-3, 3), min_size=FEWEST, max_size=20), st.integers(0, 9))
def test_rho_is_the_correlation_of_the_ranks(values: list[int], seed: int) -> None:
    setting = np.random.default_rng(seed).random(len(values))
    rho, _ = spearman(setting, np.array(values, dtype=np.float64))
    if len(set(values)) == 1:
        assert rho is None
    else:
        expected = np.corrcoef(stats.rankdata(setting), stats.rankdata(values))[0, 1]
        assert rho == pytest.approx(expected)


def test_a_constant_setting_or_too_few_trials_say_nothing() -> None:
    rising = np.arange(FEWEST, dtype=np.float64)
    assert spearman(rising, rising)[0] == pytest.approx(1.0)
    assert spearman(rising[:-1], rising[:-1]) == (None, None)
    assert spearman(np.ones(FEWEST), rising) == (None, None)
    assert spearman(rising, np.ones(FEWEST)) == (None, None)
    assert anova(np.ones(4), rising[:4]) == (None, None)
    assert anova(rising[:4], rising[:4]) == (None, None)  # groups of one
    assert anova(np.array([]), np.array([])) == (None, None)


def test_trials_without_a_finite_number_are_left_out() -> None:
    trials = [*random_trials(12), trial(12, None), trial(13, float("nan")), trial(14, 1.0, state="failed")]
    rows = influence(trials, ["nll"])
    assert {row["trials"] for row in rows} == {12}
    assert rows == influence(trials[:12], ["nll"])


def test_without_trials_everything_is_unknown() -> None:
    rows = influence([], ["nll"])
    assert len(rows) == len(SETTINGS)
    assert {(row["value"], row["p"], row["trials"]) for row in rows} == {(None, None, 0)}
