"""Decoding of single files, compared with the pixels that were saved."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from sae.config.run import Fit
from sae.core.errors import DataError, DataWarning
from sae.data.archive import Folder
from sae.data.dataset import Array
from sae.data.images import FILTER, TURNS, ImageKind, decode_images, resized, survey
from tests.data.samples import image_bytes, write_folder

COLOUR = Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 9, 3), np.uint8))
FITS: tuple[Fit, ...] = ("stretch", "pad", "crop")


def saved(image: Image.Image, suffix: str = "png", **settings: Any) -> bytes:
    buffer = BytesIO()
    image.save(buffer, suffix, **settings)
    return buffer.getvalue()


def decoded(tmp_path: Path, content: bytes, kind: ImageKind | None = None) -> Array:
    tree = Folder(write_folder(tmp_path / "a", {"image.png": content}))
    return next(decode_images(tree, tree.names, kind or survey(tree, tree.names)))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "CMYK", "L", "LA", "1"])
def test_every_mode_becomes_gray_or_rgb(tmp_path: Path, mode: str) -> None:
    image = COLOUR.convert(mode)
    content = saved(image, "tiff" if mode == "CMYK" else "png")
    is_gray = mode in ("L", "LA", "1")
    expected = np.asarray(image.convert("L" if is_gray else "RGB")).reshape(6, 9, -1).transpose(2, 0, 1)
    np.testing.assert_array_equal(decoded(tmp_path, content), expected)


def test_a_mix_of_modes_becomes_rgb(tmp_path: Path) -> None:
    modes = ("L", "RGB", "P", "RGBA", "LA", "1")
    tree = Folder(write_folder(tmp_path / "a", {f"{mode}.png": saved(COLOUR.convert(mode)) for mode in modes}))
    kind = survey(tree, tree.names)
    assert kind == ImageKind(6, 9, 3)
    images = dict(zip(tree.names, decode_images(tree, tree.names, kind), strict=True))
    assert {image.shape for image in images.values()} == {(3, 6, 9)}
    np.testing.assert_array_equal(images["L.png"][0], np.asarray(COLOUR.convert("L")))
    np.testing.assert_array_equal(images["RGBA.png"], images["RGB.png"])


def test_a_model_of_gray_images_takes_colour_as_luma(tmp_path: Path) -> None:
    image = decoded(tmp_path, saved(COLOUR), ImageKind(6, 9, 1))
    np.testing.assert_array_equal(image[0], np.asarray(COLOUR.convert("L")))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "tiff", "webp"])
def test_images_are_turned_upright(tmp_path: Path, orientation: int, suffix: str) -> None:
    turn = TURNS.get(orientation)
    opposite = {
        Image.Transpose.ROTATE_90: Image.Transpose.ROTATE_270,
        Image.Transpose.ROTATE_270: Image.Transpose.ROTATE_90,
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    lying = COLOUR if turn is None else COLOUR.transpose(opposite.get(turn, turn))
    settings = {"lossless": True} if suffix == "webp" else {}
    content = saved(lying, suffix, exif=exif.tobytes() if suffix != "tiff" else exif, **settings)
    np.testing.assert_array_equal(decoded(tmp_path, content), np.asarray(COLOUR).transpose(2, 0, 1))


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_sixteen_bits_are_kept(tmp_path: Path, suffix: str) -> None:
    values = np.random.default_rng(0).integers(0, 65536, (6, 9)).astype(np.uint16)
    image = decoded(tmp_path, saved(Image.fromarray(values), suffix))
    assert image.dtype == np.float32
    np.testing.assert_array_equal(image[0], values)


def test_floats_are_kept(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(-500, 900, (6, 9)).astype(np.float32)
    np.testing.assert_array_equal(decoded(tmp_path, saved(Image.fromarray(values), "tiff"))[0], values)


def test_a_deep_gray_image_fills_three_channels(tmp_path: Path) -> None:
    values = np.arange(54, dtype=np.uint16).reshape(6, 9) * 1000
    image = decoded(tmp_path, saved(Image.fromarray(values)), ImageKind(6, 9, 3, 16))
    np.testing.assert_array_equal(image, np.stack([values] * 3))


def test_an_image_of_another_depth_than_in_training_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must have 16 bits per channel like those of training, got 8 in .*image\.png"):
        decoded(tmp_path, saved(COLOUR), ImageKind(6, 9, 3, 16))


def test_colour_in_sixteen_bits_is_said_to_be_cut(tmp_path: Path) -> None:
    tree = Folder(write_folder(tmp_path / "a", {"deep.png": _deep_colour(), "flat.png": image_bytes(0, (4, 4))}))
    with pytest.warns(DataWarning, match=r"1 of 2 images of .* 16 bits per channel: only the upper 8 are read"):
        survey(tree, tree.names)


def _deep_colour() -> bytes:
    """A PNG of 4×4 black pixels in colour with 16 bits per channel, which Pillow can read but not write."""
    import struct
    import zlib

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + bytes(4 * 6) for _ in range(4))
    header = struct.pack(">IIBBBBB", 4, 4, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_damaged_exif_does_not_matter(tmp_path: Path) -> None:
    image = decoded(tmp_path, saved(COLOUR, "png", exif=b"Exif\0\0nonsense"))
    np.testing.assert_array_equal(image, np.asarray(COLOUR).transpose(2, 0, 1))


def noise(height: int, width: int, channels: int = 3) -> Array:
    return np.random.default_rng(0).integers(0, 256, (channels, height, width)).astype(np.uint8)


def as_pillow(image: Array) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))


def from_pillow(image: Image.Image) -> Array:
    return np.asarray(image).transpose(2, 0, 1)


@pytest.mark.parametrize("shape", [(30, 17), (5, 9), (64, 64)])
def test_stretch_is_the_resize_of_pillow(shape: tuple[int, int]) -> None:
    image = noise(*shape)
    expected = from_pillow(as_pillow(image).resize((24, 16), FILTER))
    np.testing.assert_array_equal(resized(image, 16, 24, "stretch"), expected)


@pytest.mark.parametrize("shape", [(30, 17), (9, 31), (64, 64)])
def test_crop_is_the_fit_of_pillow(shape: tuple[int, int]) -> None:
    image = noise(*shape)
    expected = from_pillow(ImageOps.fit(as_pillow(image), (24, 16), FILTER))
    np.testing.assert_array_equal(resized(image, 16, 24, "crop"), expected)


@pytest.mark.parametrize("shape", [(30, 17), (9, 31), (64, 64)])
def test_pad_keeps_proportions_on_black(shape: tuple[int, int]) -> None:
    image = np.full((3, *shape), 200, np.uint8)
    padded = resized(image, 16, 24, "pad")
    rows, columns = np.flatnonzero(padded[0].any(axis=1)), np.flatnonzero(padded[0].any(axis=0))
    assert set(np.unique(padded)) == {0, 200}
    assert len(rows) / len(columns) == pytest.approx(shape[0] / shape[1], rel=0.1)
    assert len(rows) == 16 or len(columns) == 24
    assert abs(rows[0] - (15 - rows[-1])) <= 1
    assert abs(columns[0] - (23 - columns[-1])) <= 1


@pytest.mark.parametrize("fit", FITS)
def test_an_image_of_the_size_is_unchanged(fit: Fit) -> None:
    image = noise(16, 24)
    np.testing.assert_array_equal(resized(image, 16, 24, fit), image)


@pytest.mark.parametrize("fit", FITS)
def test_the_thinnest_image_can_be_resized(fit: Fit) -> None:
    assert resized(noise(1, 500), 8, 8, fit).shape == (3, 8, 8)


@pytest.mark.parametrize("fit", FITS)
def test_floats_keep_their_range_and_precision(fit: Fit) -> None:
    image = np.random.default_rng(0).uniform(0, 65535, (1, 40, 21)).astype(np.float32)
    small = resized(image, 8, 8, fit)
    assert small.dtype == np.float32
    assert small.max() <= image.max()
    assert len(np.unique(small)) > 32  # nothing is rounded to bytes
