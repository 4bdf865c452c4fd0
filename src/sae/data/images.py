"""Decoding of image files: upright, in one size, in gray or RGB, and the same in training and prediction."""

import io
import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, UnidentifiedImageError

from sae.config.run import LARGEST_SIDE, Fit
from sae.core.errors import DataError, DataWarning
from sae.data.archive import FileTree
from sae.data.dataset import Array, Depth, Floats

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
GRAY_MODES = ("1", "L", "LA")
EIGHT_BIT_MODES = (*GRAY_MODES, "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB")
SIXTEEN_BIT_MODES = ("I;16", "I;16L", "I;16B", "I;16N")
ANY_SCALE_MODES = ("I", "F")
IMAGE_DAMAGES = (
    *(OSError, ValueError, SyntaxError, TypeError, KeyError, IndexError, EOFError, OverflowError, RuntimeError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)
"""Exceptions of Pillow's many decoders for a damaged file."""
LARGEST_RESIZED = 16384
"""Largest width and height of an image that is resized, in pixels."""
LARGEST_WHOLE = 2**24
"""float32 holds every whole number up to this one."""
ORIENTATION = 0x0112
"""The EXIF tag of an image's orientation."""
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""The operation that turns an image of each orientation upright."""
SIDEWAYS = (5, 6, 7, 8)
FILTER = Image.Resampling.BILINEAR
"""A filter that averages all pixels that become one, and stays in the range of the pixels."""


@dataclass(frozen=True)
class ImageKind:
    """Size, number of channels and depth, which all images of a data set share.

    Attributes:
        height: Pixels from top to bottom.
        width: Pixels from left to right.
        channels: 1 or 3.
        depth: Bits of a channel in the files.
        fit: How images of other sizes are resized; None if they are refused.
    """

    height: int
    width: int
    channels: int
    depth: Depth = 8
    fit: Fit | None = None

    @property
    def side(self) -> int:
        """The shorter side in pixels."""
        return min(self.height, self.width)

    @property
    def dtype(self) -> np.dtype[np.uint8] | np.dtype[np.float32]:
        """Type of the decoded images."""
        return np.dtype(np.uint8) if self.depth == 8 else np.dtype(np.float32)


def is_image(name: str) -> bool:
    """Return whether a file name is that of an image."""
    return name.lower().endswith(IMAGE_SUFFIXES)


def survey(
    tree: FileTree, names: Sequence[str], resize: tuple[int, int] | None = None, fit: Fit = "stretch"
) -> ImageKind:
    """Return the kind of all images from their headers: gray if all are gray, of one depth and one size.

    Args:
        tree: The files.
        names: The images.
        resize: Height and width that they are resized to; by default they must have one size.
        fit: How they are resized.
    """
    kind = first_look(tree, names)
    first = _Header(tree.path / names[0], (kind.height, kind.width), kind.depth)
    gray, shortened = True, 0
    for name in names:
        with _open(tree, name, is_resized=resize is not None) as image:
            header = _Header(tree.path / name, _upright_size(image), _depth(image))
            gray = gray and _is_gray(image)
            shortened += _is_shortened(image)
        _check_same(first, header, is_resized=resize is not None)
    if shortened:
        warnings.warn(
            f"{shortened} of {len(names)} images of {tree.path} are in colour with 16 bits per channel: "
            f"only the upper 8 are read",
            DataWarning,
            stacklevel=2,
        )
    height, width = resize or first.size
    return ImageKind(height, width, 1 if gray else 3, first.depth, fit if resize else None)


def first_look(tree: FileTree, names: Sequence[str]) -> ImageKind:
    """Return the kind of the first image, of any size."""
    if not names:
        raise DataError(f"{tree.path} must hold images ({', '.join(IMAGE_SUFFIXES)}), got none")
    with _open(tree, names[0], is_resized=True) as image:
        height, width = _upright_size(image)
        return ImageKind(height, width, 1 if _is_gray(image) else 3, _depth(image))


@dataclass(frozen=True)
class _Header:
    path: Path
    size: tuple[int, int]
    depth: Depth


def _check_same(first: _Header, other: _Header, *, is_resized: bool) -> None:
    if other.depth != first.depth:
        raise DataError(
            f"all images must have the same bits per channel, but {other.path} has {other.depth} and "
            f"{first.path} has {first.depth}: convert them first, because their scales differ"
        )
    if other.size != first.size and not is_resized:
        raise DataError(
            f"all images must have one size, but {other.path} is {_size(other.size)} and {first.path} is "
            f"{_size(first.size)}: resize them when they are read, for example with --resize 64"
        )


def decode_images(tree: FileTree, names: Sequence[str], kind: ImageKind) -> Iterator[Array]:
    """Yield each image as (channel, height, width) in the type of its kind, upright and resized."""
    for name in names:
        where = tree.path / name
        with _open(tree, name, is_resized=kind.fit is not None) as image:
            depth = _depth(image)
            if depth != kind.depth:
                raise DataError(
                    f"images must have {kind.depth} bits per channel like those of training, got {depth} in {where}"
                )
            try:
                pixels = _pixels(_upright(image), kind, where)
            except IMAGE_DAMAGES as error:
                raise DataError(f"{where} is damaged and cannot be decoded: {error}") from None
        if kind.fit is not None:
            pixels = resized(pixels, kind.height, kind.width, kind.fit)
        if pixels.shape[1:] != (kind.height, kind.width):
            found = _size((pixels.shape[1], pixels.shape[2]))
            raise DataError(f"all images must be {_size((kind.height, kind.width))}, but {where} is {found}")
        yield pixels


def as_floats(values: Array, where: object) -> Floats:
    """Return pixels on any scale as float32; refuse pixels that are not finite, or too large for float32."""
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        raise DataError(
            f"pixels must be finite, got {values[tuple(wrong[0])]} at {wrong[0].tolist()} in {where}: "
            f"remove or impute such values"
        )
    largest = max(abs(int(values.min())), abs(int(values.max()))) if values.dtype.kind in "iu" and values.size else 0
    if largest > LARGEST_WHOLE:
        raise DataError(f"whole numbers as pixels must be at most {LARGEST_WHOLE:,}, got {largest:,} in {where}")
    with np.errstate(over="ignore"):
        floats = values.astype(np.float32)
    if not np.isfinite(floats).all():
        raise DataError(f"pixels must be at most {np.finfo(np.float32).max:.2g}, got larger ones in {where}")
    return floats


def channel_axis(shape: tuple[int, ...], where: str) -> Literal[1, 3] | None:
    """Return which dimension of an array of images holds the channels, or None if it has no channels.

    Args:
        shape: (sample, height, width), (sample, height, width, channel) or (sample, channel, height, width).
        where: The name of the array.
    """
    if len(shape) == 3:
        return None
    is_last, is_first = (len(shape) == 4 and shape[axis] in (1, 3) for axis in (3, 1))
    if is_last and is_first:
        raise DataError(
            f"{where} must have 1 or 3 channels either in its second or in its last dimension, got shape {shape}, "
            f"where both are possible: give larger images, or gray ones as (sample, height, width)"
        )
    if not is_last and not is_first:
        hint = ": leave out the fourth channel, alpha, with x[..., :3]" if shape[-1:] == (4,) else ""
        raise DataError(
            f"images must be (sample, height, width), (sample, height, width, channel) or (sample, channel, height, "
            f"width) with 1 or 3 channels, got {shape} in {where}{hint}"
        )
    return 3 if is_last else 1


def _open(tree: FileTree, name: str, *, is_resized: bool) -> Image.Image:
    data, where = tree.read(name), tree.path / name
    try:
        image = Image.open(io.BytesIO(data))
    except (UnidentifiedImageError, *IMAGE_DAMAGES) as error:
        reason = "unknown format" if isinstance(error, UnidentifiedImageError) else str(error)
        raise DataError(f"{where} must be an image: {reason}") from None
    if image.mode not in (*EIGHT_BIT_MODES, *SIXTEEN_BIT_MODES, *ANY_SCALE_MODES):
        raise DataError(f"images must be gray or in colour, got mode {image.mode} in {where}")
    largest = LARGEST_RESIZED if is_resized else LARGEST_SIDE
    if max(image.size) > largest:
        hint = "" if is_resized else ": add --resize"
        raise DataError(
            f"images must be at most {largest} pixels wide and high, got {image.width}×{image.height} in {where}{hint}"
        )
    return image


def _is_gray(image: Image.Image) -> bool:
    return image.mode in (*GRAY_MODES, *SIXTEEN_BIT_MODES, *ANY_SCALE_MODES)


def _depth(image: Image.Image) -> Depth:
    if image.mode in EIGHT_BIT_MODES:
        return 8
    is_old = image.mode == "I" and image.format == "PNG"  # older versions of Pillow use this mode for 16 bits
    return 16 if image.mode in SIXTEEN_BIT_MODES or is_old else 32


def _is_shortened(image: Image.Image) -> bool:
    """Return whether Pillow reads only 8 of the 16 bits of each channel, as it does in colour."""
    return _depth(image) == 8 and any(";16" in str(tile[3]) for tile in getattr(image, "tile", ()))


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation of an image that Pillow has not turned yet, 1 if it has none."""
    if image.format == "TIFF":  # Pillow turns these itself
        return 1
    if image.format == "PNG" and "exif" not in image.info:  # getexif would decode the whole image
        return 1
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except IMAGE_DAMAGES:  # the pixels may be fine even if EXIF is damaged
        return 1


def _upright(image: Image.Image) -> Image.Image:
    turn = TURNS.get(_orientation(image))
    return image if turn is None else image.transpose(turn)


def _upright_size(image: Image.Image) -> tuple[int, int]:
    """Return height and width."""
    is_sideways = _orientation(image) in SIDEWAYS
    return (image.width, image.height) if is_sideways else (image.height, image.width)


def _pixels(image: Image.Image, kind: ImageKind, where: Path) -> Array:
    """Return the pixels, (channel, height, width)."""
    if kind.depth == 8:
        pixels = np.asarray(image.convert("L" if kind.channels == 1 else "RGB"))
        return pixels.reshape(*pixels.shape[:2], -1).transpose(2, 0, 1)
    values = as_floats(np.asarray(image), where)
    return np.broadcast_to(values, (kind.channels, *values.shape))


def _size(size: tuple[int, int]) -> str:
    """Format height and width as width×height, as image viewers do."""
    return f"{size[1]}×{size[0]}"


def resized(image: Array, height: int, width: int, fit: Fit) -> Array:
    """Return an image in this size; one that already has it is returned unchanged.

    Args:
        image: (channel, height, width) in uint8 or float32.
        height: Pixels from top to bottom.
        width: Pixels from left to right.
        fit: `stretch` uses the whole image, and changes its proportions. `pad` uses the whole image in its
            proportions, with black (0) around it. `crop` fills the size in the proportions of the image, and cuts off
            the rest on both sides.

    Example:
        >>> image = np.full((1, 4, 8), 100, np.uint8)
        >>> resized(image, 4, 4, "pad")[0, :, 0].tolist()
        [0, 100, 100, 0]
    """
    if image.shape[1:] == (height, width):
        return image
    if fit == "stretch":
        return _scaled(image, height, width)
    tall, wide = image.shape[1] / height, image.shape[2] / width
    if fit == "crop":
        scale = min(tall, wide)
        return _scaled(image, height, width, scale * height, scale * width)
    scale = max(tall, wide)
    inner_height = min(height, max(1, round(image.shape[1] / scale)))
    inner_width = min(width, max(1, round(image.shape[2] / scale)))
    top, left = (height - inner_height) // 2, (width - inner_width) // 2
    padded = np.zeros((len(image), height, width), image.dtype)
    padded[:, top : top + inner_height, left : left + inner_width] = _scaled(image, inner_height, inner_width)
    return padded


def _scaled(image: Array, height: int, width: int, used_height: float = 0.0, used_width: float = 0.0) -> Array:
    """Scale the middle of an image, by default all of it."""
    top = (image.shape[1] - used_height) / 2 if used_height else 0.0
    left = (image.shape[2] - used_width) / 2 if used_width else 0.0
    box = (left, top, image.shape[2] - left, image.shape[1] - top)
    channels = [
        Image.fromarray(np.ascontiguousarray(channel)).resize((width, height), FILTER, box) for channel in image
    ]
    return np.stack([np.asarray(channel) for channel in channels])
