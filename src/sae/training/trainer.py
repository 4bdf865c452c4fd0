"""The training loop: steps and epochs, with validation after each epoch."""

import ctypes
import inspect
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from sae.config.run import RunConfig
from sae.core.errors import ConfigError, DivergedError
from sae.core.seeds import derive_seed
from sae.data.batches import Preparation, batch_bounds, evaluation_batches, standardised, training_batches
from sae.data.dataset import Dataset
from sae.methods import Batch, Loss, Method
from sae.training.compiled import CompiledCalls
from sae.training.evaluator import member_outputs, validation_metrics
from sae.training.freezing import frozen_parameters, training
from sae.training.kept_weights import EarlyStopping, WeightAverage, stream_losses

DEVICES = ("cpu", "cuda", "mps", "xpu")
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Guide = Callable[[Batch, torch.Generator], Batch]
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


@dataclass
class Progress:
    """The progress of a run; with the weights, everything needed to continue it.

    Attributes:
        epoch: The number of finished epochs.
        seconds: The time spent in them.
        history: A row for each epoch: learning rate, loss terms, gradient norms, validation metrics, θ.
        stopping: The best epochs so far.
    """

    epoch: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)
    stopping: EarlyStopping = field(default_factory=lambda: EarlyStopping(patience=0))


class FlatParameters:
    """Many parameters as views of one vector; the modules that own them work as before.

    Zeroing, clipping and Adam then take one operation each instead of one for every tensor of
    the network, which for small networks saves a tenth of a training step.

    Attributes:
        parameter: All values in one vector, for an optimiser.
        gradient: All gradients in one vector; backward passes add to it.

    Example:
        >>> linear = nn.Linear(2, 1)
        >>> flat = FlatParameters(list(linear.parameters()))
        >>> linear(torch.ones(1, 2)).sum().backward()
        >>> flat.gradient
        tensor([1., 1., 1.])
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self.parameter = nn.Parameter(values)
        self.gradient = torch.zeros_like(values)
        self.parameter.grad = self.gradient
        start = 0
        for parameter in parameters:
            stop = start + parameter.numel()
            parameter.data = values[start:stop].view_as(parameter)
            parameter.grad = self.gradient[start:stop].view_as(parameter)
            start = stop

    def zero_grad(self) -> None:
        """Set the gradients to zero and keep their memory."""
        self.gradient.zero_()

    def clip_grad_norm(self, max_norm: float) -> torch.Tensor:
        """Scale the gradients down to a norm of at most `max_norm`; return the norm before."""
        norm: torch.Tensor = torch.linalg.vector_norm(self.gradient)
        self.gradient.mul_((max_norm / norm.clamp_min(1e-6)).clamp_max(1.0))
        return norm


class AdamW(torch.optim.AdamW):
    """AdamW without the guards against torch's compiler, which would import it: 1.5 s of CPU time, for nothing."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)
    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


@dataclass(frozen=True)
class SampleWeights:
    """How much samples count.

    Attributes:
        train: In the loss, (sample,), 1 on average.
        val: In the NLL that chooses the epoch to keep, (sample,); None if all count the same.
    """

    train: Tensor
    val: Tensor | None


