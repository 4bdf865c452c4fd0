"""The time of a shipped SAE relative to the standard network on its backbone and to an ensemble of four.

Run: python -m benchmarks.shipping [fc1 fc4 vgg vit resnet]

All are exported graphs in onnxruntime: one thread, batches of 64, random weights (time does not depend on them).
The ensemble is one graph with its four networks side by side. Ratios are medians of interleaved repeats over
fresh sessions in shuffled order. The standard network is measured twice: its ratio to itself shows the noise.
Both clocks are shown: wall time, for an idle machine, and CPU time of the thread, for a shared one.

(a) K=1 at the last exit, N=2…4: at most 1.10 × the standard network, 1.20 × for the MLP of width 1.
(b) K ≤ 2 at the last exits: at least 3 × faster than the ensemble.
"""

import sys
from dataclasses import dataclass, field

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.noise import noise
from sae.config.run import NetworkConfig
from sae.config.settings import parse
from sae.data.dataset import Dataset
from sae.deploy.graph import ShippedGraph, graph_content
from sae.deploy.latency import BATCH, CONTROL, Effort, Timing, interleaved, session_maker
from sae.methods import Method, build_method
from sae.methods.sae import Sae

MEMBERS = 4
FASTER = 3.0
NUMBERS = ((2, 1), (3, 1), (4, 1), (2, 2), (3, 2), (4, 2))
"""N and K."""
NAMES = [f"N={inputs} K={exits}" for inputs, exits in NUMBERS]


@dataclass(frozen=True)
class Case:
    """A backbone, images for it, the bound of (a), and the effort of the measurement."""

    backbone: dict[str, object]
    shape: tuple[int, int, int]
    num_classes: int
    bound: float = 1.10
    effort: Effort = field(default_factory=lambda: Effort(repeats=25, sessions=4))


CASES = {
    "fc1": Case({"name": "fc", "width": 1}, (1, 32, 32), 2, bound=1.20),
    "fc4": Case({"name": "fc", "width": 4}, (1, 32, 32), 2),
    "vgg": Case({"name": "vgg", "width": 4}, (3, 32, 32), 8, effort=Effort(repeats=15, sessions=3)),
    "vit": Case({"name": "vit", "width": 2}, (3, 32, 32), 8, effort=Effort(repeats=9, sessions=3)),
    "resnet": Case({"name": "resnet"}, (3, 64, 64), 8, effort=Effort(repeats=4, sessions=2)),
}


def build(case: Case, dataset: Dataset, **settings: object) -> Method:
    """Build a method with random weights."""
    network = parse(NetworkConfig, {"method": settings, "backbone": case.backbone})
    return build_method(network.method, network.backbone, dataset.spec).eval()


def sae_graph(case: Case, dataset: Dataset, inputs: int, exits: int) -> ShippedGraph:
    """Build an SAE whose inputs all use the last exits, the most expensive choice of K exits."""
    method = build(case, dataset, name="sae", inputs=inputs, exits=exits)
    assert isinstance(method, Sae)
    active = [0] * (method.depth - exits) + [inputs] * exits
    return ShippedGraph(method.pruned_to(active).eval().folded(dataset.spec.shape), dataset)


def baseline_graph(case: Case, dataset: Dataset, **settings: object) -> ShippedGraph:
    """Build a standard network, or an ensemble."""
    return ShippedGraph(build(case, dataset, **settings).pruned().folded(dataset.spec.shape), dataset)


def measure(case: Case) -> dict[str, Timing]:
    """Time all graphs of a backbone side by side."""
    dataset = noise(case.shape, case.num_classes, 4)
    graphs = {
        "standard": baseline_graph(case, dataset, name="standard"),
        "ensemble": baseline_graph(case, dataset, name="ensemble", members=MEMBERS),
        **{name: sae_graph(case, dataset, *numbers) for name, numbers in zip(NAMES, NUMBERS, strict=True)},
    }
    makers = {label: session_maker(graph_content(graph, dataset), BATCH) for label, graph in graphs.items()}
    return interleaved({**makers, CONTROL: makers["standard"]}, case.effort)


def rows_of(case: Case, timings: dict[str, Timing]) -> list[list[str]]:
    """Return ratios to the standard network by both clocks, and how many times faster than the ensemble each is."""
    shape = "×".join(map(str, case.shape))
    rows = []
    for clock in ("cpu", "wall"):
        seconds = {label: timing.cpu if clock == "cpu" else timing.seconds for label, timing in timings.items()}
        ratios = {label: value / seconds["standard"] for label, value in seconds.items()}
        faster = {name: seconds["ensemble"] / seconds[name] for name in NAMES}
        worst, slowest = max(ratios[name] for name in NAMES if name.endswith("K=1")), min(faster.values())
        rows.append(
            [
                f"{case.backbone['name']} W{case.backbone.get('width', 1)}, {shape}",
                clock,
                f"{seconds['standard'] * 1e3:.2f}",
                f"{ratios[CONTROL]:.2f}",
                *(f"{ratios[name]:.2f} ({faster[name]:.1f})" for name in NAMES),
                f"{ratios['ensemble']:.2f}",
                f"{worst:.2f} {'≤' if worst <= case.bound else '>'} {case.bound:.2f}",
                f"{slowest:.2f} {'≥' if slowest >= FASTER else '<'} {FASTER:g}",
            ]
        )
    return rows


def main() -> None:
    """Print the ratios and whether the targets are met."""
    torch.set_num_threads(1)
    console = Console(width=170)
    columns = ("backbone", "clock", "standard, ms", "again", *NAMES, "ensemble", "(a)", "(b)")
    title = f"batches of {BATCH}: time as a ratio to the standard network (in brackets: ensemble / SAE)"
    for key in sys.argv[1:] or CASES:
        table = Table(*columns, title=title)
        for row in rows_of(CASES[key], measure(CASES[key])):
            table.add_row(*row)
        console.print(table)


if __name__ == "__main__":
    main()
