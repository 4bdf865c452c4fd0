"""Measuring time so that it can be compared."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import ConfigError, ModelError
from sae.deploy.bench import bench
from sae.deploy.latency import Effort, interleaved, random_samples
from sae.deploy.peak_memory import own_peak, peak_memory
from tests.cli.test_cli import sae

QUICK = Effort(repeats=5, sessions=2)


def test_models_take_turns_in_an_order_that_the_seed_decides_and_are_made_anew_for_each_session() -> None:
    log: list[str] = []

    def maker(label: str, seconds: float):  # type: ignore[no-untyped-def]
        def make():  # type: ignore[no-untyped-def]
            log.append(f"make {label}")

            def call() -> None:
                log.append(label)
                time.sleep(seconds)

            return call

        return make

    makers = {"a": maker("a", 0.004), "b": maker("b", 0.012)}
    timings = interleaved(makers, Effort(repeats=6, sessions=2, seed=1))
    assert [log.count(f"make {label}") for label in "ab"] == [2, 2]
    turns = [entry for entry in log[-12:] if not entry.startswith("make")]
    assert all(sorted(turns[at : at + 2]) == ["a", "b"] for at in range(0, 12, 2)), "one of each, then the next"
    assert len({tuple(turns[at : at + 2]) for at in range(0, 12, 2)}) == 2, "not always in the same order"
    assert 2.0 < timings["b"].seconds / timings["a"].seconds < 4.0
    assert timings["a"].low <= timings["a"].seconds <= timings["a"].high
    first, log[:] = list(log), []
    interleaved(makers, Effort(repeats=6, sessions=2, seed=1))
    assert log == first


def test_a_call_too_short_for_the_clock_is_repeated_within_a_repeat() -> None:
    calls = []
    timing = interleaved({"a": lambda: lambda: calls.append(0)}, Effort(repeats=1, sessions=1))["a"]
    assert len(calls) > 100
    assert timing.seconds < 1e-4


def test_waiting_counts_on_the_wall_but_not_for_the_thread() -> None:
    timing = interleaved({"a": lambda: lambda: time.sleep(0.01)}, Effort(repeats=3, sessions=1))["a"]
    assert timing.seconds >= 0.01
    assert timing.cpu < 0.005


def test_samples_of_another_kind_are_refused() -> None:
    assert random_samples((1, 4, 4), "uint8", 3).dtype == np.uint8
    with pytest.raises(ModelError, match="of a fixed shape in uint8 or float32, got"):
        random_samples(("height", 4), "float32", 3)
    with pytest.raises(ModelError, match="in tensor"):
        random_samples((4,), "tensor(int64)", 3)


def test_the_peak_is_the_models_own_however_large_the_process_that_asks(digits_model: Path) -> None:
    ballast = np.ones(40_000_000, dtype=np.uint8)
    assert own_peak() > ballast.nbytes
    peak = peak_memory("onnx", digits_model, batch=8)
    assert digits_model.stat().st_size < peak < 200e6
    with pytest.raises(ModelError, match="a process must be able to load"):
        peak_memory("onnx", digits_model.with_name("manifest.json"), batch=8)


def test_a_graph_is_measured_beside_itself(digits_model: Path) -> None:
    report = bench([digits_model, digits_model.parent], [4], effort=QUICK)
    (result,) = report["batches"]
    first, second = result["rows"]
    assert first["ratio"] == 1.0
    assert first["ms"] == pytest.approx(1e3 * 4 / first["samples_per_second"])
    assert first["ms_per_sample"] == pytest.approx(first["ms"] / 4)
    assert second["ratio"] == pytest.approx(second["ms"] / first["ms"])
    assert result["noise"] == pytest.approx(result["control"]["ms"] / first["ms"])
    assert [model["bytes"] for model in report["models"]] == [digits_model.stat().st_size] * 2
    assert len({model["label"] for model in report["models"]}) == 2


def test_a_run_is_measured_in_torch_and_as_its_graph(digits_run: Path) -> None:
    code, out, error = sae("bench", digits_run, "--batch", "4", "--repeats", "3", "--sessions", "1", "--json")
    assert code == 0, error
    report = json.loads(out)
    assert [model["runtime"] for model in report["models"]] == ["onnxruntime", "torch"]
    assert all(row["peak_bytes"] > 0 for row in report["batches"][0]["rows"])


def test_the_table_shows_models_and_noise(digits_model: Path) -> None:
    code, out, error = sae("bench", digits_model, "--batch", "2", "--repeats", "2", "--sessions", "1")
    assert code == 0, error
    assert "batches of 2" in out
    assert "model.onnx, again" in out
    assert "noise: the first model differs from itself by" in out


@pytest.mark.parametrize(
    ("target", "arguments", "message"),
    [
        ("model.onnx", "--batch 0", "--batch takes different sizes of at least 1, got 0"),
        ("model.onnx", "--batch 4,4", "--batch takes different sizes"),
        ("model.onnx", "--eval-exits 1", "--eval-exits is for run folders"),
        ("absent.onnx", "", "must be a run folder or an .onnx file"),
        ("manifest.json", "", "must be an ONNX graph that onnxruntime loads"),
    ],
)
def test_a_mistake_costs_one_sentence(digits_model: Path, target: str, arguments: str, message: str) -> None:
    code, _, error = sae("bench", digits_model.with_name(target), *arguments.split())
    assert code == 2
    assert message in error


def test_batches_must_be_given(digits_model: Path) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        bench([digits_model], [-1], effort=QUICK)
