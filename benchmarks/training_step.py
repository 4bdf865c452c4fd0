"""Time of a training step: the whole pipeline against the bare step, and SAE against its FLOPs.

Run: python -m benchmarks.training_step

(a) pipeline / bare: the whole training step (batching, augmentation, mixing, schedules,
    clipping, logging) against forward, loss, backward and optimiser step of the same network
    on prepared tensors. FC width 1 and VGG width 2, N=2, batch 64, R=2.
(b) time ratio / FLOPs ratio: a step of SAE with N=4 and all exits against a step of the
    standard network, over the ratio of their FLOPs. R=1 for both.
(c) time over N and K: a step of SAE against a step of the standard network, R=1. The standard
    network is timed twice: its ratio to itself is the noise.

One thread; medians over interleaved rounds.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

from benchmarks.noise import Case, median_seconds, trainer_of
from sae.config.methods import SaeConfig
from sae.config.run import RunConfig
from sae.measure.cost import measure_cost
from sae.methods import build_method
from sae.methods.sae import Sae
from sae.training.trainer import Trainer, keep_freed_memory

REPEATS = 15
INPUTS = (1, 2, 4)
CASES = (
    Case("fc, width 1, 1×32×32", {"name": "fc", "width": 1}, (1, 32, 32), 2),
    Case("vgg, width 2, 3×32×32", {"name": "vgg", "width": 2}, (3, 32, 32), 8),
)


def bare_epoch(trainer: Trainer) -> Callable[[], None]:
    """Return an epoch of bare steps: forward, loss, backward and optimiser step on prepared tensors."""
    method, config = trainer.method, trainer.config
    assert isinstance(method, Sae)
    assert isinstance(config, RunConfig)
    assert isinstance(config.method, SaeConfig)
    spec = trainer.dataset.spec
    positions, num_inputs = trainer.config.train.batch_size * method.repetition, config.method.inputs
    inputs = torch.randn(positions, num_inputs, *spec.shape)
    targets = torch.randint(0, spec.task.num_outputs, (positions, num_inputs, method.depth)).flatten()
    network = build_method(config.method, config.backbone, spec)
    assert isinstance(network, Sae)
    optimizer = torch.optim.AdamW(network.network.parameters(), lr=3e-4, weight_decay=1e-5, fused=True)

    def epoch() -> None:
        for _ in range(trainer.steps_per_epoch):
            optimizer.zero_grad()
            F.cross_entropy(network.network(inputs).flatten(0, 2), targets).backward()
            optimizer.step()

    return epoch


def milliseconds(case: Case, *epochs: Callable[[], object]) -> list[float]:
    """Return the median time of a step of each."""
    return [seconds / case.steps * 1e3 for seconds in median_seconds(*epochs, repeats=REPEATS)]


def time_over_inputs_and_exits(case: Case) -> Table:
    """Return the time of a step for some N, at one exit and at all, as ratios to the standard network."""
    standard = [trainer_of(case, {"name": "standard"}) for _ in range(2)]
    depth = standard[0].method.depth
    exits = (1, depth)
    grid = [(inputs, k) for inputs in INPUTS for k in exits]
    trainers = [
        trainer_of(case, {"name": "sae", "inputs": inputs, "exits": k, "batch_repetition": 1}) for inputs, k in grid
    ]
    epochs = [lambda trainer=trainer: trainer.train_epoch(0) for trainer in (*standard, *trainers)]
    one, again, *others = milliseconds(case, *epochs)
    ratio = dict(zip(grid, (each / one for each in others), strict=True))
    title = f"(c) {case.name}: SAE / standard ({one:.2f} ms, A/A {again / one:.2f})"
    table = Table("N", *(f"K={k}" for k in exits), title=title)
    for inputs in INPUTS:
        table.add_row(str(inputs), *(f"{ratio[inputs, k]:.2f}" for k in exits))
    return table


def main() -> None:
    """Print all tables."""
    torch.set_num_threads(1)
    keep_freed_memory()
    overhead = Table("backbone", "bare ms", "pipeline ms", "ratio", "target", title="(a) pipeline / bare step")
    scaling = Table(
        "backbone",
        "standard ms",
        "SAE ms",
        "time ratio",
        "FLOPs ratio",
        "time / FLOPs",
        "target",
        title="(b) SAE N=4, all exits / standard",
    )
    for case in CASES:
        pipeline = trainer_of(case, {"name": "sae", "inputs": 2, "exits": 3})
        bare, whole = milliseconds(case, bare_epoch(pipeline), lambda p=pipeline: p.train_epoch(0))  # type: ignore[misc]
        overhead.add_row(case.name, f"{bare:.2f}", f"{whole:.2f}", f"{whole / bare:.2f}", "≤ 1.25")
        standard = trainer_of(case, {"name": "standard"})
        depth = standard.method.depth
        sae = trainer_of(case, {"name": "sae", "inputs": 4, "exits": depth, "batch_repetition": 1})
        one, four = milliseconds(case, lambda s=standard: s.train_epoch(0), lambda s=sae: s.train_epoch(0))  # type: ignore[misc]
        flops = [measure_cost(trainer.method.pruned(), case.shape).flops for trainer in (standard, sae)]
        predicted, measured = flops[1] / flops[0], four / one
        scaling.add_row(
            case.name,
            f"{one:.2f}",
            f"{four:.2f}",
            f"{measured:.2f}",
            f"{predicted:.2f}",
            f"{measured / predicted:.2f}",
            "≤ 1.15",
        )
    console = Console()
    console.print(overhead)
    console.print(scaling)
    for case in CASES:
        console.print(time_over_inputs_and_exits(case))


if __name__ == "__main__":
    main()
