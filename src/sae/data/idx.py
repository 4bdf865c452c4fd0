"""Images and labels in idx files, the format of MNIST, packed by gzip or not."""

import gzip
import hashlib
import io
import math
import zlib
from pathlib import Path

import numpy as np

from sae.config.run import DataConfig
from sae.core.errors import DataError
from sae.core.reading import read_file
from sae.core.task import Classification, DataSpec
from sae.data.cache import cached, file_identity
from sae.data.dataset import Dataset, Normalisation, Pixels, some_rows
from sae.data.images import ImageKind
from sae.data.kept_images import keep_kind, keep_split, kept_kind, kept_splits
from sae.data.locations import PublishedFile, find_published
from sae.data.npz_images import frame_of
from sae.data.published import MNIST
from sae.data.splits import choose_rows

VERSION = 1
"""Version of the decoded files in the cache."""
UINT8 = 0x08
"""Code of the type of unsigned bytes in the header of a file."""
LARGEST_UNPACKED = 1 << 28
"""Largest unpacked size in bytes; the largest published file takes 47 million."""
GZIP_MAGIC = b"\x1f\x8b"


def read_mnist(config: DataConfig, _seed: int) -> Dataset:
    """Read a set in the format of MNIST, with a black frame to 32²; validation is drawn from the training images."""
    facts = MNIST[config.name]
    paths = [find_published(file, config.name) for file in facts.files]
    source = [*map(file_identity, paths), *facts.sha256]
    folder = cached("idx", VERSION, source, lambda folder: _decode(paths, facts.files, folder))
    kept = kept_splits(folder)
    labels = {name: np.array(split.labels, np.int64) for name, split in kept.items()}
    val = choose_rows(labels["train"], facts.num_val, config.split_seed)
    training = np.setdiff1d(np.arange(len(labels["train"])), val)
    images = kept["train"].images
    return Dataset(
        config.name,
        DataSpec(images.shape[1:], Classification(len(facts.class_names))),
        Normalisation((255 * facts.mean,), (255 * facts.std,)),
        some_rows(images, labels["train"], training),
        some_rows(images, labels["train"], val),
        some_rows(kept["test"].images, labels["test"], None),
        facts.class_names,
        frame=(images.shape[2] - kept_kind(folder).height) // 2,
    )


def read_idx(path: Path) -> Pixels:
    """Read the array of unsigned bytes in an idx file, packed by gzip or not.

    The header of a file is two zero bytes, the code of its type, the number of dimensions, and the size of
    each dimension as four big-endian bytes.
    """
    return parse_idx(unpacked(path), path)


def parse_idx(content: bytes, path: Path) -> Pixels:
    """Read the array in the content of an idx file.

    Args:
        content: All bytes of the unpacked file.
        path: The file, for messages.
    """
    if len(content) < 4 or content[:3] != bytes((0, 0, UINT8)):
        raise DataError(f"{path} must be an idx file of unsigned bytes, but begins with {content[:4].hex(' ')!r}")
    start = 4 + 4 * content[3]
    shape = tuple(np.frombuffer(content[4:start], ">u4").tolist())
    if len(shape) != content[3] or len(content) - start != math.prod(shape):
        raise DataError(
            f"{path} must hold as many values as its head says, {'×'.join(map(str, shape))}, got {len(content) - start}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def unpacked(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is packed by gzip."""
    content = read_file(str(path))
    if not content.startswith(GZIP_MAGIC):
        return content
    try:
        with gzip.open(io.BytesIO(content)) as file:
            found = file.read(LARGEST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked ({error}): fetch it again") from None
    if len(found) > LARGEST_UNPACKED:
        raise DataError(f"{path} must unpack to at most {LARGEST_UNPACKED:,} bytes: fetch it again")
    return found


def _decode(paths: list[Path], files: tuple[PublishedFile, ...], folder: Path) -> None:
    arrays = []
    for path, file in zip(paths, files, strict=True):
        content = unpacked(path)
        found = hashlib.sha256(content).hexdigest()
        if found != file.sha256:
            raise DataError(
                f"{path} must unpack to the published content (SHA-256 {file.sha256}), got SHA-256 {found}: "
                f"remove it, and fetch it again"
            )
        arrays.append(parse_idx(content, path))
    for part, images, labels in (("train", arrays[0], arrays[1]), ("test", arrays[2], arrays[3])):
        _, height, width = images.shape
        kind = ImageKind(height, width, channels=1)
        keep_split(folder, part, (image[None] for image in images), labels, kind, frame_of(height, width))
    keep_kind(folder, kind)
