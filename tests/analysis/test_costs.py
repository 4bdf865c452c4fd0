"""Shipped and measured costs among the values of candidates; older run folders do without."""

from pathlib import Path

import pytest

from sae.analysis.candidates import candidates, candidates_of
from sae.analysis.confirmation import summarise
from sae.analysis.selection import select
from sae.core.errors import ConfigError
from tests.cli.test_cli import sae
from tests.studies import StudyBuilder, point, small_study
from tests.studies import sae as sae_settings

SHIPPED = ("shipped_flops", "shipped_params")


def shipped_point(nll: float, flops: int, shipped: int) -> dict[str, float]:
    return point(nll, 0.1, flops, shipped_flops=shipped, shipped_params=shipped // 2)


def new_study(path: Path) -> StudyBuilder:
    """On paper the second exit costs twice the first; as shipped it is the other way round."""
    study = StudyBuilder(path)
    trial = study.finish(sae_settings(2, 2), [shipped_point(0.5, 1000, 800), shipped_point(0.4, 2000, 400)])
    report = trial.run.read_json(trial.run.METRICS)
    for split in report.values():
        for item in split["by_exits"]:
            item |= {key: item["metrics"].pop(key) for key in SHIPPED}
    trial.run.write_json(trial.run.METRICS, report)
    return study


def test_shipped_costs_are_values_to_compare_and_limit_by(tmp_path: Path) -> None:
    study = new_study(tmp_path / "s").record
    assert [item.values["shipped_flops"] for item in candidates(study)] == [800, 400]
    assert len(select(study, names=["nll", "flops"]).front) == 2
    assert [item.eval_exits for item in select(study, names=["nll", "shipped_flops"]).front] == [2]
    assert [item.eval_exits for item in select(study, maximum={"shipped_params": 300}).front] == [2]
    code, out, _ = sae("pareto", tmp_path / "s")
    assert code == 0
    assert all(f" {name} " in out for name in ("flops", "params", *SHIPPED))
    assert "shipped FLOPs" in sae("pick", tmp_path / "s")[1]


def test_a_run_without_them_is_read_as_before(tmp_path: Path) -> None:
    study = small_study(tmp_path / "s").record
    assert not any(key in item.values for item in candidates(study) for key in (*SHIPPED, "latency"))
    code, out, _ = sae("pareto", tmp_path / "s")
    assert code == 0
    assert "shipped" not in out
    assert sae("pick", tmp_path / "s")[0] == 0
    with pytest.raises(ConfigError, match="shipped_flops must be recorded by the study"):
        select(study, names=["nll", "shipped_flops"])


def test_a_front_of_old_and_new_runs_leaves_out_what_is_missing(tmp_path: Path) -> None:
    study = new_study(tmp_path / "s")
    study.finish({"name": "standard"}, [point(0.1, 0.05, 900)])
    code, out, _ = sae("pareto", tmp_path / "s")
    assert code == 0
    assert "- │" in out


def test_latency_is_read_where_it_was_measured(tmp_path: Path) -> None:
    study = new_study(tmp_path / "s")
    (trial,) = study.record.trials()
    by_exits = [{"exits": 1, "latency": 0.5}, {"exits": 2, "latency": 1.5}]
    trial.run.write_json(trial.run.LATENCY, {"batch": 64, "threads": 1, "by_exits": by_exits})
    first, second = candidates_of(trial)
    assert (first.values["latency"], second.values["latency"]) == (0.5, 1.5)
    assert [item.eval_exits for item in select(study.record, maximum={"latency": 1.0}).front] == [1]
    assert summarise(second, [trial.run], 2)["costs"]["latency"]["mean"] == 1.5
    assert summarise(second, [trial.run], 2)["costs"]["shipped_flops"]["mean"] == 400
    code, _, _ = sae("pareto", tmp_path / "s", "--objectives", "latency,nll", "--figure", tmp_path / "x.svg")
    assert code == 0
    assert "ms for a batch of 64" in (tmp_path / "x.svg").read_text()
    assert "ms for a batch of 64" in sae("pick", tmp_path / "s")[1]
    trial.run.clear()
    assert not (trial.run.path / trial.run.LATENCY).exists()
