"""Models measured side by side, and latency as something to search for."""

import json
from pathlib import Path

import numpy as np
import pytest

import sae.deploy.bench
import sae.deploy.graph
from sae.core.errors import ConfigError, ModelError
from sae.deploy.bench import bench, measure_exits, own_peak, peak_memory
from sae.deploy.latency import Effort, Timing
from sae.methods.sae import Sae
from sae.records.run import RunRecord
from sae.search.job import Job, run_job
from tests.cli.test_cli import sae as run_sae

pytestmark = pytest.mark.long

QUICK = Effort(repeats=5, sessions=2)


def test_graphs_that_use_the_same_exits_are_measured_once(digits_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def fake(makers: dict[str, object], effort: Effort) -> dict[str, Timing]:
        asked.append(list(makers))
        return {label: Timing(9.0, 0, 0, cpu=0.001 * (at + 1)) for at, label in enumerate(makers)}

    monkeypatch.setattr(sae.deploy.bench, "interleaved", fake)
    monkeypatch.setattr(sae.deploy.graph, "shipped_content", lambda *_: b"")
    monkeypatch.setattr(Sae, "active_counts", lambda *_: (0, 2))
    latency = measure_exits(RunRecord(digits_run))
    assert [len(labels) for labels in asked] == [1]
    assert latency.to_json() == {
        "batch": 64,
        "threads": 1,
        "by_exits": [{"exits": 1, "latency": 1.0}, {"exits": 2, "latency": 1.0}],
    }


def test_a_job_measures_latency_once_and_only_if_asked(digits_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = RunRecord(digits_run)
    config = record.read_config()
    monkeypatch.setattr(sae.deploy.bench, "EXITS_EFFORT", Effort(2, 1))
    assert run_job(Job("a", config, digits_run)).state == "finished"
    assert not (digits_run / record.LATENCY).exists()
    try:
        assert run_job(Job("a", config, digits_run, latency=True)).state == "finished"
        first = (digits_run / record.LATENCY).read_text()
        assert run_job(Job("a", config, digits_run, latency=True)).state == "finished"
        assert (digits_run / record.LATENCY).read_text() == first
        evaluation = record.read_evaluation()
        assert evaluation.latency is not None
        assert [reading.eval_exits for reading in evaluation.latency.readings] == [1, 2]
        assert all(0 < evaluation.costs(exits)["latency"] < 1000 for exits in (1, 2))
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
    assert "limits must leave sae something to try" in error


def test_the_peak_is_the_models_own_however_large_the_process_that_asks(digits_model: Path) -> None:
    ballast = np.ones(40_000_000, dtype=np.uint8)
    assert own_peak() > ballast.nbytes
    peak = peak_memory("onnx", digits_model, batch=8)
    assert digits_model.stat().st_size < peak < 200e6
    with pytest.raises(ModelError, match="another process must be able to load"):
        peak_memory("onnx", digits_model.with_name("manifest.json"), batch=8)


def test_a_graph_is_measured_beside_itself(digits_model: Path) -> None:
    found = bench([digits_model, digits_model.parent], [4], effort=QUICK)
    (result,) = found.batches
    first, second = (row.times for row in result.rows)
    assert first.ratio == 1.0
    assert first.ms == pytest.approx(1e3 * 4 / first.samples_per_second)
    assert first.ms_per_sample == pytest.approx(first.ms / 4)
    assert second.ratio == pytest.approx(second.ms / first.ms)
    assert result.noise == pytest.approx(result.control.ms / first.ms)
    assert [model.bytes for model in found.models] == [digits_model.stat().st_size] * 2
    assert len({model.label for model in found.models}) == 2


def test_a_run_is_measured_in_torch_and_as_its_graph(digits_run: Path) -> None:
    code, out, error = run_sae("bench", digits_run, "--batch", "4", "--repeats", "3", "--sessions", "1", "--json")
    assert code == 0, error
    report = json.loads(out)
    assert [model["runtime"] for model in report["models"]] == ["onnxruntime", "torch"]
    assert all(row["peak_bytes"] > 0 for row in report["batches"][0]["rows"])


def test_the_table_shows_models_and_noise(digits_model: Path) -> None:
    code, out, error = run_sae("bench", digits_model, "--batch", "2", "--repeats", "2", "--sessions", "1")
    assert code == 0, error
    assert "batches of 2" in out
    assert "model.onnx, again" in out
    assert "noise: the first model differs from itself by" in out


@pytest.mark.parametrize(
    ("target", "arguments", "message"),
    [
        ("model.onnx", "--batch 0", "--batch must list different sizes of at least 1, got 0"),
        ("model.onnx", "--batch 4,4", "--batch must list different sizes"),
        ("model.onnx", "--eval-exits 1", "--eval-exits is for run folders"),
        ("model.onnx", "--data p.csv", "--data and --allow-other-data are for run folders"),
        ("absent.onnx", "", "must be a run folder or an .onnx file"),
        ("manifest.json", "", "must be an ONNX graph that onnxruntime can load"),
    ],
)
def test_a_mistake_costs_one_sentence(digits_model: Path, target: str, arguments: str, message: str) -> None:
    code, _, error = run_sae("bench", digits_model.with_name(target), *arguments.split())
    assert code == 2
    assert message in error


def test_batches_must_be_given(digits_model: Path) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        bench([digits_model], [-1], effort=QUICK)
