from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sae.analysis.curves import GRID, reliability_curve, risk_curve
from sae.analysis.results import Result
from sae.records.run import RunRecord
from tests.results import result, small_config, write_run

SAE = {"name": "sae", "inputs": 2, "exits": 2}
BINS = 5


def drawn(seed: int, points: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    count = rng.integers(0, 4, BINS)
    count[0] = 0
    accuracy = np.where(count > 0, rng.random(BINS), 0.0)
    return {
        "reliability": {
            "count": count.tolist(),
            "confidence": (np.arange(BINS) / BINS + 0.1).tolist(),
            "accuracy": accuracy.tolist(),
        },
        "risk_coverage": {
            "coverage": np.linspace(1 / points, 1, points).tolist(),
            "risk": np.sort(rng.random(points)).tolist(),
        },
    }


def runs_with(tmp_path: Path, curves: list[dict[str, Any]]) -> list[RunRecord]:
    runs = []
    for seed, split in enumerate(curves):
        run = write_run(tmp_path / str(seed), small_config(seed, **SAE), [{"nll": 1.0}] * 3)
        run.write_json(run.CURVES, {"test": split})
        runs.append(run)
    return runs


def over(runs: list[RunRecord], eval_exits: int = 2) -> Result:
    return result("x", {}, method=SAE, runs=runs, eval_exits=eval_exits)


def test_bins_are_pooled_as_if_all_samples_were_in_one_run(tmp_path: Path) -> None:
    curves = [drawn(seed) for seed in range(3)]
    found = reliability_curve(over(runs_with(tmp_path, curves)))
    assert found is not None
    assert (found.runs, found.left_out, len(found.rows)) == (3, 0, BINS)
    for index, row in enumerate(found.rows):
        samples = [
            (curve["reliability"]["confidence"][index], curve["reliability"]["accuracy"][index])
            for curve in curves
            for _ in range(curve["reliability"]["count"][index])
        ]
        assert (row["lower"], row["upper"], row["count"]) == (index / BINS, (index + 1) / BINS, len(samples))
        if samples:
            assert (row["confidence"], row["accuracy"]) == pytest.approx(tuple(np.mean(samples, axis=0)))
    assert (found.rows[0]["confidence"], found.rows[0]["accuracy"]) == (None, None)


def test_risk_is_averaged_where_coverage_agrees(tmp_path: Path) -> None:
    curves = [drawn(seed) for seed in range(3)]
    found = risk_curve(over(runs_with(tmp_path, curves)))
    assert found is not None
    risks = np.array([curve["risk_coverage"]["risk"] for curve in curves])
    assert [row["coverage"] for row in found.rows] == curves[0]["risk_coverage"]["coverage"]
    assert [row["risk"] for row in found.rows] == pytest.approx(risks.mean(axis=0).tolist())
    assert [row["std"] for row in found.rows] == pytest.approx(risks.std(axis=0, ddof=1).tolist())


def test_risk_is_interpolated_where_coverage_differs(tmp_path: Path) -> None:
    curves = [drawn(0, points=4), drawn(1, points=7)]
    found = risk_curve(over(runs_with(tmp_path, curves)))
    assert found is not None
    assert len(found.rows) == GRID
    assert (found.rows[0]["coverage"], found.rows[-1]["coverage"]) == (0.25, 1.0)
    ends = [curve["risk_coverage"]["risk"][-1] for curve in curves]
    assert found.rows[-1]["risk"] == pytest.approx(np.mean(ends))
    middle = found.rows[40]
    own = [np.interp(middle["coverage"], c["risk_coverage"]["coverage"], c["risk_coverage"]["risk"]) for c in curves]
    assert middle["risk"] == pytest.approx(np.mean(own))


def test_curves_are_those_of_the_exits_it_predicts_with(tmp_path: Path) -> None:
    trained, other = drawn(0), drawn(1)
    runs = runs_with(tmp_path, [{**trained, "by_exits": [{"exits": 1, **other}, {"exits": 2, **trained}]}])
    one, two = (risk_curve(over(runs, k)) for k in (1, 2))
    assert one is not None
    assert two is not None
    assert [row["risk"] for row in one.rows] == other["risk_coverage"]["risk"]
    assert [row["risk"] for row in two.rows] == trained["risk_coverage"]["risk"]
    assert {row["std"] for row in one.rows} == {None}


def test_older_runs_tell_only_of_the_trained_exits(tmp_path: Path) -> None:
    runs = runs_with(tmp_path, [drawn(0)])
    assert reliability_curve(over(runs, 2)) is not None
    assert reliability_curve(over(runs, 1)) is None
    assert risk_curve(over(runs, 1)) is None


def test_runs_without_the_curve_or_with_numbers_of_no_use_are_counted(tmp_path: Path) -> None:
    runs = runs_with(tmp_path, [drawn(seed) for seed in range(5)])
    (runs[0].path / runs[0].CURVES).unlink()
    runs[1].write_json(runs[1].CURVES, {"val": drawn(0)})
    broken = runs[2].path / runs[2].CURVES
    risk = drawn(2)["risk_coverage"]["risk"][0]
    broken.write_text(broken.read_text().replace(str(risk), "NaN"))
    runs[3].write_json(runs[3].CURVES, {"test": {"risk_coverage": {"coverage": [1.0], "risk": []}}})
    found = risk_curve(over(runs))
    assert found is not None
    assert (found.runs, found.left_out) == (1, 4)


def test_regression_has_no_bins(tmp_path: Path) -> None:
    runs = runs_with(tmp_path, [{"risk_coverage": drawn(0)["risk_coverage"]}])
    assert reliability_curve(over(runs)) is None
    assert risk_curve(over(runs)) is not None
