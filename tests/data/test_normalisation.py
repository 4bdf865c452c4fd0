"""Images normalised by given means and deviations, from the setting to the exported graph."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from sae.cli.backbone import say_preparation
from sae.config.run import DataConfig
from sae.config.settings import parse
from sae.core.errors import ConfigError
from sae.data.catalogue import load as load_data
from sae.data.catalogue import resolve
from sae.data.dataset import Depth
from sae.data.normalisation import normalised
from sae.deploy.export import export
from sae.deploy.runtime import ClassPrediction, load
from sae.training.run import restore, train
from tests.backbones.efficientnets import NAME, published

__all__ = ["published"]
MEANS, DEVIATIONS = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def picture(seed: int, height: int = 20, width: int = 24) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(40):
        file = tmp_path / "photos" / ("cat" if number % 2 else "dog") / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture(number)).save(file)
    return tmp_path / "photos"


def test_published_weights_get_the_preparation_of_imagenet_at_96_pixels(photos: Path) -> None:
    def data(**more: object) -> DataConfig:
        backbone = {"name": NAME, "pretrained": True}
        return resolve({"data": {"name": str(photos), **more}, "backbone": backbone}).data

    found = data()
    assert (found.normalisation, found.resize, found.fit) == ("imagenet", (96, 96), "crop")
    given = data(resize="64", fit="pad", normalisation="own")
    assert (given.normalisation, given.resize, given.fit) == ("own", (64, 64), "pad")
    fresh = resolve({"data": str(photos), "backbone": NAME}).data
    assert (fresh.normalisation, fresh.resize) == ("own", None)


def test_sets_that_cannot_be_resized_keep_their_size() -> None:
    backbone = {"name": NAME, "pretrained": True}
    data = resolve({"data": "bloodmnist", "backbone": backbone}).data
    assert (data.normalisation, data.resize, data.fit) == ("imagenet", None, "stretch")


def test_pixels_from_0_to_1_are_normalised_as_asked(photos: Path) -> None:
    means, deviations = [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]
    values = {"name": str(photos), "normalisation": [means, deviations]}
    found = load_data(parse(DataConfig, values)).normalisation
    np.testing.assert_allclose(found.mean, 255 * np.array(means))
    np.testing.assert_allclose(found.std, 255 * np.array(deviations))


@pytest.mark.parametrize(("depth", "largest"), [(8, 255), (16, 65535)])
def test_the_scale_follows_the_depth_of_the_files(photos: Path, depth: Depth, largest: int) -> None:
    config = DataConfig(name=str(photos), normalisation="imagenet")
    found = normalised(replace(load_data(DataConfig(name=str(photos))), depth=depth), config).normalisation
    np.testing.assert_allclose(found.mean, largest * MEANS)


def test_what_cannot_be_normalised_is_refused(photos: Path) -> None:
    one = parse(DataConfig, {"name": str(photos), "normalisation": [[0.5], [0.5]]})
    with pytest.raises(ConfigError, match=r"a mean and a deviation for each of 3 channels of .*, got 1 and 1"):
        load_data(one)
    with pytest.raises(ConfigError, match=r"pixels without a known scale"):
        normalised(
            replace(load_data(DataConfig(name=str(photos))), depth=32),
            DataConfig(name=str(photos), normalisation="imagenet"),
        )
    with pytest.raises(ConfigError, match=r"data\.normalisation=imagenet needs images, but diabetes is a table"):
        load_data(DataConfig(name="diabetes", normalisation="imagenet"))
    refused: list[object] = ["other", [[0.5], [0]], [[0.5]], [0.5, 0.5], [[], []], [["a"], ["b"]], 3]
    for wrong in refused:
        with pytest.raises(ConfigError, match=r"normalisation must be own, imagenet, or \[\[means\], \[deviations\]\]"):
            parse(DataConfig, {"name": "x", "normalisation": wrong})


def test_the_preparation_is_said_unless_it_is_the_usual_one(capsys: pytest.CaptureFixture[str]) -> None:
    say_preparation({"name": "photos", "normalisation": "imagenet", "resize": (96, 64), "fit": "crop"})
    assert "resized to 96×64 (crop;" in capsys.readouterr().err
    say_preparation({"name": "photos", "resize": (96, 64)})
    assert capsys.readouterr() == ("", "")


@pytest.mark.long
def test_a_shipped_model_prepares_pictures_of_any_size_as_training_does(
    published: nn.Module, photos: Path, tmp_path: Path
) -> None:
    given = {"data": {"name": str(photos), "resize": 16}, "train": {"epochs": 1}}
    config = resolve({**given, "backbone": {"name": NAME, "pretrained": True}})
    record = train(config, tmp_path / "run")
    manifest = export(record.path, tmp_path / "model.onnx")
    np.testing.assert_allclose(manifest.input.mean, 255 * MEANS)
    new = picture(99, 48, 32)  # of other proportions: 32×32 in the middle stay
    whole = np.asarray(Image.fromarray(new).resize((16, 16), Image.Resampling.BILINEAR, (0, 8, 32, 40)))
    prepared = (whole / 255 - MEANS) / DEVIATIONS
    method, _ = restore(record)
    network = method.pruned(record.read_evaluation().best_exits).eval()
    with torch.no_grad():
        outputs = network(torch.from_numpy(prepared.transpose(2, 0, 1)[None]).float()).softmax(-1)
    wanted = (outputs * network.weights[:, None]).sum(1)
    found = load(tmp_path / "model.onnx").predict([new])
    assert isinstance(found, ClassPrediction)
    np.testing.assert_allclose(found.probs, wanted, atol=1e-5)
