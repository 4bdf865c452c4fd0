"""Images of many sizes and depths as a user ships them: predicted exactly as they were decoded for training."""

import csv
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import sae
from sae.config.run import Fit, parse_run
from sae.core.errors import ConfigError, DataError
from sae.data.catalogue import load
from sae.data.dataset import Array
from sae.deploy.export import export
from sae.deploy.manifest import DEFAULT_TARGET, ExitTarget, read_manifest
from sae.deploy.sources import as_samples, read_chunks
from sae.training.run import train
from sae.training.run_evaluation import evaluate
from tests.data.samples import data_config, write_csv, write_folder, write_npz
from tests.deploy.test_predict import predicted, refused

pytestmark = pytest.mark.long

MODES = ("RGB", "L", "P", "RGBA", "CMYK", "LA")


def mixed_files(count: int = 36) -> dict[str, bytes]:
    """Dark cats and bright dogs in many sizes and modes, some of them lying on their side."""
    rng = np.random.default_rng(0)
    files = {}
    for index in range(count):
        name, shade = (("cat", 0), ("dog", 120))[index % 2]
        height, width = rng.integers(9, 50, 2)
        mode = MODES[index // 2 % len(MODES)]
        image = Image.fromarray((rng.integers(0, 120, (height, width, 3)) + shade).astype(np.uint8)).convert(mode)
        exif = Image.Exif()
        exif[0x0112] = 6 if mode == "RGB" else 1
        suffix = "tiff" if mode == "CMYK" else "jpeg" if mode == "RGB" else "png"
        buffer = BytesIO()
        image.save(buffer, suffix, exif=exif.tobytes())
        files[f"{name}/{index:02}.{suffix}"] = buffer.getvalue()
    return files


def shipped(folder: Path, data: Path, adaptive: ExitTarget | None = None, **settings: Any) -> Path:
    """Train a small network on the data, and export it."""
    config = {"data": {"name": str(data), **settings}, "backbone": {"name": "vgg", "depth": 2}}
    train(parse_run(config, {"method": {"name": "sae"}, "train": {"epochs": 2, "batch_size": 8}}), folder / "run")
    export(folder / "run", folder / "shipped" / "model.onnx", adaptive=adaptive)
    return folder / "shipped" / "model.onnx"


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module", params=["stretch", "pad", "crop"])
def mixed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Fit]:
    """A folder of mixed images, a model of it, and how it resizes."""
    folder, fit = tmp_path_factory.mktemp("mixed"), request.param
    data = write_folder(folder / "data", mixed_files())
    return data, shipped(folder, data, resize="16x20", fit=fit), fit


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "predictions.csv"


def in_order(samples: Array) -> Array:
    """Samples in an order that depends only on their pixels."""
    flat = samples.reshape(len(samples), -1)
    return flat[np.lexsort(flat.T)]


def all_samples(data: Path, **settings: Any) -> Array:
    dataset = load(data_config(data, **settings))
    return np.concatenate([dataset.split(name).inputs[:] for name in ("train", "val", "test")])


def test_a_manifest_says_how_images_are_resized(mixed: tuple[Path, Path, Fit]) -> None:
    _, model, fit = mixed
    expected = read_manifest(model.parent / "manifest.json").input
    assert (expected.shape, expected.fit, expected.depth, expected.dtype) == ((3, 16, 20), fit, 8, "uint8")


def test_files_are_decoded_for_prediction_as_for_training(mixed: tuple[Path, Path, Fit]) -> None:
    data, model, fit = mixed
    chunks = read_chunks([data], sae.load(model).manifest, "test")
    at_prediction = np.concatenate([chunk.samples for chunk in chunks])
    at_training = all_samples(data, resize="16x20", fit=fit)
    assert len(at_prediction) == 36
    np.testing.assert_array_equal(in_order(at_prediction), in_order(at_training))


def test_a_folder_of_mixed_images_is_predicted_with_its_accuracy(mixed: tuple[Path, Path, Fit], out: Path) -> None:
    data, model, _ = mixed
    summary, rows = predicted(model, data, out=out)
    assert summary["samples"] == len(rows) == 36
    assert {row["true_class"] for row in rows} == {"cat", "dog"}


def test_arrays_of_any_size_are_resized_like_files(mixed: tuple[Path, Path, Fit], tmp_path: Path) -> None:
    _, path, _ = mixed
    model = sae.load(path)
    image = np.random.default_rng(1).integers(0, 256, (31, 22, 3)).astype(np.uint8)
    Image.fromarray(image).save(tmp_path / "a.png")
    from_file = next(iter(read_chunks([tmp_path / "a.png"], model.manifest, "test"))).samples
    for given in (image[None], image[None].transpose(0, 3, 1, 2), [image], [image.transpose(2, 0, 1)]):
        np.testing.assert_array_equal(as_samples(given, model.manifest.input), from_file)


def test_a_list_of_arrays_may_have_several_sizes(mixed: tuple[Path, Path, Fit]) -> None:
    model = sae.load(mixed[1])
    images = [np.full((height, 30, 3), 90, np.uint8) for height in (9, 40)]
    together = model.predict(images)
    alone = [model.predict(image[None]) for image in images]
    assert len(together) == 2
    np.testing.assert_allclose(together.entropy, [float(each.entropy[0]) for each in alone], rtol=1e-5)


