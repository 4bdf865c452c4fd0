"""Samplers of the search compared: hypervolume after the same number of trials, and time per suggestion.

Run: python -m benchmarks.samplers [--seeds 5] [--samplers gp,tpe,scalarized,scalarized-20,nsga2,random]

Each search has 40 trials, the first 10 of them random, and three objectives. There are four problems:

sphere: mixed DTLZ2. The front is an eighth of a sphere; seven parameters: the place on it (a float
    and an int), and the distance from it (floats, two of them logarithmic, and a choice of three).
plane: the same parameters with a flat front and a distance that grows exponentially.
minima: the same parameters; each loss is the squared distance to a different configuration.
digits: a surrogate of real runs, see benchmarks/surrogate; the paper's nine parameters.

Hypervolume is the share of the box between the ideal and the reference point of the problem that
the trials dominate; mean ± std over seeds. scalarized-20 fits its models to 20 trials at most, which
shows what a cap costs; the search's own is 300. Seconds are the time of a suggestion after the random
ones, on one thread. The last table shows the time of one suggestion by number of objectives.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
import torch
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, RandomSampler, TPESampler

from benchmarks.surrogate.digits import SPACE as DIGITS_SPACE
from benchmarks.surrogate.digits import DigitsSurrogate
from sae.analysis.pareto import hypervolume as dominated_volume
from sae.search.samplers.scalarized import ScalarizedSampler
from sae.search.samplers.unit_cube import UnitCube

Floats = NDArray[np.float64]
Params = Mapping[str, Any]

STARTUP, TRIALS = 10, 40

SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    "gp": lambda seed: GPSampler(seed=seed, n_startup_trials=STARTUP),
    "tpe": lambda seed: TPESampler(seed=seed, n_startup_trials=STARTUP),
    "scalarized": lambda seed: ScalarizedSampler(seed, num_startup=STARTUP),
    "scalarized-20": lambda seed: ScalarizedSampler(seed, num_startup=STARTUP, most=20),
    "nsga2": lambda seed: NSGAIISampler(seed=seed, population_size=STARTUP),
    "random": lambda seed: RandomSampler(seed=seed),
}


@dataclass(frozen=True)
class Problem:
    """A space, its losses, and the box in which hypervolume is measured."""

    space: dict[str, BaseDistribution]
    losses: Callable[[Params], list[float]]
    ideal: Floats
    reference: Floats


MIXED_SPACE: dict[str, BaseDistribution] = {
    "where": FloatDistribution(0, 1),
    "level": IntDistribution(0, 8),
    "more": FloatDistribution(0, 1),
    "near": FloatDistribution(0, 1),
    "rate": FloatDistribution(1e-4, 1, log=True),
    "decay": FloatDistribution(1e-3, 1, log=True),
    "kind": CategoricalDistribution(["first", "second", "third"]),
}


def sphere(params: Params, num_objectives: int = 3) -> list[float]:
    """Return the losses of mixed DTLZ2: non-negative, and the squares of a front point's losses sum to 1."""
    angles = np.array([params["where"], params["level"] / 8, params["more"]])[: num_objectives - 1] * np.pi / 2
    losses = (1 + _distance(params)) * np.ones(num_objectives)
    for index in range(num_objectives):
        used = num_objectives - 1 - index
        losses[index] *= np.cos(angles[:used]).prod() * (np.sin(angles[used]) if index else 1)
    return [float(loss) for loss in losses]


def plane(params: Params, num_objectives: int = 3) -> list[float]:
    """Return losses that sum to 1 on the front and grow exponentially away from it."""
    squares = np.square(sphere(params, num_objectives))
    return [float(loss) for loss in squares / squares.sum() * np.exp(3 * _distance(params))]


MIXED_CUBE = UnitCube(MIXED_SPACE)
CENTRES = MIXED_CUBE.encode(
    [
        {"where": 0.2, "level": 2, "more": 0.5, "near": 0.8, "rate": 1e-3, "decay": 0.5, "kind": "first"},
        {"where": 0.7, "level": 2, "more": 0.9, "near": 0.3, "rate": 1e-3, "decay": 0.1, "kind": "second"},
        {"where": 0.2, "level": 6, "more": 0.5, "near": 0.3, "rate": 1e-1, "decay": 0.1, "kind": "first"},
    ]
)
"""The points at which the losses of `minima` are 0, (objective, parameter)."""


