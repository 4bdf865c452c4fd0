import json
from pathlib import Path

import numpy as np
import pytest

from sae.analysis.candidates import SHIFTED_TEST
from sae.analysis.results import Result
from sae.analysis.shifted_sets import means_by_set
from sae.records.run import RunRecord
from tests.results import result, small_config, write_run
from tests.study_stages import SETS, write_shift

SAE = {"name": "sae", "inputs": 2, "exits": 2}


def over(runs: list[RunRecord], eval_exits: int = 2) -> Result:
    return result("x", {}, method=SAE, runs=runs, eval_exits=eval_exits)


@pytest.fixture
def runs(tmp_path: Path) -> list[RunRecord]:
    found = []
    for seed in range(3):
        run = write_run(tmp_path / str(seed), small_config(seed, **SAE), [{"nll": k + 0.1 * seed} for k in range(3)])
        write_shift(run, run.report("test")["by_exits"])
        found.append(run)
    return found


def kept(run: RunRecord, exits: int) -> list[float]:
    by_exits = run.read_json(SHIFTED_TEST)["by_exits"]
    return [row["metrics"]["nll"] for row in by_exits[exits - 1]["by_set"]]


@pytest.mark.parametrize("exits", [1, 2, 3])
def test_each_set_is_the_mean_over_the_seeds_at_this_k(exits: int, runs: list[RunRecord]) -> None:
    rows = means_by_set(over(runs, exits))
    assert [(row["corruption"], row["severity"]) for row in rows] == list(SETS)
    means = np.mean([kept(run, exits) for run in runs], axis=0)
    assert [row["metrics"]["nll"] for row in rows] == pytest.approx(means)


def test_an_older_file_tells_of_sets_at_the_trained_k_only(runs: list[RunRecord]) -> None:
    for run in runs:
        report = run.read_json(SHIFTED_TEST)
        for item in report["by_exits"]:
            del item["by_set"]
        run.write_json(SHIFTED_TEST, report)
    assert len(means_by_set(over(runs, 2))) == len(SETS)
    assert means_by_set(over(runs, 1)) == []


def test_a_set_that_one_seed_lacks_is_over_the_others(runs: list[RunRecord]) -> None:
    report = runs[1].read_json(SHIFTED_TEST)
    for item in (report, *report["by_exits"]):
        item["by_set"] = item["by_set"][1:]
    runs[1].write_json(SHIFTED_TEST, report)
    first = means_by_set(over(runs))[0]["metrics"]["nll"]
    assert first == pytest.approx((kept(runs[0], 2)[0] + kept(runs[2], 2)[0]) / 2)


@pytest.mark.parametrize("content", ["", "{", "{}", '{"exits": 2, "by_set": [1]}', '{"exits": 2, "by_set": 1}'])
def test_a_file_that_cannot_be_read_is_left_out(content: str, runs: list[RunRecord]) -> None:
    (runs[0].path / SHIFTED_TEST).write_text(content)
    rows = means_by_set(over(runs))
    assert [row["metrics"]["nll"] for row in rows] == pytest.approx(np.mean([kept(run, 2) for run in runs[1:]], axis=0))
    assert means_by_set(over(runs[:1])) == []


def test_numbers_that_are_not_finite_are_left_out(runs: list[RunRecord]) -> None:
    report = runs[0].read_json(SHIFTED_TEST)
    report["by_exits"][1]["by_set"][0]["metrics"]["nll"] = float("nan")
    (runs[0].path / SHIFTED_TEST).write_text(json.dumps(report))
    first = means_by_set(over(runs))[0]["metrics"]["nll"]
    assert first == pytest.approx((kept(runs[1], 2)[0] + kept(runs[2], 2)[0]) / 2)


def test_runs_without_shift_have_no_sets(tmp_path: Path) -> None:
    assert means_by_set(over([write_run(tmp_path / "x", small_config(0, **SAE), [{"nll": 1.0}] * 3)])) == []
