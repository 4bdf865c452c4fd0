from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sae.analysis.progress import grid_counts
from sae.analysis.trials import (
    FEWEST,
    CellMean,
    CorrelationPoint,
    anova,
    correlation_points,
    grid_means,
    influence,
    setting_at,
    spearman,
)
from sae.config.methods import METHODS
from sae.records.evaluation import Where
from sae.records.run import Run, State
from tests.builders import run_config
from tests.results import run_of, write_shift
from tests.studies import DEPTH, StudyBuilder, point, sae, small_study

SETTINGS = METHODS.get("sae").influences
DISCRETE = ("N", "K", "W")


def trial(number: int, nll: float | None, state: State = "finished", width: int = 1, **method: Any) -> Run:
    settings = {"name": "sae", **method}
    config = run_config(method=settings, backbone={"name": "fc", "depth": 3, "width": width})
    metrics = {} if nll is None else {"nll": nll}
    return run_of(config, metrics, state, label=f"sae/{number}", flops=10 + number)


def random_trials(num: int) -> list[Run]:
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
    assert [(row.setting, row.metric) for row in rows] == [
        (setting, metric) for metric in ("nll", "flops") for setting in SETTINGS
    ]
    assert {row.method for row in rows} == {"sae"}
    assert {row.statistic for row in rows if row.setting in DISCRETE} == {"F"}
    assert {row.statistic for row in rows if row.setting not in DISCRETE} == {"rho"}
    assert {row.trials for row in rows} == {12}
    assert all(row.value is not None for row in rows)


def test_numbers_are_those_of_a_trial_by_trial_reading() -> None:
    trials = random_trials(12)
    rows = {(row.setting, row.metric): row for row in influence(trials, ["nll"])}
    values = [item.value("nll") for item in trials]
    configs = [item.config.model_dump() for item in trials if item.config]
    starts = [config["method"]["temperature"]["start"] for config in configs]
    expected = stats.spearmanr(starts, values)
    assert rows["T start", "nll"].value == pytest.approx(expected.statistic)
    assert rows["T start", "nll"].p == pytest.approx(expected.pvalue)
    ends = [config["method"]["kl_weight"]["end"] for config in configs]
    assert rows["α end", "nll"].value == pytest.approx(stats.spearmanr(ends, values).statistic)
    widths = [config["backbone"]["width"] for config in configs]
    groups = [[v for v, w in zip(values, widths, strict=True) if w == width] for width in sorted(set(widths))]
    assert rows["W", "nll"].value == pytest.approx(stats.f_oneway(*groups).statistic)


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


def test_a_constant_setting_or_too_few_trials_have_no_statistic() -> None:
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
    assert {row.trials for row in rows} == {12}
    assert rows == influence(trials[:12], ["nll"])


def test_without_numbers_everything_is_unknown() -> None:
    rows = influence([trial(0, None), trial(1, float("inf"))], ["nll"])
    assert [row.setting for row in rows] == list(SETTINGS)
    assert {(row.value, row.p, row.trials) for row in rows} == {(None, None, 0)}
    assert [row.setting for row in rows if row.statistic == "F"] == list(DISCRETE)
    assert influence([], ["nll"]) == []
    assert influence([trial(0, 1.0, state="failed")], ["nll"]) == []


def test_a_method_without_influential_settings_has_no_rows() -> None:
    assert influence([run_of(run_config(method={"name": "standard"}), {"nll": 1.0})], ["nll"]) == []


def test_a_setting_is_found_by_its_path() -> None:
    config = run_config(method={"name": "sae", "inputs": 3}, backbone={"name": "fc", "depth": 3, "width": 2})
    assert [setting_at(config, path) for path in ("method.inputs", "backbone.width", "method.temperature.end")] == [
        *(3, 2, 0.1),
    ]
    with pytest.raises(AssertionError, match=r"method.name is 'sae'"):
        setting_at(config, "method.name")


def three(nll: float) -> list[dict[str, float]]:
    return [point(nll, 0.1, 100 * k) for k in range(1, DEPTH + 1)]


