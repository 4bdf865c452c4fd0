"""Teachers: trained runs whose predictions a network learns from, beside the targets (distillation).

A teacher sees the same augmented samples as its student. They can be slightly perturbed so that its members disagree,
who agree on the training samples themselves; the perturbation is that of Nam et al., Diversity Matters When Learning
From Ensembles (NeurIPS 2021). Samples that are neither perturbed nor augmented, except by mirroring, are predicted only
once.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from sae.backbones import MemberNetwork
from sae.backbones.surgery import fuse_batch_norms
from sae.config.run import RunConfig, TeacherConfig
from sae.core.errors import ConfigError, DataError, RecordError
from sae.core.predictive import Guidance, make_guidance, member_values
from sae.core.task import Regression, Task
from sae.data.batches import Preparation, all_versions
from sae.data.binding import Binding
from sae.data.dataset import Dataset
from sae.methods import Batch, build_method
from sae.records.evaluation import Part
from sae.records.run import RunRecord
from sae.training.checkpoint import load_model
from sae.training.trainer import pick_device

UNIT = 4 / 255
"""The unit of a perturbation in standard deviations, for samples that are not pixels: the standard deviation of pixels
is often a quarter of their range."""
MOST_REMEMBERED = 2**28
"""Bytes of predictions that a teacher keeps; if those for all training samples are larger, each step asks again."""


class TeacherIdentity(Part):
    """The identity of the network that a run learns from, `teacher.json`.

    Attributes:
        method: The teacher's method and settings, for people.
        config: SHA-256 of its settings.
        weights: SHA-256 of its weights.
    """

    method: str
    config: str
    weights: str

    @classmethod
    def of(cls, record: RunRecord) -> Self:
        """Identify the network of a finished run."""
        settings = record.read_config()
        config, weights = record.hash_of(record.CONFIG), record.hash_of(record.MODEL)
        assert config is not None, "a finished run has settings"
        assert weights is not None, "a finished run has weights"
        return cls(method=f"{settings.method.name} {settings.summary}", config=config, weights=weights)


class Teacher:
    """A trained network that guides a student; nothing in it is trained.

    Args:
        network: The network, which predicts without random numbers.
        task: The task, which defines what the outputs mean.
        config: How the student learns from it.
        unit: One unit of a perturbation, in normalised inputs; a number, or shaped like one sample.
        samples: All versions of the training samples in the order of their places, in batches, if there are so few
            that each is predicted once.
    """

    def __init__(
        self,
        network: MemberNetwork,
        task: Task,
        config: TeacherConfig,
        unit: Tensor | float,
        samples: Iterable[Tensor] | None = None,
    ) -> None:
        self.network, self.task, self.config, self.unit = network.eval().requires_grad_(False), task, config, unit
        self.num_members = len(network.weights)
        self.samples = samples

    def guide(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Return a batch with the teacher's predictions, and with perturbed inputs if the settings say so."""
        if self.samples is not None and batch.places is not None:
            return replace(batch, guidance=self.remembered.at(batch.places))
        inputs = self.perturbed(batch.inputs, generator) if self.config.perturb else batch.inputs
        return replace(batch, inputs=inputs, guidance=self.predict(inputs))

    @cached_property
    def remembered(self) -> Guidance:
        """The guidance for all versions of the training samples.

        It is made in the order of the split, so that a resumed run has the same to the last bit.
        """
        assert self.samples is not None, "only samples of few versions are remembered"
        parts = [self.predict(inputs) for inputs in self.samples]
        return replace(parts[0], outputs=torch.cat([part.outputs for part in parts]))

    def predict(self, inputs: Tensor) -> Guidance:
        """Return the guidance for samples (batch, *sample)."""
        weights = self.network.weights if self.config.match == "mean" else None
        with torch.no_grad():
            outputs = self.network(inputs)
        return make_guidance(self.task, outputs, weights, self.config.weight, self.config.temperature)

    def perturbed(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return samples moved along the gradient of a random combination of one member's probabilities.

        A sample moves by `perturb` units times the square root of its size, times the member's confidence. One
        member is drawn for the batch, and a combination with factors in [−1, 1] for each sample.
        """
        member = int(torch.randint(self.num_members, (), generator=generator))
        moved = inputs.detach().requires_grad_()
        outputs = self.network.outputs_of(member, moved)
        predicted = outputs if isinstance(self.task, Regression) else member_values(self.task, outputs).flatten(1)
        factors = 2 * torch.rand(predicted.shape, generator=generator) - 1
        (gradient,) = torch.autograd.grad((predicted * factors.to(inputs.device)).sum(), moved)
        steps = (gradient * self.unit).flatten(1)  # in units of each number
        largest = steps.abs().amax(dim=1, keepdim=True)
        steps = steps / torch.where(largest > 0, largest, 1.0)  # so that no square underflows
        norm = torch.linalg.vector_norm(steps, dim=1, keepdim=True)
        direction = (steps / torch.where(norm > 0, norm, 1.0)).view_as(inputs)
        confidence = 1.0 if isinstance(self.task, Regression) else predicted.detach().amax(dim=-1)
        size = self.config.perturb * math.sqrt(steps.shape[1]) * torch.as_tensor(confidence, device=inputs.device)
        return inputs + direction * self.unit * size.view(-1, *[1] * (inputs.dim() - 1))


def open_teacher(config: TeacherConfig, out: Path, binding: Binding) -> RunRecord:
    """Return the run that another learns from; refuse one that cannot be its teacher.

    Args:
        config: The settings that name the run.
        out: The folder of the run that learns.
        binding: Its data.
    """
    path = Path(config.run)
    if path.resolve() == out.resolve():
        raise ConfigError(f"a run cannot be its own teacher, got {path} for both: choose another folder for --out")
    try:
        record = RunRecord.open(path)
    except RecordError as error:
        raise ConfigError(f"teacher.run must be the folder of a finished run: {error}") from None
    check_same_data(record, binding)
    return record


def load_teacher(config: RunConfig, dataset: Dataset) -> Teacher:
    """Return the teacher of a run with this config on these data."""
    assert config.teacher is not None, "the config must name a teacher"
    task, record = dataset.spec.task, RunRecord(Path(config.teacher.run))
    if isinstance(task, Regression) and config.teacher.temperature != TeacherConfig.default_temperature():
        raise ConfigError(
            f"teacher.temperature softens classes and has no effect on regression, got {config.teacher.temperature}: "
            f"leave it out"
        )
    settings = record.read_config()
    method = build_method(settings.method, settings.backbone, dataset.spec, settings.seed)
    load_model(record, method)
    device = pick_device(config.train.device)
    network = method.to(device).eval().pruned().folded(dataset.spec.shape).eval()
    fuse_batch_norms(network, dataset.spec.shape)
    is_pixels = dataset.train.inputs.dtype == np.uint8
    prepare = Preparation(dataset.normalisation, len(dataset.spec.shape), device)
    teachers = 1 if config.teacher.match == "mean" else len(network.weights)
    versions = None if config.teacher.perturb else config.data.versions
    size = len(dataset.train) * (versions or 0) * teachers * task.num_outputs * torch.float32.itemsize
    are_few = versions is not None and size <= MOST_REMEMBERED
    samples = all_versions(dataset.train.inputs, config.data, prepare) if are_few else None
    return Teacher(network, task, config.teacher, prepare.scale if is_pixels else UNIT, samples)  # 1 of 255


def check_same_data(record: RunRecord, binding: Binding) -> None:
    """Refuse a teacher that was trained on other samples, in other splits, or with another preparation of them.

    It might have seen samples that its student is tested on, or would get inputs that it was not trained for.
    """
    theirs, ours = Binding.read(record), binding.description
    if theirs is None:
        raise DataError(f"the teacher {record.path} was made before runs recorded their data: train it again")
    if theirs.description.fingerprint != ours.fingerprint:
        sizes = [" + ".join(map(str, each.samples.values())) for each in (theirs.description, ours)]
        raise DataError(
            f"the teacher {record.path} must have been trained on the same samples in the same splits, but was not "
            f"({sizes[0]} in train, val and test; here {sizes[1]}): train a teacher on this data"
        )
    for name in ("class_names", "normalisation", "target", "columns"):
        if getattr(theirs.description, name) != getattr(ours, name):
            raise DataError(
                f"the teacher {record.path} must have prepared its samples as this run does, but its {name} differ: "
                f"train a teacher with the data settings of this run"
            )


def bind_teacher(teacher: RunRecord, record: RunRecord) -> None:
    """Record the teacher of a run when it begins; later, refuse to continue with another."""
    identity = TeacherIdentity.of(teacher)
    if not record.has(record.CHECKPOINT):
        record.write_json(record.TEACHER, identity.model_dump(mode="json"))
    elif record.read_model(record.TEACHER, TeacherIdentity) != identity:
        raise RecordError(
            f"{record.path} learns from {teacher.path}, whose network has changed since: bring the old one back, or "
            f"start over with --force"
        )
