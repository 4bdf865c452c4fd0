"""Costs of the exported network, counted and measured, among the values of candidates."""

from pathlib import Path

import pytest

from sae.analysis.candidates import candidates, candidates_of
from sae.analysis.results import summarise
from sae.analysis.selection import select
from sae.core.errors import ConfigError
from sae.records.evaluation import Latency, LatencyReading
from sae.records.run import RunRecord, read_run
from tests.cli.test_cli import sae
from tests.studies import StudyBuilder, point, small_study
from tests.studies import sae as sae_settings

pytestmark = pytest.mark.long


def shipped_point(nll: float, flops: int, shipped: int) -> dict[str, float]:
    return point(nll, 0.1, flops, shipped_flops=shipped, shipped_params=shipped // 2)


def new_study(path: Path) -> StudyBuilder:
    """On paper the second exit costs twice the first; exported it is the other way round."""
    study = StudyBuilder(path)
    study.finish(sae_settings(2, 2), [shipped_point(0.5, 1000, 800), shipped_point(0.4, 2000, 400)])
    return study


def write_latency(run: RunRecord) -> None:
    readings = (LatencyReading(eval_exits=1, latency=0.5), LatencyReading(eval_exits=2, latency=1.5))
    run.write_json(run.LATENCY, Latency(batch=64, threads=1, readings=readings).to_json())


def test_shipped_costs_are_values_to_compare_and_limit_by(tmp_path: Path) -> None:
    study = new_study(tmp_path / "s").record
    assert [item.values["shipped_flops"] for item in candidates(study.read_runs())] == [800, 400]
    assert len(select(study, names=["nll", "flops"]).front) == 2
    assert [item.eval_exits for item in select(study, names=["nll", "shipped_flops"]).front] == [2]
    assert [item.eval_exits for item in select(study, maximum={"shipped_params": 300}).front] == [2]
    code, out, _ = sae("pareto", tmp_path / "s")
    assert code == 0
    assert all(f" {name} ↓ " in out for name in ("MFLOPs", "M params", "MFLOPs as shipped", "M params as shipped"))
    assert all(f" {number} " in out for number in ("0.000800", "0.000400", "0.000200"))
    assert "shipped FLOPs" in sae("pick", tmp_path / "s")[1]


def test_a_latency_that_was_not_measured_cannot_be_compared(tmp_path: Path) -> None:
    study = small_study(tmp_path / "s")
    assert not any("latency" in item.values for item in candidates(study.runs()))
    with pytest.raises(ConfigError, match="latency must be recorded by the study"):
        select(study.record, names=["nll", "latency"])
    code, out, _ = sae("pareto", tmp_path / "s")
    assert code == 0
    assert " ms for a batch of 64 ↓ " not in out
    assert sae("pick", tmp_path / "s")[0] == 0


def test_a_front_of_runs_with_and_without_latency_leaves_out_what_is_missing(tmp_path: Path) -> None:
    study = new_study(tmp_path / "s")
    (trial,) = study.record.trials()
    write_latency(trial)
    study.finish({"name": "standard"}, [point(0.45, 0.05, 5000)])
    found = {item.label: "latency" in item.values for item in select(study.record).front}
    assert found == {"sae/0": True, "standard/0": False}
    code, out, _ = sae("pareto", tmp_path / "s")
    assert code == 0
    assert " ms for a batch of 64 ↓ " in out
    (line,) = (line for line in out.splitlines() if "standard/0" in line)
    assert line.count("– │") == 3  # K′, exits used and latency


def test_latency_is_read_where_it_was_measured(tmp_path: Path) -> None:
    study = new_study(tmp_path / "s")
    (trial,) = study.record.trials()
    write_latency(trial)
    run = read_run(trial, with_shift=True)
    first, second = candidates_of(run)
    assert (first.values["latency"], second.values["latency"]) == (0.5, 1.5)
    assert [item.eval_exits for item in select(study.record, maximum={"latency": 1.0}).front] == [1]
    assert summarise(second, [run]).costs["latency"].mean == 1.5
    assert summarise(second, [run]).costs["shipped_flops"].mean == 400
    code, _, _ = sae("pareto", tmp_path / "s", "--objectives", "latency,nll", "--figure", tmp_path / "x.svg")
    assert code == 0
    assert "ms for a batch of 64" in (tmp_path / "x.svg").read_text()
    assert "ms for a batch of 64" in sae("pick", tmp_path / "s")[1]
    trial.clear()
    assert not trial.has(trial.LATENCY)