class Trainer:
    """A trainer that trains a method, an epoch at a time.

    The random numbers of an epoch depend only on the run's seed and the epoch's number, so a run
    resumed after any epoch gives the same numbers as one that was never interrupted.

    Attributes:
        streams: The streams of the method that are trained here; by default all.
        averages: The moving average of the weights of each stream; empty if `train.ema` is 0.
        guide: Adds a teacher's predictions to a batch; None without a teacher.
        compiled: The compiled networks of the method; None unless `train.compile` is set.
        weights: How much each sample counts; None if all count 1.
    """

    def __init__(
        self,
        method: Method,
        dataset: Dataset,
        config: RunConfig,
        streams: tuple[int, ...] | None = None,
        guide: Guide | None = None,
        weights: SampleWeights | None = None,
    ) -> None:
        self.method, self.dataset, self.config, self.guide, self.weights = method, dataset, config, guide, weights
        self.streams = tuple(range(method.num_streams)) if streams is None else streams
        self.device = pick_device(config.train.device)
        method.to(self.device)
        self.prepare = Preparation(dataset.normalisation, len(dataset.spec.shape), self.device)
        self.bounds = batch_bounds(len(dataset.train), config.train.batch_size, method.smallest_batch)
        self.num_steps = config.train.epochs * self.steps_per_epoch
        described = method.parameter_groups()
        if streams is not None:  # independent streams have a group each
            described = [described[stream] for stream in streams]
        frozen = set(map(id, frozen_parameters(method, config.train.freeze)))
        self.norms = [group.norm for group in described]
        self.groups = [FlatParameters([p for p in group.parameters if id(p) not in frozen]) for group in described]
        self.optimizer = AdamW(
            [
                {"params": [flat.parameter], "weight_decay": config.train.weight_decay if group.decays else 0.0}
                for flat, group in zip(self.groups, described, strict=True)
            ],
            lr=config.train.lr,
            fused=True,
        )
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.train.precision == "float16")
        self.averages = {stream: self._average_of(stream) for stream in self.streams if config.train.ema}
        self.compiled = self.compile()

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches in an epoch."""
        return len(self.bounds) - 1

    def compile(self) -> CompiledCalls | None:
        """Return the compiled networks of the method if asked for; the first call of each compiles it."""
        return CompiledCalls(self.method.trained_networks()) if self.config.train.compile else None

    def group_of(self, stream: int) -> FlatParameters:
        """Return the parameters of one of several independent streams."""
        return self.groups[self.streams.index(stream)]

    def _average_of(self, stream: int) -> WeightAverage:
        """Return the moving average for one stream: of its parameters, and of BatchNorm's statistics."""
        groups = self.groups if self.method.num_streams == 1 else [self.group_of(stream)]
        buffers = [buffer for buffer in self.method.stream_module(stream).buffers() if buffer.is_floating_point()]
        return WeightAverage(self.config.train.ema, [*(group.parameter.detach() for group in groups), *buffers])

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Give the method the averaged weights within the context, for validation and for the record."""
        with ExitStack() as stack:
            for average in self.averages.values():
                stack.enter_context(average.in_use())
            yield

    def train_epoch(self, epoch: int, on_step: Callable[[], None] = lambda: None) -> dict[str, float]:
        """Train one epoch; return its mean loss terms and gradient norms."""
        names, rows = self.train_rows(epoch, on_step)
        log = torch.stack(rows).double()  # (step, term); read once per epoch, so that a GPU never waits
        self._check_finite(log[:, 0], epoch)
        learning_rate = self.learning_rate((epoch + 1) * self.steps_per_epoch - 1)
        log[~log.isfinite()] = torch.nan  # norms of steps that float16 had to skip
        return {"lr": learning_rate, **dict(zip(names, log.nanmean(dim=0).tolist(), strict=True))}

    def train_rows(self, epoch: int, on_step: Callable[[], None] = lambda: None) -> tuple[list[str], list[Tensor]]:
        """Train one epoch; return the names and, for every step, the values of the logged terms."""
        streams = [self.batches(epoch, stream) for stream in self.streams]
        generator = torch.Generator().manual_seed(derive_seed(self.config.seed, "method", epoch))
        rows = []
        with training(self.method, self.config.train), self._compiled_if_asked():
            for index, batches in enumerate(zip(*streams, strict=True)):
                names, values = self._step(batches, epoch * self.steps_per_epoch + index, generator)
                rows.append(values)
                on_step()
        return names, rows

    def _compiled_if_asked(self) -> AbstractContextManager[None]:
        return self.compiled.in_use() if self.compiled else nullcontext()

    def try_step(self) -> None:
        """Compute the loss and gradients of a few samples, without an update, to see whether training can work."""
        count = max(2, self.method.smallest_batch)
        if self.compiled:  # a graph fits one batch size; this one will be used again
            count = self.bounds[1]
        targets = standardised(self.dataset.train.targets[:count], self.dataset.spec.task)
        inputs = self.prepare(self.dataset.train.inputs[:count])
        batch = Batch(inputs, torch.from_numpy(targets).to(self.device), self.streams[0], len(self.dataset.train))
        generator = torch.Generator().manual_seed(self.config.seed)
        batch = self.guide(batch, generator) if self.guide else batch
        with training(self.method, self.config.train), self._compiled_if_asked():
            self._loss(batch, 0, generator).total.backward()

    def batches(self, epoch: int, stream: int) -> Iterator[Batch]:
        """Yield the training data of one epoch in the order and with the augmentation of one stream."""
        purpose = ("batches", epoch) if stream == 0 else ("batches", epoch, "stream", stream)
        drawn = training_batches(
            self.dataset.train,
            self.config.data,
            self.dataset.spec.task,
            self.bounds,
            self.prepare,
            np.random.default_rng(derive_seed(self.config.seed, *purpose)),
        )
        size = len(self.dataset.train)
        weights = None if self.weights is None else self.weights.train.to(self.device)
        batches = (
            Batch(
                inputs,
                targets,
                stream,
                size,
                places=places,
                weights=None if weights is None else weights[places % size],
            )
            for inputs, targets, places in drawn
        )
        if self.guide is None:
            return batches
        generator = torch.Generator().manual_seed(derive_seed(self.config.seed, "teacher", epoch, "stream", stream))
        return map(self.guide, batches, itertools.repeat(generator))

    def _step(self, batches: Sequence[Batch], step: int, generator: torch.Generator) -> tuple[list[str], Tensor]:
        """Do one update; return the names and values of the logged terms, loss first, as means over streams."""
        for param_group in self.optimizer.param_groups:
            param_group["lr"] = self.learning_rate(step)
        for group in self.groups:
            group.zero_grad()
        logged: dict[str, list[Tensor]] = {}
        for batch in batches:  # backward right away, to hold the activations of one stream only
            loss = self._loss(batch, step, generator)
            self.scaler.scale(loss.total).backward()
            for name, value in {"loss": loss.total, **loss.terms}.items():
                logged.setdefault(name, []).append(value.detach())
        self.scaler.unscale_(self.optimizer)
        for name, group in zip(self.norms, self.groups, strict=True):
            logged.setdefault(name, []).append(group.clip_grad_norm(self.config.train.clip_norm))
        self.scaler.step(self.optimizer)
        self.scaler.update()
        for average in self.averages.values():
            average.update(step)
        return list(logged), torch.stack([mean_of(values) for values in logged.values()])

    def _loss(self, batch: Batch, step: int, generator: torch.Generator) -> Loss:
        """Compute the method's loss in the precision of the run."""
        with torch.autocast(
            self.device.type,
            PRECISIONS[self.config.train.precision],
            self.config.train.precision != "float32",
        ):
            return self.method.training_loss(batch, self.progress_at(step), generator)

    def progress_at(self, step: int) -> float:
        """Return the progress of training at a step: 0 at the first, 1 at the last."""
        return step / max(1, self.num_steps - 1)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step: cosine annealing from the configured rate to 0 after the last step."""
        return self.config.train.lr * 0.5 * (1 + math.cos(math.pi * step / self.num_steps))

    def _check_finite(self, losses: Tensor, epoch: int) -> None:
        wrong = (~losses.isfinite()).nonzero().flatten().tolist()
        if wrong:
            step = f"step {wrong[0] + 1} of {self.steps_per_epoch} in epoch {epoch + 1}"
            raise self.diverged(f"the loss must stay finite, but it was {losses[wrong[0]].item()} at {step}")

    def diverged(self, what: str) -> DivergedError:
        """Return the error of a run whose numbers cannot be used, with advice."""
        advice = f"lower train.lr (now {self.config.train.lr}) or train.clip_norm, or check the data"
        return DivergedError(f"{what}: {advice}")


def train_epochs(
    trainer: Trainer, progress: Progress, until: int, on_step: Callable[[], None] = lambda: None
) -> Iterator[dict[str, float]]:
    """Train the epochs that are not done yet, up to epoch `until` or until training stops early.

    Args:
        trainer: The trainer.
        progress: The progress so far, which is updated.
        until: Number of the last epoch.
        on_step: Called after every update.

    Yields:
        The row of each epoch in the history, when `progress` includes it.
    """
    for epoch in range(progress.epoch, until):
        if progress.stopping.has_stopped(epoch):
            return
        start = time.perf_counter()
        terms = trainer.train_epoch(epoch, on_step)
        with trainer.averaged():
            row = {"epoch": epoch + 1, **terms, **_validate(trainer, epoch + 1, progress.stopping)}
        columns = progress.history[0] if progress.history else row  # an older version may have measured less
        progress.history.append({key: row[key] for key in columns})
        progress.epoch = epoch + 1
        progress.seconds += time.perf_counter() - start
        yield progress.history[-1]


def _validate(trainer: Trainer, epoch: int, stopping: EarlyStopping) -> dict[str, float]:
    """Validate the network after an epoch; return its metrics and observables, for the history."""
    method, dataset = trainer.method, trainer.dataset
    outputs = member_outputs(method, evaluation_batches(dataset.val.inputs, trainer.prepare))
    metrics = validation_metrics(method, dataset, outputs)
    if not all(map(math.isfinite, metrics.values())):  # the last update may be the one that ruins the weights
        raise trainer.diverged(f"predictions must stay finite, but they are not after epoch {epoch}")
    settings = trainer.config.train
    if settings.keeps_best:
        weights = trainer.weights.val if trainer.weights else None
        stopping.update(method, epoch, stream_losses(method, outputs, dataset.val, settings.keep_by, weights))
    return {**{f"val_{key}": value for key, value in metrics.items()}, **method.observables()}


def mean_of(values: list[Tensor]) -> Tensor:
    """Return the mean of scalars; a single one is returned directly, which saves two operations."""
    return values[0] if len(values) == 1 else torch.stack(values).mean()


def pick_device(name: str) -> torch.device:
    """Return the device with this name, or raise an error if torch cannot use it here."""
    if not _is_usable(name):
        usable = ", ".join(filter(_is_usable, DEVICES))
        raise ConfigError(
            f"train.device must be a device that torch can use here ({usable}), got {name!r}: leave it out, choose one "
            f"of these, or install a torch for yours"
        )
    return torch.device(name)


def _is_usable(name: str) -> bool:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        return False
    return device.type in DEVICES


def keep_freed_memory() -> None:
    """Tell glibc not to return freed memory to the system; do nothing on other systems.

    A step frees tensors of some megabytes and allocates them again at once. By default glibc
    returns the memory in between, and every page faults again, which takes a quarter of the
    time of a small convolutional network's step.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if mallopt is not None:
            mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
            mallopt(M_TRIM_THRESHOLD, 2**30)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Set the number of CPU threads within the context; a run's numbers depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
