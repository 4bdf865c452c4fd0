"""Random data, trainers on them, and their time."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sae.config.run import parse_run
from sae.core.task import Classification, DataSpec
from sae.data.dataset import Dataset, Normalisation, Split
from sae.deploy.latency import Call, Effort, interleaved
from sae.methods import build_method
from sae.training.trainer import Trainer


@dataclass(frozen=True)
class Case:
    """A backbone, and the size of the images and batches it is trained on."""

    name: str
    backbone: dict[str, object]
    shape: tuple[int, int, int]
    num_classes: int
    batch_size: int = 64
    steps: int = 20


def noise(shape: tuple[int, int, int], num_classes: int, num_samples: int) -> Dataset:
    """Return random pixels in the shape of images, with random labels."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (num_samples, *shape), dtype=np.uint8)
    split = Split(images, rng.integers(0, num_classes, num_samples))
    normalisation = Normalisation((127.0,) * shape[0], (74.0,) * shape[0])
    return Dataset("noise", DataSpec(shape, Classification(num_classes)), normalisation, split, split, split)


def trainer_of(case: Case, method: dict[str, object], seed: int = 0) -> Trainer:
    """Return a trainer with crop and flip on, as for the data sets of the paper."""
    config = parse_run(
        {"data": {"name": "noise", "crop": 4, "flip": True}, "backbone": case.backbone, "seed": seed},
        {"method": method, "train": {"batch_size": case.batch_size, "epochs": 1000}},
    )
    dataset = noise(case.shape, case.num_classes, case.steps * case.batch_size)
    return Trainer(build_method(config.method, config.backbone, dataset.spec, seed), dataset, config)


def median_seconds(*calls: Call, repeats: int) -> list[float]:
    """Return the median time of each call, measured in turns so that noise affects all equally."""

    def maker(call: Call) -> Callable[[], Call]:
        return lambda: call

    makers = {str(index): maker(call) for index, call in enumerate(calls)}
    return [timing.seconds for timing in interleaved(makers, Effort(repeats, sessions=1)).values()]
