"""Latency as something to search for."""

import json
from pathlib import Path

import pytest

import sae.deploy.exit_latency
from sae.analysis.candidates import measured_costs
from sae.deploy.exit_latency import measure_exits
from sae.deploy.latency import Effort, Timing
from sae.methods.sae import Sae
from sae.records.run import RunRecord
from sae.search.job import Job, run_job
from tests.cli.test_cli import sae as run_sae


def test_graphs_that_use_the_same_exits_are_measured_once(digits_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def fake(makers: dict[str, object], effort: Effort) -> dict[str, Timing]:
        asked.append(list(makers))
        return {label: Timing(9.0, 0, 0, cpu=0.001 * (at + 1)) for at, label in enumerate(makers)}

    monkeypatch.setattr(sae.deploy.exit_latency, "interleaved", fake)
    monkeypatch.setattr(sae.deploy.exit_latency, "shipped_content", lambda *_: b"")
    monkeypatch.setattr(Sae, "active_counts", lambda *_: (0, 2))
    report = measure_exits(RunRecord(digits_run))
    assert [len(labels) for labels in asked] == [1]
    assert report["by_exits"] == [{"exits": 1, "latency": 1.0}, {"exits": 2, "latency": 1.0}]


def test_a_job_measures_latency_once_and_only_if_asked(digits_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = RunRecord(digits_run)
    monkeypatch.setattr(sae.deploy.exit_latency, "EFFORT", Effort(2, 1))
    assert run_job(Job("a", record.config, digits_run)).state == "finished"
    assert not (digits_run / record.LATENCY).exists()
    try:
        assert run_job(Job("a", record.config, digits_run, latency=True)).state == "finished"
        first = (digits_run / record.LATENCY).read_text()
        assert run_job(Job("a", record.config, digits_run, latency=True)).state == "finished"
        assert (digits_run / record.LATENCY).read_text() == first
        assert set(measured_costs(record)) == {1, 2}
        assert all(0 < costs["latency"] < 1000 for costs in measured_costs(record).values())
    finally:
        (digits_run / record.LATENCY).unlink(missing_ok=True)


@pytest.mark.slow
def test_a_search_for_latency_tells_the_sampler_and_limits_the_front(tmp_path: Path) -> None:
    arguments = ("--data", "digits", "--epochs", "3", "--set", "backbone.depth=2", "--stop-early", "--trials", "4")
    limits = ("--max", "latency=50", "--max", "shipped_flops=1e9", "--objectives", "nll,latency")
    code, out, error = run_sae("search", *arguments, *limits, "--workers", "1", "--out", tmp_path / "s", "--json")
    assert code == 0, error
    report = json.loads(out)
    assert report["objectives"] == ["nll", "latency"]
    assert all(0 < item["values"]["latency"] <= 50 for item in report["front"])
    assert all(item["values"]["shipped_flops"] > 0 for item in report["front"])
    assert run_sae("pick", tmp_path / "s", "--prefer", "latency")[0] == 0
    code, _, error = run_sae(
        "search", *arguments, "--max", "shipped_flops=10", "--workers", "1", "--out", tmp_path / "t"
    )
    assert code == 2
    assert "limits must leave something to try" in error
