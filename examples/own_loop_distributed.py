"""The same loop in two processes with `DistributedDataParallel`, and its gradients beside those of one process.

A process sees only its share of a batch. It mixes the inputs, normalises (BatchNorm) and averages within this share,
so in general the gradient is the mean over shares, as with gradient accumulation. It is the gradient of one process on
the whole batch where nothing depends on the share: a backbone without BatchNorm (`vit`), inputs that all see the same
sample (`repeat_fraction` 1), and exits that are not drawn (`learn_exits` false). This example compares the two there.

Run: python examples/own_loop_distributed.py
"""

import os
import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, distributed
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

import sae

PROCESSES = 2


def build() -> sae.SingleArchitectureEnsemble:
    """Return the same network in every process."""
    return sae.SingleArchitectureEnsemble(
        {"name": "vit", "depth": 2},
        sae.Classification(10),
        inputs=2,
        exits=2,
        shape=(1, 8, 8),
        repeat_fraction={"start": 1.0, "end": 1.0},
        learn_exits=False,
    )


def batch() -> tuple[Tensor, Tensor]:
    """Return a batch of 32 digits."""
    digits = load_digits()
    return torch.tensor(digits.images[:32]).float()[:, None] / 16, torch.tensor(digits.target[:32])


def gradients(model: sae.SingleArchitectureEnsemble) -> dict[str, Tensor]:
    """Return the gradient of each parameter by name."""
    return {name: value.grad for name, value in model.named_parameters() if value.grad is not None}


def work(rank: int, folder: str) -> None:
    """Compute the gradient of one share of the batch; the processes average theirs."""
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=PROCESSES)
    model = build()
    x, y = (part.chunk(PROCESSES)[rank] for part in batch())
    parallel = DistributedDataParallel(model)
    parallel(x, y, 0.0).backward()  # calling the module returns its loss
    torch.save(gradients(model), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def main() -> None:
    """Print the largest difference between the gradients of two processes and of one."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(work, (folder,), PROCESSES)
        found = [torch.load(Path(folder) / f"{rank}.pt") for rank in range(PROCESSES)]
    model = build()
    model.loss(*batch(), progress=0.0).backward()
    expected = gradients(model)
    largest = max((part[name] - value).abs().max() for part in found for name, value in expected.items())
    scale = max(value.abs().max() for value in expected.values())
    print(f"{len(expected)} gradients differ by at most {largest:.1e}; the largest one is {scale:.2g}")
    assert all(part.keys() == expected.keys() for part in found)
    assert largest < 1e-5 * scale


if __name__ == "__main__":
    main()
