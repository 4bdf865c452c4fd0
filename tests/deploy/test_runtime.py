"""Predicting with a shipped model, and everything that can be wrong with one."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import sae
from sae.core.errors import ConfigError, DataError, DataWarning, ModelError
from sae.core.predictive import aggregate
from sae.data.batches import Preparation
from sae.deploy.manifest import NAME, sha256_of
from sae.deploy.runtime import ClassPrediction, ValuePrediction, load
from sae.deploy.sources import as_samples
from sae.records.run import RunRecord
from sae.training.run import restore

pytestmark = pytest.mark.long


@pytest.fixture
def copied(digits_model: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(digits_model.parent, tmp_path / "copy")
    return tmp_path / "copy" / "model.onnx"


def changed(model: Path, section: str, **values: object) -> None:
    path = model.parent / NAME
    manifest = json.loads(path.read_text())
    manifest[section] |= values
    path.write_text(json.dumps(manifest))


def test_a_model_predicts_what_the_run_predicts(digits_run: Path, digits_model: Path) -> None:
    method, dataset = restore(RunRecord(digits_run))
    prediction = sae.load(digits_model).predict(dataset.test.inputs[:300])
    prepare = Preparation(dataset.normalisation, 3, torch.device("cpu"))
    with torch.no_grad():
        expected = aggregate(
            method.task, method.member_outputs(prepare(dataset.test.inputs[:300])), method.member_weights()
        )
    assert isinstance(prediction, ClassPrediction)
    np.testing.assert_allclose(prediction.probs, expected.probs.numpy(), atol=1e-5)  # type: ignore[union-attr]
    assert prediction.names == [str(label) for label in prediction.labels]


def test_members_are_those_of_the_manifest_and_average_to_the_prediction(
    digits_run: Path, digits_model: Path, table_model: Path, pixels: np.ndarray
) -> None:
    model = load(digits_model)
    prediction, manifest = model.predict(pixels, members=True), model.manifest
    assert isinstance(prediction, ClassPrediction)
    assert prediction.members is not None
    weights = np.array([member.weight for member in manifest.network.members])
    assert prediction.members.shape == (3, len(weights), 10)
    np.testing.assert_allclose(np.einsum("m,bmc->bc", weights, prediction.members), prediction.probs, atol=1e-5)
    method, dataset = restore(RunRecord(digits_run))
    x = Preparation(dataset.normalisation, 3, torch.device("cpu"))(pixels)
    with torch.no_grad():
        every = method.member_outputs(x).softmax(dim=-1).unflatten(1, (2, method.depth)).numpy()
    for index, member in enumerate(manifest.network.members):
        assert member.input is not None
        expected = every[:, member.input - 1, member.exit - 1]
        np.testing.assert_allclose(prediction.members[:, index], expected, atol=1e-5)
    values = load(table_model)
    found = values.predict(np.zeros((2, *values.manifest.input.shape)), members=True)
    assert isinstance(found, ValuePrediction)
    assert found.members is not None
    weights = np.array([member.weight for member in values.manifest.network.members])
    np.testing.assert_allclose(found.members[:, :, 0] @ weights, found.mean, rtol=1e-5)
    spread = (found.members[:, :, 0] - found.mean[:, None]) ** 2
    np.testing.assert_allclose((found.members[:, :, 1] + spread) @ weights, found.variance, rtol=1e-4)


def test_members_are_returned_only_if_asked_for_and_empty_for_no_samples(
    digits_model: Path, pixels: np.ndarray
) -> None:
    model = load(digits_model)
    assert model.predict(pixels).members is None
    empty = model.predict(pixels[:0], members=True).members
    assert empty is not None
    assert empty.shape == (0, len(model.manifest.network.members), 10)


def test_members_that_a_model_does_not_have_are_refused(pixels: np.ndarray) -> None:
    older = load(Path(__file__).parents[1] / "golden" / "study" / "shipped")
    with pytest.raises(ModelError, match="exported by an older version, without the output members"):
        older.predict(pixels, members=True)


def test_a_batch_of_one_is_the_first_of_many(digits_model: Path, pixels: np.ndarray) -> None:
    model = load(digits_model)
    alone, together = model.predict(pixels[:1]), model.predict(pixels)
    assert isinstance(alone, ClassPrediction)
    assert isinstance(together, ClassPrediction)
    np.testing.assert_allclose(alone.probs, together.probs[:1], atol=1e-6)
    assert alone.entropy.shape == (1,)


def test_a_batch_of_none_gives_an_empty_prediction(digits_model: Path, table_model: Path) -> None:
    empty = load(digits_model).predict(np.zeros((0, 1, 16, 16), np.uint8))
    assert isinstance(empty, ClassPrediction)
    assert empty.probs.shape == (0, 10)
    assert empty.names == []
    assert empty.abstains(0.5).shape == (0,)
    model = load(table_model)
    values = model.predict(np.zeros((0, *model.manifest.input.shape)))
    assert isinstance(values, ValuePrediction)
    assert len(values) == 0


def test_more_samples_than_a_chunk_are_predicted_in_order(digits_model: Path) -> None:
    many = np.random.default_rng(0).integers(0, 256, (600, 1, 16, 16)).astype(np.uint8)
    model = load(digits_model)
    np.testing.assert_allclose(model.predict(many).entropy[590:], model.predict(many[590:]).entropy, atol=1e-5)


def test_layouts_that_are_clear_are_converted(digits_model: Path, pixels: np.ndarray) -> None:
    model = load(digits_model)
    expected = model.predict(pixels).entropy
    for same in (pixels[:, 0], pixels[:, 0, :, :, None], pixels.astype(np.int64), pixels.tolist()):
        assert np.array_equal(model.predict(same).entropy, expected)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 1, 28, 28), np.uint8), r"images must be \(batch, 1, 16, 16\).*got \(2, 1, 28, 28\)"),
        (np.zeros((2, 3, 16, 16), np.uint8), r"got \(2, 3, 16, 16\)"),
        (np.zeros((1, 16, 16, 16), np.uint8)[0][:1][0], r"got \(16, 16\)"),
        (np.zeros((2, 1, 16, 16), np.float32), "pixels must be uint8 in .*, got float32, whose scale is unknown"),
        (np.full((2, 1, 16, 16), np.nan), "pixels must be uint8"),
        (np.full((2, 1, 16, 16), 256), r"must be in \[0, 255\], got values from 256 to 256"),
        (np.array(["a"]), "samples must be numbers"),
    ],
)
def test_images_that_are_not_clear_are_refused(digits_model: Path, x: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(digits_model).predict(x)


def test_features_that_are_not_finite_are_refused(table_model: Path) -> None:
    model = load(table_model)
    x = np.zeros((3, *model.manifest.input.shape), np.float32)
    x[1, 2] = np.nan
    with pytest.raises(DataError, match="features must be finite, got nan in sample 1, feature 2"):
        model.predict(x)
    with pytest.raises(DataError, match="one number for each feature"):
        model.predict(x[:, :1])


def test_features_in_float32_are_taken(table_model: Path) -> None:
    model = load(table_model)
    x = np.random.default_rng(0).normal(size=(3, *model.manifest.input.shape)).astype(np.float32)
    given, exact = model.predict(x), model.predict(x.astype(np.float64))
    assert isinstance(given, ValuePrediction)
    assert isinstance(exact, ValuePrediction)
    np.testing.assert_array_equal(given.mean, exact.mean)


def test_features_whose_spread_float32_cannot_hold_are_warned_of(table_model: Path) -> None:
    expected = load(table_model).manifest.input
    moved = expected.model_copy(update={"mean": (1.7e9, *expected.mean[1:])})
    x = np.full((3, *expected.shape), 1.7e9, np.float32)
    with pytest.warns(DataWarning, match="feature 0 has lost its spread: samples are in float32, .* give .* float64"):
        as_samples(x, moved)
    as_samples(x, expected)
    as_samples(x.astype(np.float64), moved)


def test_a_model_of_an_older_version_takes_float32(table_model: Path, tmp_path: Path) -> None:
    shutil.copytree(table_model.parent, tmp_path / "old")
    old = tmp_path / "old" / "model.onnx"
    graph = onnx.load(old)
    graph.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    name = graph.graph.input[0].name
    for node in graph.graph.node:
        node.input[:] = ["as_float64" if given == name else given for given in node.input]
    graph.graph.node.insert(0, onnx.helper.make_node("Cast", [name], ["as_float64"], to=onnx.TensorProto.DOUBLE))
    old.write_bytes(graph.SerializeToString())
    changed(old, "input", dtype="float32")
    changed(old, "graph", sha256=sha256_of(old.read_bytes()), bytes=old.stat().st_size)
    x = np.random.default_rng(0).normal(size=(3, *load(old).manifest.input.shape))
    given, exact = load(old).predict(x), load(table_model).predict(x)
    assert isinstance(given, ValuePrediction)
    assert isinstance(exact, ValuePrediction)
    np.testing.assert_allclose(given.mean, exact.mean, rtol=1e-5)


def test_a_single_image_is_told_what_it_lacks(framed_model: Path) -> None:
    with pytest.raises(DataError, match=r"needs a batch, x\[None\]"):
        as_samples(np.zeros((3, 28, 28), np.uint8), load(framed_model).manifest.input)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="that exists"):
        load(tmp_path / "model.onnx")


def test_a_model_without_a_manifest_is_refused(copied: Path) -> None:
    (copied.parent / NAME).unlink()
    with pytest.raises(ModelError, match=r"must have a manifest.json beside it"):
        load(copied)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "must be JSON"), ('{"name": 1}', "must be a manifest written by"), ("[]", "got another file")],
)
def test_a_manifest_that_is_not_ours_is_refused(copied: Path, text: str, message: str) -> None:
    (copied.parent / NAME).write_text(text)
    with pytest.raises(ModelError, match=message):
        load(copied)


def test_a_file_that_is_not_our_graph_is_refused(copied: Path) -> None:
    copied.write_bytes(b"no graph at all")
    with pytest.raises(ModelError, match=r"must be the graph that .* describes"):
        load(copied)


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("input", {"shape": [1, 28, 28]}, "its shape is .* and the graph's"),
        ("input", {"dtype": "float32"}, "its dtype is float32 and the graph's uint8"),
        ("input", {"name": "x"}, "its input is x and the graph's pixels"),
        ("target", {"class_names": ["a", "b"]}, "got 2 names for 10"),
        ("target", {"class_names": None}, "must have class names"),
        ("target", {"class_names": ["a"] * 10}, "must have a different name for each class"),
        ("cost", {"latency": 1}, "cost.latency: Extra inputs"),
        *(
            ("graph", {"file": name}, "graph.file: .*must be the name of a file in the folder of the manifest")
            for name in ("/dev/zero", "../model.onnx", "a/b.onnx", "..", "", "C:x.onnx", "a\\b.onnx")
        ),
        ("graph", {"bytes": 3}, "must be the graph that its manifest.json describes .* and 3 bytes"),
    ],
)
def test_a_manifest_that_disagrees_with_its_graph_is_refused(
    copied: Path, section: str, values: dict[str, object], message: str
) -> None:
    changed(copied, section, **values)
    with pytest.raises(ModelError, match=message):
        load(copied)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": [-0.5, 0.2]}, "must have scores from 0"),
        ({"scores": [0.5, 0.2]}, "that rise with their ranks"),
        ({"scores": [0.1, math.nan]}, "finite"),
        ({"ranks": [5, 5]}, "must have ranks that rise"),
    ],
)
def test_scores_that_cannot_be_are_refused(copied: Path, changes: dict[str, object], message: str) -> None:
    scores = {"score": "one_minus_probability", "samples": 5, "ranks": [1, 5], "scores": [0.1, 0.2]}
    changed(copied, "conformal", calibration=scores)
    load(copied)
    changed(copied, "conformal", calibration=scores | changes)
    with pytest.raises(ModelError, match=message):
        load(copied)


def test_a_graph_that_is_a_device_or_a_pipe_is_refused_at_once(copied: Path) -> None:
    for make in (lambda path: path.symlink_to("/dev/zero"), os.mkfifo, Path.mkdir):
        copied.unlink()
        make(copied)
        with pytest.raises(ModelError, match=r"it is a pipe or a device|Is a directory"):
            load(copied.parent)
        shutil.rmtree(copied) if copied.is_dir() else None
        copied.touch()


def test_a_file_that_is_larger_than_its_manifest_says_is_not_read_whole(copied: Path) -> None:
    size = copied.stat().st_size
    with copied.open("r+b") as file:
        file.truncate(64 << 30)  # a sparse file, which takes no room
    with pytest.raises(ModelError, match=f"and {size:,} bytes"):
        load(copied)


def test_a_manifest_that_is_a_pipe_is_refused_at_once(copied: Path) -> None:
    (copied.parent / NAME).unlink()
    os.mkfifo(copied.parent / NAME)
    with pytest.raises(ModelError, match=r"must have a manifest.json"):
        load(copied)


def test_sets_are_of_classes_and_intervals_of_values(digits_model: Path, table_model: Path, pixels: np.ndarray) -> None:
    classes, values = load(digits_model), load(table_model)
    sets = classes.sets(classes.predict(pixels), 0.9)
    assert sets.shape == (3, 10)
    assert (classes.sets(classes.predict(pixels), 0.99) >= sets).all()
    rows = np.zeros((4, *values.manifest.input.shape))
    lower, upper = values.intervals(values.predict(rows), 0.8)
    assert (lower < upper).all()
    with pytest.raises(ConfigError, match="ask for intervals"):
        values.sets(values.predict(rows))
    with pytest.raises(ConfigError, match="ask for sets"):
        classes.intervals(classes.predict(pixels))


WITHOUT_TORCH = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "onnx", "onnxscript", "sklearn", "scipy", "pooch", "safetensors", "altair"}:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Refuse())
"""


def test_the_runtime_needs_no_torch(digits_model: Path, tmp_path: Path, pixels: np.ndarray) -> None:
    np.savez(tmp_path / "x.npz", images=pixels)
    predict = [
        "predict",
        str(digits_model),
        str(tmp_path / "x.npz"),
        "--out",
        str(tmp_path / "p.csv"),
        "--coverage",
        "0.9",
    ]
    code = WITHOUT_TORCH + f"sys.argv = {['sae', *predict]!r}\nfrom sae.cli import main\nmain()\n"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 4


def test_exporting_without_torch_names_the_extra(digits_run: Path, tmp_path: Path) -> None:
    arguments = ["sae", "export", str(digits_run), "--out", str(tmp_path / "model.onnx")]
    code = WITHOUT_TORCH + f"sys.argv = {arguments!r}\nfrom sae.cli import main\nmain()\n"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "saensemble[train]" in result.stderr


def test_measuring_a_graph_needs_no_torch(digits_model: Path) -> None:
    arguments = ["sae", "bench", str(digits_model), "--batch", "2", "--repeats", "2", "--sessions", "1"]
    code = WITHOUT_TORCH + f"sys.argv = {arguments!r}\nfrom sae.cli import main\nmain()\n"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "batches of 2" in result.stdout
