"""Time of four ways to train the members of a deep ensemble, for each backbone.

Run: python -m benchmarks.ensemble_training [fc vgg vit resnet]

(a) loop: each step trains one member after the other, as `DeepEnsemble` does.
(b) vmap: one call of all members, with their weights stacked (torch.func).
(c) in turn: an epoch of one member after the other, as in separate runs.
(d) two processes of one thread, each of which trains two members by (a); start-up not counted.

All four do whole training steps: separate batches for each member, augmentation, clipping per
member, AdamW. Ratios are to (a), below 1 is faster. One thread; medians over interleaved rounds.
"""

import copy
import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from benchmarks.noise import Case, median_seconds, trainer_of
from sae.backbones.base import ChannelsLast
from sae.methods.deep_ensemble import DeepEnsemble
from sae.training.trainer import FlatParameters, Trainer, keep_freed_memory

MEMBERS = 4


CASES = {
    "fc": Case("fc, width 1, 1×32×32", {"name": "fc"}, (1, 32, 32), 2),
    "vgg": Case("vgg, width 2, 3×32×32", {"name": "vgg", "width": 2}, (3, 32, 32), 8, steps=6),
    "vit": Case("vit, depth 5, 3×32×32", {"name": "vit"}, (3, 32, 32), 8, batch_size=32, steps=1),
    "resnet": Case("resnet, 3×32×32", {"name": "resnet"}, (3, 32, 32), 8, batch_size=16, steps=1),
}
REPEATS = {"fc": 7, "vgg": 5, "vit": 3, "resnet": 4}


def ensemble_of(case: Case, num_members: int, seed: int = 0) -> Trainer:
    """Return a trainer of an ensemble."""
    return trainer_of(case, {"name": "ensemble", "members": num_members}, seed)


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
    """Remove `ChannelsLast`, which vmap does not support."""
    for module in network.modules():
        for name, child in module.named_children():
            if isinstance(child, ChannelsLast):
                setattr(module, name, nn.Identity())
    return network


def vmap_epoch(trainer: Trainer) -> Callable[[], object]:
    """Return an epoch of (b), with the members, batches and settings of the trainer, but its own steps."""
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
    """Train an epoch of two members on every request: a process of (d)."""
    torch.set_num_threads(1)
    keep_freed_memory()
    trainer = ensemble_of(case, MEMBERS // 2, seed)
    while connection.recv():
        trainer.train_epoch(0)
        connection.send(True)


def seconds(case: Case, repeats: int) -> list[float]:
    """Return the median time of an epoch of (a), (b), (c) and (d)."""
    together, singles = ensemble_of(case, MEMBERS), [ensemble_of(case, 1, seed) for seed in range(MEMBERS)]
    stacked = vmap_epoch(ensemble_of(case, MEMBERS))
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

    measured = median_seconds(lambda: together.train_epoch(0), stacked, in_turn, two_processes, repeats=repeats)
    for pipe, worker in zip(pipes, workers, strict=True):
        pipe[0].send(False)
        worker.join()
    return measured


def main() -> None:
    """Print the ratios."""
    torch.set_num_threads(1)
    keep_freed_memory()
    columns = ("backbone", "(a) loop, ms a step", "(b) vmap", "(c) in turn", "(d) two processes")
    table = Table(*columns, title=f"{MEMBERS} members: time of an epoch, as a ratio to (a)")
    for name in sys.argv[1:] or CASES:
        case = CASES[name]
        loop, *others = seconds(case, REPEATS[name])
        table.add_row(case.name, f"{loop / case.steps * 1e3:.1f}", *[f"{other / loop:.2f}" for other in others])
    Console().print(table)


if __name__ == "__main__":
    main()
