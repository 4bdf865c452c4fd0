"""Savings of early stopping: the same random search with and without it, by training time and hypervolume.

    python -m benchmarks.stop_early [--seeds 3] [--trials 40] [--epochs 30] [--out runs/stop-early]

Both searches of a seed draw the same configurations. Time is the sum of the trials' training times;
the number of workers and the driver do not count. The hypervolumes of a seed share one scale, the
range of all candidates of both searches.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sae.analysis.candidates import Candidate, candidates, candidates_of, losses_of
from sae.analysis.pareto import hypervolume, normalised
from sae.cli.output import print_message
from sae.records.study import StudyRecord
from sae.search.executors.local import LocalExecutor
from sae.search.run import Place, resolve_search, run_study

REFERENCE = 1.1


def search(out: Path, seed: int, trials: int, epochs: int, *, stop_early: bool) -> StudyRecord:
    """Run one random search of SAE on digits."""
    flags = {
        "data": {"name": "digits"},
        "train": {"epochs": epochs},
        "seed": seed,
        "search": {"trials": trials, "sampler": "random", "stop_early": stop_early},
    }
    return run_study(Place(out, LocalExecutor(2)), resolve_search([flags]), print_message)


def course(record: StudyRecord, among: Sequence[Candidate]) -> tuple[list[float], list[float]]:
    """Return training seconds and hypervolume after each trial that ended."""
    objectives = record.objectives
    ended = sorted(record.read_runs(), key=lambda run: run.ended)
    points, seconds, volumes = np.empty((0, len(objectives))), [0.0], [0.0]
    for run in ended:
        points = np.concatenate([points, losses_of(candidates_of(run), objectives)])
        scaled = normalised(points, losses_of(among, objectives)) if len(points) else points
        reference = np.full(len(objectives), REFERENCE)
        seconds.append(seconds[-1] + (run.seconds or 0.0))
        volumes.append(hypervolume(scaled, reference) / REFERENCE ** len(objectives))
    return seconds, volumes


def time_to(volume: float, seconds: Sequence[float], volumes: Sequence[float]) -> float:
    """Return the training time until a hypervolume is reached; infinite if it never is."""
    return next((s for s, v in zip(seconds, volumes, strict=True) if v >= volume), float("inf"))


def epochs_of(record: StudyRecord) -> int:
    """Return the number of epochs trained in all: unlike seconds, it is the same on every machine."""
    runs = [(run.status, run.config) for run in record.read_runs()]
    return sum((status and status.epochs) or config.train.epochs for status, config in runs if config)


def main() -> None:
    """Print a row for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("runs/stop-early"))
    given = parser.parse_args()
    print("| seed | full: s, epochs, hypervolume | stopped early: s, epochs, hypervolume | stopped | time to 99 % |")
    print("|---|---|---|---|---|")
    for seed in range(given.seeds):
        full = search(given.out / f"full-{seed}", seed, given.trials, given.epochs, stop_early=False)
        early = search(given.out / f"early-{seed}", seed, 2 * given.trials, given.epochs, stop_early=True)
        both = [item for record in (full, early) for item in candidates(record.read_runs())]
        full_seconds, full_volumes = course(full, both)
        early_seconds, early_volumes = course(early, both)
        target = 0.99 * full_volumes[-1]
        ratio = time_to(target, early_seconds, early_volumes) / time_to(target, full_seconds, full_volumes)
        stopped = sum(run.state == "stopped" for run in early.read_runs())
        print(
            f"| {seed} | {full_seconds[-1]:.0f}, {epochs_of(full)}, {full_volumes[-1]:.3f} | {early_seconds[-1]:.0f}, "
            f"{epochs_of(early)}, {early_volumes[-1]:.3f} | {stopped} of {2 * given.trials} | {ratio:.2f} × |",
            flush=True,
        )


if __name__ == "__main__":
    main()
