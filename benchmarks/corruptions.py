"""Time to compute the 95 corrupted sets of a small data set.

Run: python -m benchmarks.corruptions

624 gray 32×32 images, the size of PneumoniaMNIST's test split; smooth noise, since only its
size matters here. One thread: none of the packages used starts another. Target: 60 s in total.
"""

import time

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.ndimage import gaussian_filter

from sae.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt

NUM_IMAGES, SIDE = 624, 32


def smooth_images() -> NDArray[np.uint8]:
    """Return blurred noise over the whole range, (sample, 1, height, width)."""
    noise = np.random.default_rng(0).normal(size=(NUM_IMAGES, 1, SIDE, SIDE))
    smooth = gaussian_filter(noise, (0, 0, 3, 3))
    images: NDArray[np.uint8] = (127 + 127 * np.tanh(smooth / smooth.std())).astype(np.uint8)
    return images


def main() -> None:
    """Print the seconds of each corruption and of all."""
    images = smooth_images()
    table = Table("corruption", "seconds", title=f"5 severities of {NUM_IMAGES} gray {SIDE}×{SIDE} images")
    total = 0.0
    for name in CORRUPTIONS:
        start = time.perf_counter()
        for severity in SEVERITIES:
            corrupt(images, name, severity, seed=0)
        seconds = time.perf_counter() - start
        table.add_row(name, f"{seconds:.2f}")
        total += seconds
    table.add_section()
    table.add_row("all", f"{total:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
