"""Corruption of the images of a data set, independent of batches, and its cache on disk."""

import hashlib
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import DataError, did_you_mean
from sae.core.seeds import derive_seed
from sae.data.cache import cached, delete_entry, entry_folder, make_room, read_array, working_folder, write_rows
from sae.data.corruptions.benchmark import CORRUPTIONS, SEVERITIES, CorruptedSet, Corruption
from sae.data.corruptions.operations import ImageGenerators, luma, to_bytes, to_colours
from sae.data.dataset import Array, Indices, Pixels, Samples
from sae.data.locations import CACHE_LIMIT_VARIABLE, cache_limit

PIXELS_AT_ONCE = 1 << 17
"""Pixels corrupted at once: enough to hide the overhead of Python, few enough to fit the processor's cache."""
SHIFT_SEED = 0
"""Seed of every corrupted set, so that all methods and runs see the same pixels."""
VERSION = 2
"""Version of the kept sets; raise it whenever a corruption produces other pixels."""
CHUNK = 1024
"""Images corrupted at once, to bound memory."""
READER = "corrupted"
"""Prefix of the names of kept sets."""
ATTEMPTS = 3
"""How often a set is computed if other processes keep deleting it."""


def corrupt(images: Array, name: str, severity: int, seed: int, indices: Array | None = None) -> Pixels:
    """Corrupt images with one of the benchmark's corruptions.

    The random numbers of an image depend on the seed, the corruption, the severity and the
    image's index, so any subset in any order gets the same pixels. Gray images are converted to
    colour, corrupted, and converted back by the standard luma.

    Args:
        images: uint8, (sample, channel, height, width), with 1 or 3 channels.
        name: One of `CORRUPTIONS`.
        severity: From 1, the mildest, to 5.
        seed: Seed of all random numbers.
        indices: Index of each image in the data set, (sample,); 0, 1, … by default.

    Returns:
        uint8, shaped like `images`.

    Example:
        >>> images = np.full((2, 1, 8, 8), 100, np.uint8)
        >>> corrupted = corrupt(images, "contrast", 5, seed=0)
        >>> corrupted.shape
        (2, 1, 8, 8)
    """
    corruption = _known(name)
    _check(images, severity)
    numbers = _numbers(indices, len(images))
    stream = derive_seed(seed, "corruption", name, severity)
    corrupted = np.empty(images.shape, np.uint8)
    group = max(PIXELS_AT_ONCE // max(images.shape[2] * images.shape[3], 1), 1)
    for start in range(0, len(images), group):
        part = slice(start, start + group)
        colours = corruption.apply(
            to_colours(images[part].astype(np.uint8, copy=False)), severity, ImageGenerators(stream, numbers[part])
        )
        corrupted[part] = to_bytes(colours if images.shape[1] == 3 else luma(colours.clip(0, 1)))
    return corrupted


class CorruptedImages:
    """The corrupted versions of some images, computed on first use and kept in the cache.

    Args:
        images: uint8, (sample, channel, height, width), before normalisation.
        digest: Hash of the images, if it is known.
    """

    def __init__(self, images: Samples, digest: str | None = None) -> None:
        if len(images.shape) != 4 or images.dtype != np.uint8:
            raise DataError(
                f"only uint8 images can be corrupted, got {images.dtype} samples of shape {images.shape[1:]}"
            )
        self.images = images
        self.digest = digest or _digest(images)
        self.reader = f"{READER}-{self.digest[:16]}"

    def get(self, name: str, severity: int) -> Pixels:
        """Return one corrupted set, shaped like the images and mapped from disk, where processes share it."""
        for _ in range(ATTEMPTS):
            with suppress(FileNotFoundError):  # another process has just deleted it to make room
                return read_array(self.keep(name, severity), "images").astype(np.uint8, copy=False)
        raise DataError(f"corrupted images do not stay in the cache: raise {CACHE_LIMIT_VARIABLE}")

    def keep(self, name: str, severity: int) -> Path:
        """Return the folder of a corrupted set in the cache, and write it if it is not there."""

        def write(folder: Path) -> None:
            starts = range(0, len(self.images), CHUNK)
            rows = (
                corrupt(self.images[start : start + CHUNK], name, severity, SHIFT_SEED, self._indices(start))
                for start in starts
            )
            write_rows(folder / "images.npy", self.images.shape, np.uint8, rows)

        folder = cached(self.reader, VERSION, self._source(name, severity), write)
        folder.touch()  # used just now
        return folder

    def each(self, sets: Sequence[CorruptedSet], processes: int = 1) -> Iterator[Pixels]:
        """Yield corrupted sets in order, one at a time; those that are not kept yet are computed ahead.

        A new set stays in the cache if there is room. To make room, sets of other images are deleted, least recently
        used first.

        Args:
            sets: Corruptions with their severities.
            processes: How many processes may compute; the pixels do not depend on it.
        """
        missing = [item for item in sets if not entry_folder(self.reader, VERSION, self._source(*item)).is_dir()]
        limit = cache_limit()
        with self._computed_ahead(missing, processes) as wait_for:
            for item in sets:
                if item in missing:
                    wait_for(item)
                yield self.get(*item)
                if item in missing and not make_room(READER, self.reader, limit):
                    delete_entry(entry_folder(self.reader, VERSION, self._source(*item)))

    @contextmanager
    def _computed_ahead(
        self, missing: Sequence[CorruptedSet], processes: int
    ) -> Iterator[Callable[[CorruptedSet], None]]:
        """Compute sets in processes that share a copy of the images on disk; give a function that waits for a set."""
        count = min(processes, len(missing))
        if count <= 1:
            yield lambda _: None
            return
        with (
            working_folder("images") as folder,
            ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as pool,
        ):
            path = folder / "images.npy"
            starts = range(0, len(self.images), CHUNK)
            write_rows(path, self.images.shape, np.uint8, (self.images[start : start + CHUNK] for start in starts))
            waiting = list(missing)
            futures: dict[CorruptedSet, Future[None]] = {}

            def wait_for(item: CorruptedSet) -> None:
                while waiting and len(futures) < 2 * count:  # no further ahead, to limit the space on disk
                    ahead = waiting.pop(0)
                    futures[ahead] = pool.submit(_keep_set, path, self.digest, *ahead)
                try:
                    futures.pop(item).result()
                except BrokenProcessPool:
                    raise DataError("a process that corrupts images has ended: try again with --processes 1") from None

            try:
                yield wait_for
            finally:
                pool.shutdown(cancel_futures=True)

    def _source(self, name: str, severity: int) -> list[object]:
        return [self.digest, name, severity, SHIFT_SEED]

    def _indices(self, start: int) -> Indices:
        return np.arange(start, min(start + CHUNK, len(self.images)))


def _keep_set(path: Path, digest: str, name: str, severity: int) -> None:
    """Compute and keep a corrupted set of the images in a file; runs in a worker process."""
    images: Pixels = np.load(path, mmap_mode="r")
    CorruptedImages(images, digest).keep(name, severity)


def _digest(images: Samples) -> str:
    """Return a hash of all pixels and their shape."""
    digest = hashlib.sha256(str(images.shape).encode())
    for start in range(0, len(images), CHUNK):
        digest.update(images[start : start + CHUNK].tobytes())
    return digest.hexdigest()


def _known(name: str) -> Corruption:
    if name not in CORRUPTIONS:
        hint = did_you_mean(name, CORRUPTIONS)
        raise DataError(f"corruption must be one of {', '.join(CORRUPTIONS)}; got {name!r}{hint}")
    return CORRUPTIONS[name]


def _check(images: Array, severity: int) -> None:
    if severity not in SEVERITIES:
        raise DataError(f"severity must be one of {', '.join(map(str, SEVERITIES))}; got {severity!r}")
    if images.dtype != np.uint8:
        raise DataError(f"images to corrupt must be uint8, before normalisation; got {images.dtype}")
    if images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape[2:]:
        raise DataError(
            f"images to corrupt must have shape (sample, channel, height, width) with 1 or 3 channels "
            f"and at least one pixel, got {images.shape}"
        )


def _numbers(indices: Array | None, num_samples: int) -> NDArray[np.uint64]:
    if indices is None:
        return np.arange(num_samples, dtype=np.uint64)
    if indices.shape != (num_samples,) or not np.issubdtype(indices.dtype, np.integer):
        raise DataError(
            f"indices must be {num_samples} integers, one per image, got {indices.dtype} of shape {indices.shape}"
        )
    if num_samples and indices.min() < 0:
        raise DataError(f"indices must be 0 or more, got {indices.min()}")
    return indices.astype(np.uint64)
