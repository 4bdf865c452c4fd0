"""How often 95 % intervals over seeds and samples hold the truth, by simulation.

    python -m benchmarks.coverage            # the whole grid: half an hour of one core; stored
    python -m benchmarks.coverage --write    # the stored grid into docs/benchmarks.md

Two networks differ by nothing on average. Their difference in a measured loss has a variance of 1, of which a share
comes from the seeds of both sides. The rest comes from the samples: half from differences that all runs of a network
share, with the skew of an exponential distribution, half from noise of each run and sample.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.docs_tables import write_tables
from sae.analysis.bootstrap import RESAMPLES, resample_counts
from sae.analysis.intervals import Side, combine

STORED = Path(__file__).with_suffix(".json")
SEEDS = (2, 3, 4, 6, 10)
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
SAMPLES = (300, 3_000, 10_000)
DRAWS = 5_000
AT_ONCE = 250
"""Simulated studies whose runs are resampled in one matrix product."""
Values = NDArray[np.float64]


def simulated(seeds: int, share: float, samples: int, draws: int, seed: int = 0) -> Iterator[tuple[Side, Side]]:
    """Yield simulated comparisons of two networks that are equally good.

    Args:
        seeds: Number of seeds of each.
        share: Share of the variance of their difference that comes from seeds.
        samples: Number of test samples.
        draws: Number of comparisons.
        seed: Seed of the simulation.
    """
    rng = np.random.default_rng((seed, seeds, round(100 * share), samples))
    frequencies = np.concatenate(list(resample_counts(samples, RESAMPLES, seed=0))) / samples
    of_seed = np.sqrt(share * seeds / 2)
    common, own = np.sqrt((1 - share) / 2 * samples), np.sqrt((1 - share) / 4 * samples * seeds)
    for start in range(0, draws, AT_ONCE):
        count = min(AT_ONCE, draws - start)
        losses = own * rng.standard_normal((samples, count, 2, seeds))
        losses += of_seed * rng.standard_normal((count, 2, seeds))
        losses[:, :, 0] += common * (rng.standard_exponential((samples, count, 1)) - 1)
        points = losses.mean(axis=0)
        resampled = (frequencies @ losses.reshape(samples, -1)).reshape(RESAMPLES, count, 2, seeds)
        for draw in range(count):
            one, other = (Side(points[draw, place], resampled[:, draw, place]) for place in (0, 1))
            yield one, other


def coverage(seeds: int, share: float, samples: int, draws: int = DRAWS) -> float:
    """Return the share of intervals that hold the true difference, 0."""
    held = 0
    for one, other in simulated(seeds, share, samples, draws):
        low, high = combine([one, other], [1, -1]).interval
        held += low <= 0 <= high
    return held / draws


def table() -> str:
    """Return the stored grid as a table."""
    stored = {
        (cell["seeds"], cell["samples"], cell["share"]): cell["coverage"] for cell in json.loads(STORED.read_text())
    }
    head = ["seeds", "samples", *(f"{share:.0%} of the variance from seeds" for share in SHARES)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for seeds in SEEDS:
        for samples in SAMPLES:
            cells = [f"{stored[seeds, samples, share]:.3f}" for share in SHARES]
            lines.append(f"| {seeds} | {samples:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Simulate the grid, or print what is stored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="only put the stored grid into the docs")
    if not parser.parse_args().write:
        cells = []
        for samples in SAMPLES:
            for seeds in SEEDS:
                for share in SHARES:
                    found = coverage(seeds, share, samples)
                    cells.append({"seeds": seeds, "samples": samples, "share": share, "coverage": found})
                    print(f"{seeds} seeds, {samples:,} samples, {share:.0%} from seeds: {found:.4f}", flush=True)
        STORED.write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
    write_tables("benchmarks.md", {"coverage": table()})


if __name__ == "__main__":
    main()
