"""How much of a training step is ours: the pipeline against the bare step, and SAE against its FLOPs.

Run: python -m benchmarks.training_step

(a) pipeline / bare: the whole training step (batching, augmentation, mixing, schedules,
    clipping, logging) against forward, loss, backward and optimiser step of the same network
    on tensors that are ready. FC width 1 and VGG width 2, N=2, batch 64, R=2.
(b) time ratio / FLOPs ratio: a step of SAE with N=4 and all exits against a step of the
    standard network, over the ratio of their FLOPs. R=1 for both.

One thread; medians over interleaved rounds.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

from benchmarks.noise import noise
from sae.config.run import RunConfig, SaeConfig, parse_run
from sae.core.task import Classification, DataSpec
from sae.measure.cost import measure_cost
from sae.methods import build_method
from sae.methods.sae import Sae
from sae.training.memory import keep_freed_memory
from sae.training.trainer import Trainer

NUM_SAMPLES, BATCH_SIZE, ROUNDS = 1280, 64, 15
STEPS = NUM_SAMPLES // BATCH_SIZE


@dataclass(frozen=True)
class Case:
    """A backbone and images of the kind the paper trains it on."""

    name: str
    backbone: dict[str, object]
    shape: tuple[int, int, int]
    num_classes: int


CASES = (
    Case("fc, width 1, 1×32×32", {"name": "fc", "width": 1}, (1, 32, 32), 2),
    Case("vgg, width 2, 3×32×32", {"name": "vgg", "width": 2}, (3, 32, 32), 8),
)


def trainer_of(case: Case, method: dict[str, object]) -> Trainer:
    """A trainer with crop and flip on, as for the paper's data sets."""
    config = parse_run(
        {"data": {"name": "noise", "crop": 4, "flip": True}, "backbone": case.backbone},
        {"method": method, "train": {"batch_size": BATCH_SIZE, "epochs": 1000}},
    )
    return Trainer(
        build_method(config.method, config.backbone, DataSpec(case.shape, Classification(case.num_classes))),
        noise(case.shape, case.num_classes, NUM_SAMPLES),
        config,
    )


def bare_epoch(trainer: Trainer) -> Callable[[], None]:
    """Forward, loss, backward, optimiser step on ready tensors, as often as an epoch has steps."""
    method, config = trainer.method, trainer.config
    assert isinstance(method, Sae)
    assert isinstance(config, RunConfig)
    assert isinstance(config.method, SaeConfig)
    spec = trainer.dataset.spec
    positions, num_inputs = BATCH_SIZE * method.repetition, config.method.inputs
    inputs = torch.randn(positions, num_inputs, *spec.shape)
    targets = torch.randint(0, spec.task.num_outputs, (positions, num_inputs, method.depth)).flatten()
    network = build_method(config.method, config.backbone, spec)
    assert isinstance(network, Sae)
    optimizer = torch.optim.AdamW(network.network.parameters(), lr=3e-4, weight_decay=1e-5, fused=True)

    def epoch() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            F.cross_entropy(network.network(inputs).flatten(0, 2), targets).backward()
            optimizer.step()

    return epoch


def milliseconds(*epochs: Callable[[], object]) -> list[float]:
    """Median time of a step of each, taken in turns so that noise falls on all alike."""
    times: list[list[float]] = [[] for _ in epochs]
    for round_number in range(ROUNDS + 2):
        for epoch, values in zip(epochs, times, strict=True):
            start = time.perf_counter()
            epoch()
            if round_number >= 2:  # the first two warm up
                values.append((time.perf_counter() - start) / STEPS * 1e3)
    return [statistics.median(values) for values in times]


def main() -> None:
    """Print both tables."""
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
        bare, whole = milliseconds(bare_epoch(pipeline), lambda p=pipeline: p.train_epoch(0))  # type: ignore[misc]
        overhead.add_row(case.name, f"{bare:.2f}", f"{whole:.2f}", f"{whole / bare:.2f}", "≤ 1.25")
        standard = trainer_of(case, {"name": "standard"})
        depth = standard.method.depth
        sae = trainer_of(case, {"name": "sae", "inputs": 4, "exits": depth, "batch_repetition": 1})
        one, four = milliseconds(lambda s=standard: s.train_epoch(0), lambda s=sae: s.train_epoch(0))  # type: ignore[misc]
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


if __name__ == "__main__":
    main()
