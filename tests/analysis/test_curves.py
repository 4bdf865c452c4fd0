from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sae.analysis.curves import CURVE_POINTS, reliability_curve, risk_curve
from sae.analysis.results import Result
from sae.records.run import Run, RunRecord, read_run
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


def split_of(*by_exits: dict[str, Any]) -> dict[str, Any]:
    """The curves at K′ = 1, 2, …."""
    return {"by_exits": [{"exits": k, **drawn} for k, drawn in enumerate(by_exits, start=1)]}


def runs_with(tmp_path: Path, curves: list[dict[str, Any]]) -> list[Run]:
    """One run for each seed; its curves at the trained K = 2."""
    runs = []
    for seed, at_two in enumerate(curves):
        run = write_run(tmp_path / str(seed), small_config(seed, **SAE), [{"nll": 1.0}] * 3)
        split = split_of(drawn(100), at_two, drawn(101))
        run.write_json(run.CURVES, {"val": split, "test": split})
        runs.append(read_run(run))
    return runs


def over(runs: list[Run], eval_exits: int = 2) -> Result:
    return result("x", {}, method=SAE, runs=runs, eval_exits=eval_exits)


def test_bins_are_pooled_as_if_all_samples_were_in_one_run(tmp_path: Path) -> None:
    curves = [drawn(seed) for seed in range(3)]
    found = reliability_curve(over(runs_with(tmp_path, curves)))
    assert found is not None
    assert (found.runs, found.left_out, len(found.points)) == (3, 0, BINS)
    for index, row in enumerate(found.points):
        samples = [
            (curve["reliability"]["confidence"][index], curve["reliability"]["accuracy"][index])
            for curve in curves
            for _ in range(curve["reliability"]["count"][index])
        ]
        assert (row.lower, row.upper, row.count) == (index / BINS, (index + 1) / BINS, len(samples))
        if samples:
            assert (row.confidence, row.accuracy) == pytest.approx(tuple(np.mean(samples, axis=0)))
    assert (found.points[0].confidence, found.points[0].accuracy) == (None, None)


def test_risk_is_averaged_where_coverage_agrees(tmp_path: Path) -> None:
    curves = [drawn(seed) for seed in range(3)]
    found = risk_curve(over(runs_with(tmp_path, curves)))
    assert found is not None
    risks = np.array([curve["risk_coverage"]["risk"] for curve in curves])
    assert [row.coverage for row in found.points] == curves[0]["risk_coverage"]["coverage"]
    assert [row.risk for row in found.points] == pytest.approx(risks.mean(axis=0).tolist())
    assert [row.std for row in found.points] == pytest.approx(risks.std(axis=0, ddof=1).tolist())


def test_risk_is_interpolated_where_coverage_differs(tmp_path: Path) -> None:
    curves = [drawn(0, points=4), drawn(1, points=7)]
    found = risk_curve(over(runs_with(tmp_path, curves)))
    assert found is not None
    assert len(found.points) == CURVE_POINTS
    assert (found.points[0].coverage, found.points[-1].coverage) == (0.25, 1.0)
    ends = [curve["risk_coverage"]["risk"][-1] for curve in curves]
    assert found.points[-1].risk == pytest.approx(np.mean(ends))
    middle = found.points[40]
    own = [np.interp(middle.coverage, c["risk_coverage"]["coverage"], c["risk_coverage"]["risk"]) for c in curves]
    assert middle.risk == pytest.approx(np.mean(own))


def test_curves_are_those_of_the_exits_it_predicts_with(tmp_path: Path) -> None:
    trained, other = drawn(0), drawn(1)
    runs = runs_with(tmp_path, [trained])
    split = split_of(other, trained)
    runs[0].record.write_json(RunRecord.CURVES, {"val": split, "test": split})
    one, two = (risk_curve(over(runs, k)) for k in (1, 2))
    assert one is not None
    assert two is not None
    assert [item.risk for item in one.points] == other["risk_coverage"]["risk"]
    assert [item.risk for item in two.points] == trained["risk_coverage"]["risk"]
    assert {item.std for item in one.points} == {None}
    assert risk_curve(over(runs, 3)) is None
    assert reliability_curve(over(runs, 3)) is None


def test_curves_are_those_of_the_split(tmp_path: Path) -> None:
    val, test = drawn(0), drawn(1)
    runs = runs_with(tmp_path, [val])
    runs[0].record.write_json(RunRecord.CURVES, {"val": split_of(val, val), "test": split_of(test, test)})
    for curve, expected in ((risk_curve(over(runs)), test), (risk_curve(over(runs), "val"), val)):
        assert curve is not None
        assert [item.risk for item in curve.points] == expected["risk_coverage"]["risk"]


def test_runs_without_the_curve_or_with_useless_numbers_are_counted(tmp_path: Path) -> None:
    runs = runs_with(tmp_path, [drawn(seed) for seed in range(6)])
    records = [run.record for run in runs]
    whole = split_of(drawn(0), drawn(0))
    (records[0].path / records[0].CURVES).unlink()
    records[1].write_json(records[1].CURVES, {"val": whole})
    broken = records[2].path / records[2].CURVES
    risk = drawn(2)["risk_coverage"]["risk"][0]
    broken.write_text(broken.read_text().replace(str(risk), "NaN"))
    unequal = split_of(drawn(0), {"risk_coverage": {"coverage": [1.0], "risk": []}})
    records[3].write_json(records[3].CURVES, {"val": whole, "test": unequal})
    text = split_of(drawn(0), {"risk_coverage": {"coverage": [1.0], "risk": ["0.5"]}})
    records[4].write_json(records[4].CURVES, {"val": whole, "test": text})
    found = risk_curve(over(runs))
    assert found is not None
    assert (found.runs, found.left_out) == (1, 5)


def test_regression_has_no_bins(tmp_path: Path) -> None:
    runs = runs_with(tmp_path, [{"risk_coverage": drawn(0)["risk_coverage"]}])
    assert reliability_curve(over(runs)) is None
    assert risk_curve(over(runs)) is not None
