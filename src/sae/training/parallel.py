"""Training of ensemble members in several processes: on two cores in little more than half the time.

Members share nothing, so the distribution over workers changes no number. Each worker trains its
members for an epoch and returns their weights and optimiser state. The parent then has the same
state as if it had trained them itself, validates, and writes its checkpoint.
"""

import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sae.config.run import RunConfig
from sae.core.errors import DataWarning, SaeError, UncutWarning
from sae.core.trust import is_code_trusted, trust_code
from sae.data.binding import Binding, load_bound
from sae.data.dataset import Dataset
from sae.data.splits import trained_on
from sae.methods import Method, build_method
from sae.records.folder import Arrays
from sae.training.class_weights import training_spec
from sae.training.teacher import load_teacher
from sae.training.trainer import Guide, Trainer, keep_freed_memory, mean_of


@contextmanager
def training(
    method: Method,
    dataset: Dataset,
    config: RunConfig,
    processes: int,
    binding: Binding | None = None,
    guide: Guide | None = None,
) -> Iterator[Trainer]:
    """Provide a trainer that uses several processes where that helps; their number does not change the result.

    Only independent streams can be trained in parallel, and only if they share nothing else:
    with float16 they share a loss scale, and on a GPU the device. Workers read the data again, and check
    with `binding` that they are the same; they load the teacher again instead of using `guide`.
    """
    can_split = config.train.device == "cpu" and config.train.precision != "float16"
    count = min(processes, method.num_streams) if can_split else 1
    if count == 1:
        yield Trainer(method, dataset, config, guide=guide)
        return
    trainer = ParallelTrainer(method, dataset, config, count, binding, guide)
    try:
        yield trainer
    finally:
        trainer.stop()


class ParallelTrainer(Trainer):
    """A trainer that trains the streams of a method in worker processes."""

    def __init__(
        self,
        method: Method,
        dataset: Dataset,
        config: RunConfig,
        processes: int,
        binding: Binding | None = None,
        guide: Guide | None = None,
    ) -> None:
        super().__init__(method, dataset, config, guide=guide)
        self.binding = binding
        self.shares = [self.streams[start::processes] for start in range(processes)]
        self.workers: list[tuple[BaseProcess, Connection]] = []

    def train_rows(self, epoch: int, on_step: Callable[[], None] = lambda: None) -> tuple[list[str], list[Tensor]]:
        """Train one epoch in the workers; return the names and, for every step, the logged means over streams."""
        if not self.workers:
            self._start()
        for process, connection in self.workers:
            with _reporting_its_end(process):
                connection.send(epoch)
        names: list[str] = []
        logs = {}
        for process, connection in self.workers:
            with _reporting_its_end(process):
                answer = connection.recv()
            for stream, (names_of_stream, log, state) in answer.items():
                names, logs[stream] = names_of_stream, torch.from_numpy(log)  # (step, term)
                load_stream(self, stream, state)
        for _ in range(self.steps_per_epoch):
            on_step()
        ordered = [logs[stream] for stream in self.streams]
        terms = range(len(names))
        rows = [
            torch.stack([mean_of([log[step, term] for log in ordered]) for term in terms])
            for step in range(self.steps_per_epoch)
        ]
        return names, rows

    def stop(self) -> None:
        """End the workers."""
        for process, connection in self.workers:
            connection.close()
            process.terminate()
            process.join()
        self.workers = []

    def _start(self) -> None:
        """Start the workers from the state of this trainer, which may come from a checkpoint."""
        context = multiprocessing.get_context("spawn")
        for share in self.shares:
            ours, theirs = context.Pipe()
            arguments = (theirs, self.config, self.binding, share, is_code_trusted())
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            theirs.close()  # so that the pipe ends with the worker
            self.workers.append((process, ours))
            with _reporting_its_end(process):
                ours.send({stream: stream_state(self, stream) for stream in share})


@contextmanager
def _reporting_its_end(process: BaseProcess) -> Iterator[None]:
    """Turn the end of a worker into an error that users understand."""
    try:
        yield
    except (EOFError, OSError):
        process.join()
        raise SaeError(
            f"a process that trained members of the ensemble ended with code {process.exitcode}: "
            f"run the same command again to continue from the last finished epoch"
        ) from None


@dataclass(frozen=True)
class StreamState:
    """Everything that the next epoch of one stream depends on, as arrays.

    Attributes:
        weights: The state of the stream's module.
        moments: The state of the optimiser.
        average: The moving average of the weights; empty without one.
    """

    weights: Arrays
    moments: Arrays
    average: list[NDArray[np.generic]]


def stream_state(trainer: Trainer, stream: int) -> StreamState:
    """Return the state of one stream."""
    module, flat = trainer.method.stream_module(stream), trainer.group_of(stream).parameter
    states = (module.state_dict(), trainer.optimizer.state.get(flat, {}))
    weights, moments = ({name: tensor.numpy(force=True) for name, tensor in state.items()} for state in states)
    averages = trainer.averages[stream].average if trainer.averages else []
    return StreamState(weights, moments, [tensor.numpy(force=True) for tensor in averages])


def load_stream(trainer: Trainer, stream: int, state: StreamState) -> None:
    """Load the state of one stream from another trainer."""
    parts = (state.weights, state.moments)
    weights, moments = ({name: torch.from_numpy(array) for name, array in part.items()} for part in parts)
    trainer.method.stream_module(stream).load_state_dict(weights)
    trainer.optimizer.state[trainer.group_of(stream).parameter] = moments
    if trainer.averages:
        trainer.averages[stream].load([torch.from_numpy(array) for array in state.average])


def _work(
    connection: Connection, config: RunConfig, binding: Binding | None, share: tuple[int, ...], trusts_code: bool
) -> None:
    """Train some streams, an epoch at a time, until the parent ends."""
    try:
        torch.set_num_threads(config.train.threads)
        for shown in (DataWarning, UncutWarning):  # the parent shows them
            warnings.simplefilter("ignore", shown)
        trust_code(is_trusted=trusts_code)
        dataset = load_bound(config.data, config.seed, binding)
        dataset = trained_on(dataset, config.train.val_too, config.data.split_seed)
        keep_freed_memory()
        method = build_method(config.method, config.backbone, training_spec(dataset, config.train), config.seed)
        guide = load_teacher(config, dataset).guide if config.teacher else None
        trainers = {stream: Trainer(method, dataset, config, (stream,), guide) for stream in share}
        for stream, state in connection.recv().items():
            load_stream(trainers[stream], stream, state)
        while True:
            epoch, answer = connection.recv(), {}
            for stream, trainer in trainers.items():
                names, rows = trainer.train_rows(epoch)
                answer[stream] = (names, torch.stack(rows).numpy(), stream_state(trainer, stream))
            connection.send(answer)
    except (EOFError, OSError, KeyboardInterrupt):
        return
