"""Int8 graphs."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import sae.deploy.export
from sae.core.errors import ModelError, QuantisationError
from sae.deploy.export import export
from sae.deploy.manifest import NAME, read_manifest
from sae.deploy.quantisation import (
    check_finite,
    describe_quantisation,
    layers_to_quantise,
    quantise,
    range_samples,
)
from sae.deploy.runtime import load
from sae.deploy.session import Session
from sae.records.run import RunRecord
from sae.records.shipped import CARD
from sae.training.run import restore
from tests.builders import SMALL_METHODS
from tests.deploy.models import as_values, digits_for, exported, stirred_method

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def int8_model(digits_run: Path) -> Path:
    out = digits_run.parent / "int8" / "model.onnx"
    export(digits_run, out, 2, int8=True)
    return out


def test_the_manifest_says_what_eight_bits_change(int8_model: Path, digits_model: Path) -> None:
    manifest, before = (read_manifest(path.parent / NAME) for path in (int8_model, digits_model))
    told = manifest.quantisation
    assert told is not None
    assert before.quantisation is None
    assert told.float32.metrics == before.metrics
    assert told.float32.bytes == before.graph.bytes
    assert told.size_ratio == pytest.approx(manifest.graph.bytes / before.graph.bytes)
    assert told.size_ratio < 0.6
    assert told.time_ratio > 0
    for split in ("val", "test"):
        assert manifest.metrics[split]["accuracy"] == pytest.approx(before.metrics[split]["accuracy"], abs=0.05)
        assert manifest.metrics[split]["nll"] != before.metrics[split]["nll"]


def test_an_int8_model_is_predicted_with_like_any_other(int8_model: Path, digits_run: Path, digits_model: Path) -> None:
    _, dataset = restore(RunRecord(digits_run))
    ours, theirs = (load(path).predict(dataset.test.inputs[:50]) for path in (int8_model, digits_model))
    assert np.abs(ours.probs - theirs.probs).max() < 0.1  # type: ignore[union-attr]
    assert b"site-packages" not in int8_model.read_bytes()
    assert {path.name for path in int8_model.parent.iterdir()} == {"model.onnx", NAME, CARD}


def test_heads_and_what_is_around_the_network_stay_in_float(digits_model: Path, int8_model: Path) -> None:
    graph = onnx.load(str(digits_model)).graph
    chosen = layers_to_quantise(digits_model.read_bytes())
    heads = [node.name for node in graph.node if any("head" in name for name in node.input)]
    assert heads
    assert chosen
    assert not set(heads) & set(chosen)
    kinds = {value.data_type for value in onnx.load(str(int8_model)).graph.initializer if len(value.dims) > 1}
    assert onnx.TensorProto.INT8 in kinds


def test_float_and_int8_are_not_taken_for_each_other(int8_model: Path, digits_run: Path) -> None:
    before = int8_model.stat().st_mtime_ns
    assert export(digits_run, int8_model, 2, int8=True).quantisation is not None
    assert int8_model.stat().st_mtime_ns == before
    with pytest.raises(
        ModelError, match=r"another run, number of exits, precision or calibration \(sae, 2 exits, int8\)"
    ):
        export(digits_run, int8_model, 2)


def test_a_graph_that_puts_out_no_numbers_is_refused(
    digits_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(content: bytes, *_: object) -> bytes:
        model = onnx.load_from_string(content)
        weights = next(value for value in model.graph.initializer if "weight" in value.name)
        values = np.full(weights.dims, np.nan, np.float32)
        weights.CopyFrom(onnx.numpy_helper.from_array(values, weights.name))
        return bytes(model.SerializeToString())

    monkeypatch.setattr(sae.deploy.export, "quantise", broken)
    with pytest.raises(QuantisationError, match=r"probs is not for .* val samples: nothing was written") as caught:
        export(digits_run, tmp_path / "model.onnx", int8=True)
    assert caught.value.exit_code == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("backbone", ["fc", "vgg", "conv1d"])
@pytest.mark.parametrize("name", list(SMALL_METHODS))
def test_every_method_can_be_quantised(name: str, backbone: str, task: str) -> None:
    dataset = digits_for(backbone) if task == "classification" else as_values(digits_for(backbone))
    method = stirred_method(name, backbone, dataset)
    content, session = exported(method, dataset)
    samples = range_samples(dataset, seed=0)
    quantised = quantise(content, samples, session.input_name)
    assert layers_to_quantise(content)
    tried = dataset.test.inputs[:200]
    expected, found = session.run(tried), Session(quantised).run(tried)
    check_finite({"test": found})
    assert describe_quantisation(content, quantised, {}, len(samples)).time_ratio > 0
    if task == "classification":
        assert (expected["probs"].argmax(1) == found["probs"].argmax(1)).mean() > 0.7
    else:
        assert np.abs(expected["mean"] - found["mean"]).mean() < 0.3 * 287
