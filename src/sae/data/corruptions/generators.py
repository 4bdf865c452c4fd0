"""Random numbers for a batch in which every image has its own generator."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class ImageGenerators:
    """One generator per image, so that an image's pixels do not depend on its neighbours in the batch.

    Philox is counter-based: a stream is a key (here the seed and the image's index) and a
    counter. Moving one generator from stream to stream costs 1 µs, making a generator for
    each image 12 µs (20 µs from a `SeedSequence`). Each draw starts the counter at another
    place, so that an image's draws are independent of each other.

    Args:
        seed: For the corruption and its severity, in [0, 2^64).
        indices: Which image of the data set each sample is, (sample,).
    """

    def __init__(self, seed: int, indices: NDArray[np.uint64]) -> None:
        self._indices = indices
        self._philox = np.random.Philox(key=seed)
        self._generator = np.random.Generator(self._philox)
        self._start = self._philox.state
        self._num_draws = 0

    def normal(self, *shape: int) -> Floats:
        """Standard normal numbers, (sample, *shape)."""
        numbers = np.empty((len(self._indices), *shape), np.float32)
        self._draw(lambda generator, i: generator.standard_normal(out=numbers[i, ...], dtype=np.float32))
        return numbers

    def uniform(self, *shape: int) -> Floats:
        """Numbers in [0, 1), (sample, *shape)."""
        numbers = np.empty((len(self._indices), *shape), np.float32)
        self._draw(lambda generator, i: generator.random(out=numbers[i, ...], dtype=np.float32))
        return numbers

    def integers(self, low: int, high: int, *shape: int) -> NDArray[np.int64]:
        """Whole numbers in [low, high], both ends included, (sample, *shape)."""
        numbers = np.empty((len(self._indices), *shape), np.int64)

        def fill(generator: np.random.Generator, i: int) -> None:
            numbers[i] = generator.integers(low, high, shape, endpoint=True)

        self._draw(fill)
        return numbers

    def poisson(self, rates: Floats) -> Floats:
        """Poisson counts of these rates, (sample, ...)."""
        counts = np.empty_like(rates)

        def fill(generator: np.random.Generator, i: int) -> None:
            counts[i] = generator.poisson(rates[i])

        self._draw(fill)
        return counts

    def _draw(self, fill: Callable[[np.random.Generator, int], object]) -> None:
        """Call `fill` for each sample, with the generator at the start of a fresh stream of that image."""
        stream = self._start["state"]
        stream["counter"][3] = self._num_draws
        for i, index in enumerate(self._indices):
            stream["key"][1] = index
            self._philox.state = self._start
            fill(self._generator, i)
        self._num_draws += 1
