"""Adaptive exits against plain graphs at batch 64, all from one run and timed side by side.

    python -m benchmarks.adaptive RUN [--eval-exits 4] [--keep 0.995,0.999]

The plain graphs are those of the same run at K′ exits, and at each of its used exits alone (K = 1).
`the same again` is a second session of the last exit alone: its ratio to the first shows the noise.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from sae.backbones import MemberNetwork
from sae.data.dataset import Dataset
from sae.deploy.adaptive import (
    batch_times,
    batches_of,
    choose_threshold,
    leaving_probs,
    leaving_segments,
    segment_times,
)
from sae.deploy.evaluation import trace_split
from sae.deploy.graph import ShippedGraph, graph_content, without_frame
from sae.deploy.latency import Effort
from sae.deploy.manifest import ExitTarget
from sae.deploy.segments import Segments, cut
from sae.deploy.session import Floats, Samples, Session, open_segments
from sae.ensemble.pruning import PrunedNetwork
from sae.methods.sae import Sae
from sae.records.run import RunRecord
from sae.training.run import restore
from sae.training.trainer import torch_threads

BATCH, MOST_BATCHES = 64, 16
EFFORT = Effort(repeats=31, sessions=1, warm_up=2, least=0.0)
LAST, AGAIN, PLAIN = "K=1, last exit", "the same again", "plain, K′ exits"


@dataclass(frozen=True)
class Contestant:
    """A model to time: its test accuracy, and where its samples leave."""

    run: Callable[[Samples], object]
    accuracy: float
    leaves: str = ""


def content_of(network: MemberNetwork, dataset: Dataset) -> bytes:
    """Export the plain graph of a network."""
    return graph_content(ShippedGraph(network.folded(dataset.spec.shape), dataset), dataset)


def one_exit(method: Sae, dataset: Dataset, exit_number: int) -> bytes:
    """Export the plain graph in which all inputs use one exit."""
    active = [method.settings.inputs if number == exit_number else 0 for number in range(1, method.depth + 1)]
    return content_of(method.pruned_to(active), dataset)


def used_exits(pruned: PrunedNetwork) -> list[int]:
    """Return all used exits but the last, counted from 1."""
    return sorted({exit_index + 1 for _, exit_index in pruned.members})[:-1]


def accuracy(probs: Floats, labels: NDArray[np.generic]) -> float:
    """Return the share of samples whose most probable class is the true one."""
    return float((probs.argmax(axis=1) == labels).mean())


def compare(run: Path, eval_exits: int | None, targets: list[ExitTarget]) -> Table:
    """Compare all plain graphs and all targets in a table."""
    record = RunRecord.open(run)
    with torch_threads(record.read_config().train.threads):
        method, dataset = restore(record, "cpu")
        assert isinstance(method, Sae), "adaptive exits need method sae"
        pruned = method.pruned(eval_exits)
        alone = {exit_number: one_exit(method, dataset, exit_number) for exit_number in used_exits(pruned)}
        last = one_exit(method, dataset, method.depth)
        plain = Session(content_of(pruned, dataset))
        segments = cut(pruned, dataset, plain)
    samples, labels = without_frame(dataset.test.inputs[:], dataset.frame), dataset.test.targets

    def plain_contestant(session: Session) -> Contestant:
        return Contestant(session.run, accuracy(session.run(samples)["probs"], labels))

    contestants = {
        LAST: plain_contestant(Session(last)),
        AGAIN: plain_contestant(Session(last)),
        PLAIN: plain_contestant(plain),
        **{f"K=1, exit {number} alone": plain_contestant(Session(content)) for number, content in alone.items()},
        **dict(adaptive_contestant(segments, dataset, target) for target in targets),
    }
    batches = batches_of(samples, BATCH, MOST_BATCHES)
    times = batch_times({name: contestant.run for name, contestant in contestants.items()}, batches, EFFORT)
    each = " ".join(f"{value:.2f}" for value in segment_times(segments.sessions, batches[0], EFFORT))
    title = f"batch {BATCH}, exits {segments.network.exits}; the segments take {each} ms for a whole batch"
    table = Table(
        "", "test accuracy", "against K=1", "left after; mean FLOPs", "ms", "K=1 / this", "plain K′ / this", title=title
    )
    for name, contestant in contestants.items():
        numbers = [f"{times[name]:.2f}", *(f"{times[other] / times[name]:.2f}" for other in (LAST, PLAIN))]
        gain = contestant.accuracy - contestants[LAST].accuracy
        table.add_row(name, f"{contestant.accuracy:.4f}", f"{gain:+.4f}", contestant.leaves, *numbers)
    return table


def adaptive_contestant(segments: Segments, dataset: Dataset, target: ExitTarget) -> tuple[str, Contestant]:
    """Return segments with a threshold that meets a target, and their name in the table."""
    val, test = (trace_split(segments.sessions, split, dataset) for split in (dataset.val, dataset.test))
    threshold = choose_threshold(val, dataset.val.targets, segments.flops, target)
    left = leaving_segments(test, threshold)
    shares = " ".join(f"{share:.2f}" for share in np.bincount(left, minlength=len(segments.contents)) / len(left))
    sessions = open_segments(segments.contents, segments.network.seen)
    sessions.threshold = threshold
    name = f"adaptive, {target.kind} {target.value:g} (from {threshold:.3f})"
    leaves = f"{shares}; {segments.flops[left].mean():.2f}"
    return name, Contestant(sessions.run, accuracy(leaving_probs(test, left), dataset.test.targets), leaves)


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