def test_a_cell_is_the_mean_of_its_trials_at_the_trained_exits(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish(sae(2, 2), three(0.3))
    study.finish(sae(2, 2), three(0.5))
    study.finish(sae(1, 3), three(0.7))
    study.finish({"name": "standard"}, three(0.1))
    rows = {(row.inputs, row.exits): row for row in grid_means(study.runs(), "nll")}
    assert rows[2, 2] == CellMean(inputs=2, exits=2, trials=2, value=0.4, left_out=0)
    assert (rows[1, 3].trials, rows[1, 3].value) == (1, 0.7)
    assert sum(row.trials for row in rows.values()) == 3
    assert [row.value for row in grid_means(study.runs(), "flops", "test") if row.trials] == [300, 200]


def test_all_cells_are_there_also_of_trials_that_failed(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish(sae(1, 1), three(0.3))
    study.end(sae(4, 2), "failed", error="nan")
    rows = grid_means(study.runs(), "nll")
    assert [(row.inputs, row.exits) for row in rows] == [(n, k) for n in range(1, 5) for k in range(1, DEPTH + 1)]
    assert [row for row in rows if row.trials == 0] == rows[1:]
    assert all(row.value is None for row in rows[1:])


def test_cells_count_what_the_study_counts_as_finished(tmp_path: Path) -> None:
    runs = small_study(tmp_path / "s").runs()
    counted = {(row.inputs, row.exits): row.finished for row in grid_counts(runs) if row.finished}
    rows = grid_means(runs, "nll", "test")
    assert {(row.inputs, row.exits): row.trials for row in rows if row.trials} == counted


def test_a_grid_is_on_any_split_and_under_shift(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    trials = [study.finish(sae(1, 1), three(nll)) for nll in (0.3, 0.5)]
    write_shift(trials[0], [(2.0, 0.1), (8.0, 0.1), (9.0, 0.1)])
    found = study.runs(with_shift=True)
    places: tuple[Where, ...] = ("val", "test", "shift")
    values = [grid_means(found, "nll", where)[0] for where in places]
    assert [row.value for row in values] == pytest.approx([0.4, 1.4, 2.0])
    assert [(row.trials, row.left_out) for row in values] == [(2, 0), (2, 0), (1, 1)]


def test_a_trial_with_numbers_that_are_not_finite_is_left_out_of_its_cell(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    trials = [study.finish(sae(1, 1), three(nll)) for nll in (0.3, 0.5)]
    file = trials[0].path / trials[0].METRICS
    file.write_text(file.read_text().replace('"nll": 0.3', '"nll": NaN'))
    row = grid_means(study.runs(), "nll")[0]
    assert (row.trials, row.value, row.left_out) == (1, 0.5, 0)


def test_a_study_without_sae_trials_has_no_grid(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish({"name": "standard"}, three(0.3))
    assert grid_means(study.runs(), "nll") == []
    assert grid_means([], "nll") == []


def test_every_trial_is_read_with_its_state_and_values(tmp_path: Path) -> None:
    found = {run.label: run for run in small_study(tmp_path / "s").runs(with_shift=True)}
    assert {name: run.state for name, run in found.items()} == {
        "sae/0": "finished",
        "sae/1": "failed",
        "sae/2": "finished",
        "sae/3": "stopped",
        "sae/4": "unfinished",
        "standard/0": "finished",
    }
    first, config = found["sae/0"], found["sae/0"].config
    assert config is not None
    assert (first.value("nll"), first.value("nll", "test"), first.value("nll", "shift")) == (0.3, 1.3, None)
    assert (first.value("flops"), first.seconds) == (2000, 60.0)
    assert (config.kind, config.summary) == ("I/B", "N=2 K=2 W=1 D=3")
    assert (found["sae/1"].value("nll"), found["sae/1"].seconds) == (None, 60.0)
    assert found["sae/4"].seconds is None


def test_damaged_trials_have_no_values_and_hide_no_others(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    trials = [study.finish(sae(1, 1), three(nll)) for nll in (0.3, 0.5, 0.7)]
    (trials[0].path / "metrics.json").write_text("{")
    (trials[1].path / "config.yaml").write_text("nonsense: 3")
    cell = grid_means(study.runs(), "nll")[0]
    assert (cell.trials, cell.value, cell.left_out) == (1, 0.7, 0)
    assert {row.trials for row in influence(study.runs(), ["nll"])} == {1}


def correlated_trial(correlation: float | None, state: State = "finished", name: str = "sae", **method: Any) -> Run:
    config = run_config(method={"name": name, **method}, backbone={"name": "fc", "depth": 3})
    metrics = {"nll": 0.5, **({} if correlation is None else {"error_correlation": correlation})}
    return run_of(config, metrics, state, label="run")


def test_a_network_is_a_point_for_every_setting() -> None:
    fraction = {"start": 0.0, "end": 0.25}
    points = correlation_points([correlated_trial(0.7, inputs=3, exits=2, repeat_fraction=fraction)])
    assert points == [CorrelationPoint(key, value, 0.7, "run") for key, value in (("i end", 0.25), ("N", 3), ("K", 2))]


def test_networks_without_a_number_are_left_out() -> None:
    assert not correlation_points(
        [correlated_trial(None), correlated_trial(None, "failed"), correlated_trial(0.5, name="ensemble")]
    )