@pytest.mark.parametrize("shape", [(2, 30, 30), (2, 4, 30, 30), (2, 3, 30, 3), (2, 0, 30, 3)])
def test_arrays_that_are_no_images_are_refused(mixed: tuple[Path, Path, Fit], shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"images must be \(batch, 3, height, width\) or .* got"):
        as_samples(np.zeros(shape, np.uint8), sae.load(mixed[1]).manifest.input)


def test_a_table_of_images_is_predicted(mixed: tuple[Path, Path, Fit], tmp_path: Path, out: Path) -> None:
    data, model, _ = mixed
    names = sorted(mixed_files())
    table = write_csv(data / "list.csv", [{"file": name, "note": "x"} for name in names])
    _, rows = predicted(model, table, out=out)
    table.unlink()
    _, expected = predicted(model, data, out=tmp_path / "expected.csv")
    assert [row["class"] for row in rows] == [row["class"] for row in expected]


def test_without_resizing_another_size_is_refused(digits_model: Path, tmp_path: Path, out: Path) -> None:
    Image.new("L", (20, 16)).save(tmp_path / "a.png")
    assert "all images must be 16×16, but" in refused(digits_model, tmp_path / "a.png", out=out)


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A list of images of 16 bits in many sizes, and a regression from them."""
    folder = tmp_path_factory.mktemp("deep")
    rng = np.random.default_rng(0)
    rows = []
    for index in range(30):
        values = rng.integers(0, 30000, tuple(rng.integers(9, 30, 2))) + 1000 * index
        (folder / "data").mkdir(exist_ok=True)
        Image.fromarray(values.astype(np.uint16)).save(folder / "data" / f"{index:02}.png")
        rows.append({"file": f"{index:02}.png", "level": index / 4})
    data = write_csv(folder / "data" / "list.csv", rows)
    return data, shipped(folder, data, task="regression", target="level", resize=16)


def test_images_of_16_bits_are_shipped_in_float32(deep: tuple[Path, Path]) -> None:
    expected = read_manifest(deep[1].parent / "manifest.json").input
    assert (expected.dtype, expected.depth, expected.shape) == ("float32", 16, (1, 16, 16))
    assert json.loads((deep[1].parent / "manifest.json").read_text())["input"]["depth"] == 16


def test_images_of_16_bits_are_decoded_for_prediction_as_for_training(deep: tuple[Path, Path]) -> None:
    data, model = deep
    chunk = next(iter(read_chunks([data], sae.load(model).manifest, "test")))
    at_training = all_samples(data, task="regression", target="level", resize=16)
    assert chunk.samples.dtype == np.float32
    np.testing.assert_array_equal(in_order(np.asarray(chunk.samples)), in_order(at_training))


def test_images_of_16_bits_are_predicted_with_their_error(deep: tuple[Path, Path], out: Path) -> None:
    data, model = deep
    summary, rows = predicted(model, data, out=out)
    assert summary["samples"] == 30
    assert [float(row["true_value"]) for row in rows] == [index / 4 for index in range(30)]


def test_arrays_of_16_bits_are_predicted_like_files(deep: tuple[Path, Path]) -> None:
    data, path = deep
    model = sae.load(path)
    with (data.parent / "list.csv").open(newline="") as file:
        names = [row["file"] for row in csv.DictReader(file)]
    arrays = [np.asarray(Image.open(data.parent / name)) for name in names]
    chunk = next(iter(read_chunks([data], model.manifest, "test")))
    np.testing.assert_array_equal(as_samples(arrays, model.manifest.input), chunk.samples)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((1, 16, 16), np.uint8), "must have 16 bits like those of training, got uint8"),
        (np.full((1, 16, 16), 0.5), "must be in \\[0, 65535\\] like those of training, got values from 0.5 to 0.5"),
        (np.full((1, 16, 16), 70000), "got values from 70000 to 70000"),
        (np.full((1, 16, 16), np.nan), "pixels must be finite, got nan"),
    ],
)
def test_arrays_on_another_scale_are_refused(deep: tuple[Path, Path], values: Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        sae.load(deep[1]).predict(values)


def test_a_file_of_8_bits_is_refused_by_a_model_of_16(deep: tuple[Path, Path], tmp_path: Path, out: Path) -> None:
    Image.new("L", (20, 16)).save(tmp_path / "a.png")
    assert "must have 16 bits per channel like those of training, got 8 in" in refused(
        deep[1], tmp_path / "a.png", out=out
    )


def test_deep_images_cannot_be_corrupted(deep: tuple[Path, Path]) -> None:
    with pytest.raises(ConfigError, match=r"--shift needs images of 8 bits per channel, .* have 16: drop --shift"):
        evaluate(deep[1].parents[1] / "run", "test", shift=True)


def test_float_arrays_are_shipped(tmp_path: Path, out: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    images = rng.normal(-700.0, 100.0, (40, 1, 18, 16)) + 300 * labels[:, None, None, None]
    data = write_npz(tmp_path / "data.npz", {"images": images, "labels": labels})
    model = shipped(tmp_path, data, DEFAULT_TARGET, task="classification")
    summary, rows = predicted(model, data, out=out)
    assert summary["samples"] == len(rows) == 40
    early, _ = predicted(model, data, "--adaptive", out=out)
    assert early["samples"] == 40
    prediction = sae.load(model).predict(images)
    assert [row["class"] for row in rows] == [str(label) for label in prediction.labels]  # type: ignore[union-attr]
