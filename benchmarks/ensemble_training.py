"""Which way to train the four members of a deep ensemble is fastest, for each backbone.

Run: python -m benchmarks.ensemble_training [fc vgg vit resnet]

(a) loop: what `DeepEnsemble` does, each step trains one member after the other.
(b) vmap: one call of all members, with their weights stacked (torch.func).
(c) in turn: one member's epoch after the other's, as separate runs would.
(d) two processes of one thread, each of which trains two members by (a); start-up not counted.

All four take whole training steps: batches of each member's own, augmentation, clipping per
member, AdamW. Ratios are to (a), below 1 is faster. One thread; medians over interleaved rounds.
"""

import copy
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from benchmarks.noise import noise
from sae.backbones.base import ChannelsLast
from sae.config.run import parse_run
from sae.methods import build_method
from sae.methods.deep_ensemble import DeepEnsemble
from sae.training.flat_parameters import FlatParameters
from sae.training.memory import keep_freed_memory
from sae.training.trainer import Trainer

MEMBERS = 4


@dataclass(frozen=True)
class Case:
    """A backbone, images for it, and how much is measured."""

    name: str
    backbone: dict[str, object]
    shape: tuple[int, int, int]
    num_classes: int
    batch_size: int
    steps: int
    rounds: int


CASES = {
    "fc": Case("fc, width 1, 1×32×32", {"name": "fc"}, (1, 32, 32), 2, 64, 20, 7),
    "vgg": Case("vgg, width 2, 3×32×32", {"name": "vgg", "width": 2}, (3, 32, 32), 8, 64, 6, 5),
    "vit": Case("vit, depth 5, 3×32×32", {"name": "vit"}, (3, 32, 32), 8, 32, 1, 3),
    "resnet": Case("resnet, 3×32×32", {"name": "resnet"}, (3, 32, 32), 8, 16, 1, 4),
}


def trainer_of(case: Case, num_members: int, seed: int = 0) -> Trainer:
    """A trainer of an ensemble, with crop and flip on."""
    config = parse_run(
        {"data": {"name": "noise", "crop": 4, "flip": True}, "backbone": case.backbone, "seed": seed},
        {"method": {"name": "ensemble", "members": num_members}},
        {"train": {"batch_size": case.batch_size, "epochs": 1000}},
    )
    dataset = noise(case.shape, case.num_classes, case.steps * case.batch_size)
    return Trainer(build_method(config.method, config.backbone, dataset.spec, seed), dataset, config)


class StackedMembers:
    """All members as one function of stacked weights; BatchNorm's statistics are stacked and updated in place."""

    def __init__(self, networks: nn.ModuleList) -> None:
        self.parameters, self.buffers = stack_module_state(list(networks))
        self.flat = FlatParameters(list(self.parameters.values()))
        self.template = without_layout(copy.deepcopy(networks[0])).to("meta").train()

    def __call__(self, inputs: Tensor) -> Tensor:
        """(member, batch, *sample) → (member, batch, out)."""
        outputs: Tensor = torch.vmap(self._one)(self.parameters, self.buffers, inputs)
        return outputs

    def clip_grad_norms(self, max_norm: float) -> None:
        """Scale each member's gradients down to a norm of at most `max_norm`."""
        gradients = [parameter.grad.flatten(1) for parameter in self.parameters.values()]
        norms = torch.stack([gradient.square().sum(dim=1) for gradient in gradients]).sum(dim=0).sqrt()
        scale = (max_norm / norms.clamp_min(1e-6)).clamp_max(1.0)[:, None]
        for gradient in gradients:
            gradient.mul_(scale)

    def _one(self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], inputs: Tensor) -> Tensor:
        output: Tensor = functional_call(self.template, (parameters, buffers), (inputs,))
        return output


def without_layout(network: nn.Module) -> nn.Module:
    """Without `ChannelsLast`, which vmap cannot do."""
    for module in network.modules():
        for name, child in module.named_children():
            if isinstance(child, ChannelsLast):
                setattr(module, name, nn.Identity())
    return network


def vmap_epoch(trainer: Trainer) -> Callable[[], object]:
    """An epoch of (b); takes the trainer's members, batches and settings, and none of its steps."""
    method, settings = trainer.method, trainer.config.train
    assert isinstance(method, DeepEnsemble)
    members = StackedMembers(method.network.members)
    optimizer = torch.optim.AdamW(
        [members.flat.parameter], lr=settings.lr, weight_decay=settings.weight_decay, fused=True
    )

    def epoch() -> None:
        for batches in zip(*[trainer.batches(0, stream) for stream in range(MEMBERS)], strict=True):
            inputs = torch.stack([batch.inputs for batch in batches])
            targets = torch.cat([batch.targets for batch in batches])
            members.flat.zero_grad()
            outputs = members(inputs).flatten(0, 1)
            (F.cross_entropy(outputs, targets, reduction="sum") / inputs.shape[1]).backward()
            members.clip_grad_norms(settings.clip_norm)
            optimizer.step()

    return epoch


def serve(case: Case, seed: int, connection: Connection) -> None:
    """A process of (d): trains an epoch of two members whenever it is told to."""
    torch.set_num_threads(1)
    keep_freed_memory()
    trainer = trainer_of(case, MEMBERS // 2, seed)
    while connection.recv():
        trainer.train_epoch(0)
        connection.send(True)


def seconds(case: Case) -> list[float]:
    """Median time of an epoch of (a), (b), (c), (d), taken in turns so that noise falls on all alike."""
    together, singles = trainer_of(case, MEMBERS), [trainer_of(case, 1, seed) for seed in range(MEMBERS)]
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(2)]
    workers = [context.Process(target=serve, args=(case, seed, pipe[1])) for seed, pipe in enumerate(pipes)]
    for worker in workers:
        worker.start()

    def in_turn() -> None:
        for single in singles:
            single.train_epoch(0)

    def two_processes() -> None:
        for pipe in pipes:
            pipe[0].send(True)
        for pipe in pipes:
            pipe[0].recv()

    ways = [lambda: together.train_epoch(0), vmap_epoch(trainer_of(case, MEMBERS)), in_turn, two_processes]
    times: list[list[float]] = [[] for _ in ways]
    for round_number in range(case.rounds + 1):
        for way, values in zip(ways, times, strict=True):
            start = time.perf_counter()
            way()
            if round_number:  # the first warms up
                values.append(time.perf_counter() - start)
    for pipe, worker in zip(pipes, workers, strict=True):
        pipe[0].send(False)
        worker.join()
    return [statistics.median(values) for values in times]


def main() -> None:
    """Print the ratios."""
    torch.set_num_threads(1)
    keep_freed_memory()
    columns = ("backbone", "(a) loop, ms a step", "(b) vmap", "(c) in turn", "(d) two processes")
    table = Table(*columns, title=f"{MEMBERS} members: time of an epoch, as a ratio to (a)")
    for name in sys.argv[1:] or CASES:
        case = CASES[name]
        loop, *others = seconds(case)
        table.add_row(case.name, f"{loop / case.steps * 1e3:.1f}", *[f"{other / loop:.2f}" for other in others])
    Console().print(table)


if __name__ == "__main__":
    main()
