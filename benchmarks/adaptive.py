"""Adaptive exits against plain graphs at batch 64, all from one run and taken in turns.

    python -m benchmarks.adaptive RUN [--eval-exits 4] [--keep 0.995,0.999]

The plain graphs are the same run's at K′ exits, and each of its used exits alone (K = 1). `the same
again` is a second session of the last exit alone: how far its ratio is from 1 is the noise.
"""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from sae.backbones import MemberNetwork
from sae.data.dataset import Array, Dataset
from sae.deploy.adaptive import (
    Call,
    batches_of,
    calibrate_threshold,
    median_times,
    over,
    probs_left,
    stage_times,
    stages_left,
)
from sae.deploy.evaluation import trace_split
from sae.deploy.graph import ShippedGraph, graph_content, without_frame
from sae.deploy.manifest import ExitTarget
from sae.deploy.segments import cut, staged_sessions
from sae.deploy.session import Session, Staged
from sae.ensemble.pruning import PrunedNetwork
from sae.methods.sae import Sae
from sae.records.run import RunRecord
from sae.training.run import restore, torch_threads

BATCH, REPEATS = 64, 31


def content_of(network: MemberNetwork, dataset: Dataset) -> bytes:
    """The plain graph of a network."""
    return graph_content(ShippedGraph(network.folded(dataset.spec.shape), dataset), dataset)


def one_exit(method: Sae, dataset: Dataset, exit_number: int) -> bytes:
    """The plain graph in which all inputs answer at one exit."""
    active = [method.settings.inputs if number == exit_number else 0 for number in range(1, method.depth + 1)]
    return content_of(method.pruned_to(active), dataset)


def used_exits(pruned: PrunedNetwork) -> list[int]:
    """All but the last, counted from 1."""
    return sorted({exit_index + 1 for _, exit_index in pruned.members})[:-1]


def accuracy(probs: Array, labels: Array) -> float:
    """Share of samples whose most probable class is the true one."""
    return float((probs.argmax(axis=1) == labels).mean())


def compare(run: Path, eval_exits: int | None, targets: list[ExitTarget]) -> Table:
    """A row for each plain graph and each target."""
    record = RunRecord.open(run)
    with torch_threads(record.config.train.threads):
        method, dataset = restore(record, "cpu")
        assert isinstance(method, Sae), "adaptive exits are of method sae"
        pruned = method.pruned(eval_exits)
        alone = {exit_number: one_exit(method, dataset, exit_number) for exit_number in used_exits(pruned)}
        last = one_exit(method, dataset, method.depth)
        plain = Session(content_of(pruned, dataset))
        stages = cut(pruned, dataset, plain)
    val, test = (trace_split(stages.staged, dataset, split) for split in (dataset.val, dataset.test))
    samples, labels = without_frame(dataset.test.inputs[:], dataset.frame), dataset.test.targets
    batches = batches_of(samples, BATCH, most=16)
    single = Session(last)
    base = accuracy(single.run(samples)["probs"], labels)
    found: dict[str, tuple[float, str]] = {
        "K=1, last exit": (base, ""),
        "the same again": (base, ""),
        "plain, K′ exits": (accuracy(test[-1], labels), ""),
    }
    calls: dict[str, list[Call]] = {
        "K=1, last exit": over(single.run, batches),
        "the same again": over(Session(last).run, batches),
        "plain, K′ exits": over(plain.run, batches),
    }
    for exit_number, content in alone.items():
        session, name = Session(content), f"K=1, exit {exit_number} alone"
        found[name] = accuracy(session.run(samples)["probs"], labels), ""
        calls[name] = over(session.run, batches)
    for target in targets:
        threshold = calibrate_threshold(val, dataset.val.targets, stages.flops, target)
        left = stages_left(test, threshold)
        shares = " ".join(f"{share:.2f}" for share in np.bincount(left, minlength=len(stages.contents)) / len(left))
        name = f"adaptive, {target.kind} {target.value:g} (from {threshold:.3f})"
        found[name] = accuracy(probs_left(test, left), labels), f"{shares}; {stages.flops[left].mean():.2f}"
        staged: Staged = staged_sessions(stages.contents, stages.network.seen)
        staged.threshold = threshold
        calls[name] = over(staged.run, batches)
    times = median_times(calls, REPEATS)
    each = " ".join(f"{value:.2f}" for value in stage_times(stages.staged, batches[0], REPEATS))
    title = f"batch {BATCH}, exits {stages.network.exits}; stages of a whole batch take {each} ms"
    table = Table(
        "", "test accuracy", "against K=1", "left after; mean FLOPs", "ms", "K=1 / this", "plain K′ / this", title=title
    )
    for name, (value, leaves) in found.items():
        ratios = [times[other] / times[name] for other in ("K=1, last exit", "plain, K′ exits")]
        numbers = [f"{times[name]:.2f}", *(f"{ratio:.2f}" for ratio in ratios)]
        table.add_row(name, f"{value:.4f}", f"{value - base:+.4f}", leaves, *numbers)
    return table


def main() -> None:
    """Print the table of one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--eval-exits", type=int, default=None)
    parser.add_argument("--keep", default="0.995,0.999")
    given = parser.parse_args()
    targets = [ExitTarget(kind="keep_accuracy", value=float(part)) for part in given.keep.split(",")]
    Console(width=160).print(compare(given.run, given.eval_exits, targets))


if __name__ == "__main__":
    main()