def minima(params: Params) -> list[float]:
    """Return squared distances to three configurations in the unit cube, where two kinds have distance 1."""
    at = MIXED_CUBE.columns(MIXED_CUBE.encode([params]))
    distances: list[float] = np.square(MIXED_CUBE.columns(CENTRES) - at).sum(axis=1).tolist()
    return distances


def _distance(params: Params) -> float:
    """Return the distance of a configuration from the front, 0 on it."""
    kind = {"first": 0.0, "second": 0.1, "third": 0.3}[params["kind"]]
    rate, decay = np.log10(params["rate"]) / -4, np.log10(params["decay"]) / -3
    return float((params["near"] - 0.5) ** 2 + (rate - 0.5) ** 2 + (decay - 0.3) ** 2 + kind)


def problems() -> dict[str, Problem]:
    """Return all problems by name."""
    surrogate = DigitsSurrogate()
    for name, score in surrogate.scores().items():
        print(f"surrogate of digits, {len(surrogate.inputs)} runs: cross-validated R² of {name} is {score:.2f}")
    return {
        "sphere": Problem(MIXED_SPACE, sphere, np.zeros(3), np.full(3, 1.5)),
        "plane": Problem(MIXED_SPACE, plane, np.zeros(3), np.full(3, 1.5)),
        "minima": Problem(MIXED_SPACE, minima, np.zeros(3), np.full(3, 1.5)),
        "digits": Problem(DIGITS_SPACE, surrogate, surrogate.ideal, surrogate.reference),
    }


def hypervolume(losses: Floats, ideal: Floats, reference: Floats) -> float:
    """Return the dominated share of the box from ideal to reference, in [0, 1]."""
    unit = np.clip((losses - ideal) / (reference - ideal), 0, 1)
    return dominated_volume(unit, np.ones(losses.shape[1]))


def search(problem: Problem, sampler: BaseSampler) -> tuple[float, float]:
    """Return the hypervolume after all trials, and the mean seconds of a suggestion after the random ones."""
    study = optuna.create_study(directions=["minimize"] * len(problem.ideal), sampler=sampler)
    seconds, losses = [], []
    for _ in range(TRIALS):
        start = time.perf_counter()
        trial = study.ask(problem.space)
        seconds.append(time.perf_counter() - start)
        losses.append(problem.losses(trial.params))
        study.tell(trial, losses[-1])
    return hypervolume(np.array(losses), problem.ideal, problem.reference), statistics.mean(seconds[STARTUP:])


def seconds_of_a_suggestion(sampler: BaseSampler, num_objectives: int, num_trials: int) -> float:
    """Return the time of one suggestion after random trials on the sphere."""
    study = optuna.create_study(directions=["minimize"] * num_objectives, sampler=RandomSampler(seed=0))
    for _ in range(num_trials):
        trial = study.ask(MIXED_SPACE)
        study.tell(trial, sphere(trial.params, num_objectives))
    study.sampler = sampler
    start = time.perf_counter()
    study.ask(MIXED_SPACE)
    return time.perf_counter() - start


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    """Print Markdown."""
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samplers", default=",".join(SAMPLERS), help="names, joined by commas")
    args = parser.parse_args()
    seeds, names = range(args.seeds), args.samplers.split(",")
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    cases = problems()
    rows = []
    for name in names:
        found = [[search(problem, SAMPLERS[name](seed)) for seed in seeds] for problem in cases.values()]
        volumes = [[volume for volume, _ in runs] for runs in found]
        seconds = [second for runs in found for _, second in runs]
        spread = [f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}" for values in volumes]
        rows.append([name, *spread, f"{statistics.mean(seconds):.3f}"])
        print(f"# {' '.join(rows[-1])}", flush=True)
    print_table(["sampler", *cases, "s per suggestion"], rows)
    sizes = [(3, 40), (4, 40), (4, 100)]
    rows = [
        [name, *(f"{seconds_of_a_suggestion(SAMPLERS[name](0), *size):.2f}" for size in sizes)]
        for name in names
        if name in ("gp", "scalarized")
    ]
    print_table(["s per suggestion", *(f"{m} objectives, {n} trials" for m, n in sizes)], rows)


if __name__ == "__main__":
    main()
