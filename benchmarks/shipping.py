"""What a shipped SAE costs in time, beside its backbone's standard network and an ensemble of four.

Run: python -m benchmarks.shipping [fc1 fc4 vgg vit resnet]

All are exported graphs in onnxruntime: one thread, batches of 64, random weights (time does not depend on them).
The ensemble is one graph with its four networks side by side. Ratios are medians of interleaved repeats over
fresh sessions in shuffled order; the standard network is measured twice, and what it differs from itself by is noise.

(a) K=1 at the last exit, N=2…4: at most 1.10 × the standard network, 1.20 × for the MLP of width 1.
(b) K ≤ 2 at the last exits: at least 3 × faster than the ensemble.
"""

import sys
from dataclasses import dataclass, field

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.noise import noise
from sae.config import NetworkConfig
from sae.data.dataset import Dataset
from sae.deploy.export import graph_content
from sae.deploy.graph import ShippedGraph
from sae.deploy.latency import BATCH, CONTROL, Effort, Timing, interleaved, session_maker
from sae.methods import Method, build_method
from sae.methods.sae import Sae
from sae.settings import parse

MEMBERS = 4
FASTER = 3.0
SMALLEST_INPUTS, LARGEST_INPUTS = 2, 4


@dataclass(frozen=True)
class Case:
    """A backbone, images for it, the bound of (a), and how much is measured."""

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
    """A method with random weights."""
    network = parse(NetworkConfig, {"method": settings, "backbone": case.backbone})
    return build_method(network.method, network.backbone, dataset.spec).eval()


def sae_graph(case: Case, dataset: Dataset, inputs: int, exits: int) -> ShippedGraph:
    """An SAE whose inputs all use the last exits, the dearest that K exits can come to."""
    method = build(case, dataset, name="sae", inputs=inputs, exits=exits)
    assert isinstance(method, Sae)
    active = [0] * (method.depth - exits) + [inputs] * exits
    return ShippedGraph(method.pruned_to(active).eval().folded(dataset.spec.shape), dataset)


def baseline_graph(case: Case, dataset: Dataset, **settings: object) -> ShippedGraph:
    """A standard network, or an ensemble."""
    return ShippedGraph(build(case, dataset, **settings).pruned().folded(dataset.spec.shape), dataset)


def measure(case: Case) -> dict[str, Timing]:
    """All graphs of a backbone, side by side."""
    dataset = noise(case.shape, case.num_classes, 4)
    graphs = {
        "standard": baseline_graph(case, dataset, name="standard"),
        "ensemble": baseline_graph(case, dataset, name="ensemble", members=MEMBERS),
        **{
            f"N={inputs} K={exits}": sae_graph(case, dataset, inputs, exits)
            for exits in (1, 2)
            for inputs in range(SMALLEST_INPUTS, LARGEST_INPUTS + 1)
        },
    }
    makers = {label: session_maker(graph_content(graph, dataset), BATCH) for label, graph in graphs.items()}
    return interleaved({**makers, CONTROL: makers["standard"]}, case.effort)


def main() -> None:
    """Print the ratios and whether the targets are met."""
    torch.set_num_threads(1)
    console = Console(width=160)
    names = [f"N={inputs} K={exits}" for exits in (1, 2) for inputs in range(SMALLEST_INPUTS, LARGEST_INPUTS + 1)]
    table = Table(title=f"time of a batch of {BATCH}, as a ratio to the standard network; below it, ensemble / SAE")
    for column in ("backbone", "standard, ms", "again", *names, "ensemble", "(a)", "(b)"):
        table.add_column(column, justify="left" if column == "backbone" else "right", no_wrap=True)
    for key in sys.argv[1:] or CASES:
        case = CASES[key]
        timings = measure(case)
        standard, ensemble = timings["standard"].seconds, timings["ensemble"].seconds
        ratios = {label: timing.seconds / standard for label, timing in timings.items()}
        faster = {name: ensemble / timings[name].seconds for name in names}
        worst = max(ratios[name] for name in names if name.endswith("K=1"))
        slowest = min(faster.values())
        shape = "×".join(map(str, case.shape))
        table.add_row(
            f"{case.backbone['name']} W{case.backbone.get('width', 1)}, {shape}",
            f"{standard * 1e3:.2f}",
            f"{ratios[CONTROL]:.2f}",
            *(f"{ratios[name]:.2f}" for name in names),
            f"{ratios['ensemble']:.2f}",
            f"{worst:.2f} {'≤' if worst <= case.bound else '>'} {case.bound:.2f}",
            f"{slowest:.2f} {'≥' if slowest >= FASTER else '<'} {FASTER:g}",
        )
        table.add_row("  ensemble / SAE", "", "", *(f"{faster[name]:.2f}" for name in names), "", "", "")
        console.print(f"{key}: done", highlight=False)
    console.print(table)


if __name__ == "__main__":
    main()
