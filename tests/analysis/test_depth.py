from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sae.analysis.depth import Grouping, Preference, depth_preference, input_preference, read_preferences, resample
from sae.records.run import Ending, Run, RunRecord, read_run
from tests.results import small_config, write_history, write_run

ONE = [{"nll": 1.0}] * 3


def sae_run(path: Path, theta: list[list[list[float]]], exits: int = 2, state: Ending = "finished") -> Run:
    config = small_config(name="sae", inputs=len(theta[0]), exits=exits)
    run = write_run(path, config, ONE, state)
    write_history(run, theta)
    return read_run(run)


def random_preference(seed: int, epochs: int, inputs: int, exits: int = 2, depth: int = 3) -> Preference:
    theta = np.random.default_rng(seed).dirichlet(np.ones(depth), (epochs, inputs))
    return Preference(inputs, exits, theta)


def test_theta_is_read_from_the_history(tmp_path: Path) -> None:
    theta = [[[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]], [[0.3, 0.3, 0.4], [0.0, 0.0, 1.0]]]
    (found,) = read_preferences([sae_run(tmp_path / "a", theta)])
    np.testing.assert_array_equal(found.theta, theta)
    assert (found.inputs, found.exits) == (2, 2)


def test_runs_without_a_preference_are_left_out(tmp_path: Path) -> None:
    theta = [[[0.2, 0.3, 0.5]]]
    failed = sae_run(tmp_path / "failed", theta, state="failed")
    without = read_run(write_run(tmp_path / "without", small_config(name="sae"), ONE))
    other = read_run(write_run(tmp_path / "other", small_config(name="standard"), ONE))
    strange, text, cut, empty = (sae_run(tmp_path / name, theta) for name in ("strange", "text", "cut", "empty"))
    (text.record.path / "history.csv").write_text("epoch,theta_0_0,theta_0_1,theta_0_2\n1,0.5,0.2,x\n")
    (strange.record.path / "history.csv").write_text("epoch,loss\n1,2\n")
    (cut.record.path / "history.csv").write_text("epoch,theta_0_0,theta_0_1,theta_0_2\n1,0.5,0.\n")
    (empty.record.path / "history.csv").write_text("epoch,theta_0_0,theta_0_1,theta_0_2\n")
    missing = read_run(RunRecord(tmp_path / "none"))
    assert read_preferences([failed, without, other, strange, text, cut, empty, missing]) == []


@pytest.mark.parametrize("by", ["all", "inputs", "exits"])
def test_preferences_are_those_of_a_plain_loop(by: Grouping) -> None:
    runs = [random_preference(seed, 4, inputs=1 + seed % 2, exits=1 + seed % 3) for seed in range(7)]
    rows = depth_preference(runs, by)
    assert len({row.group for row in rows}) == {"all": 1, "inputs": 2, "exits": 3}[by]
    for row in rows:
        letter = row.group
        members = [
            run
            for run in runs
            if letter == "all" or letter == (f"N={run.inputs}" if by == "inputs" else f"K={run.exits}")
        ]
        values = [
            sum(run.theta[row.epoch - 1, i, row.exit - 1] for i in range(run.inputs)) / run.inputs for run in members
        ]
        assert row.runs == len(values)
        assert row.mean == pytest.approx(np.mean(values))
        assert row.std == pytest.approx(np.std(values, ddof=1))


@given(st.integers(1, 6), st.integers(1, 6))
def test_a_distribution_stays_one_at_any_progress(epochs: int, wanted: int) -> None:
    theta = random_preference(epochs, epochs, 1).theta[:, 0]
    found = resample(theta, wanted)
    assert found.shape == (wanted, 3)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found[-1], theta[-1])


def test_shorter_runs_are_put_on_the_progress_of_the_longest() -> None:
    short = Preference(1, 1, np.array([[[0.0, 1.0]]]))  # from one half each to this in its only epoch
    long = Preference(1, 1, np.array([[[0.5, 0.5]]] * 4))
    rows = [row for row in depth_preference([short, long]) if row.exit == 2]
    assert [row.epoch for row in rows] == [1, 2, 3, 4]
    assert [row.progress for row in rows] == [0.25, 0.5, 0.75, 1.0]
    own = [0.5 + 0.5 * progress for progress in (0.25, 0.5, 0.75, 1.0)]
    assert [row.mean for row in rows] == pytest.approx([(value + 0.5) / 2 for value in own])


def test_each_input_is_over_the_runs_with_as_many_inputs() -> None:
    runs = [random_preference(0, 2, inputs=2), random_preference(1, 2, inputs=2), random_preference(2, 5, inputs=1)]
    rows = input_preference(runs, 2)
    assert {row.group for row in rows} == {"input 1", "input 2"}
    row = next(row for row in rows if (row.group, row.epoch, row.exit) == ("input 2", 1, 3))
    assert row.mean == pytest.approx((runs[0].theta[0, 1, 2] + runs[1].theta[0, 1, 2]) / 2)
    assert row.runs == 2
    assert input_preference(runs, 4) == []


def test_numbers_that_are_not_finite_are_left_out() -> None:
    broken = Preference(1, 1, np.full((2, 1, 2), np.nan))
    rows = depth_preference([broken, Preference(1, 1, np.full((2, 1, 2), 0.5))])
    assert {(row.mean, row.std, row.runs, row.left_out) for row in rows} == {(0.5, None, 1, 1)}
    assert {(row.mean, row.runs) for row in depth_preference([broken])} == {(None, 0)}


def test_no_runs_have_no_preference() -> None:
    assert depth_preference([]) == []
