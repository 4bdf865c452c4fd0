"""Weights and checkpoints on disk: safetensors for arrays, with JSON in the header for the rest."""

import json

import torch
from torch import Tensor, nn

from sae.core.errors import RecordError
from sae.methods import Method
from sae.records.folder import Arrays
from sae.records.run import RunRecord
from sae.training.early_stopping import BestEpoch, EarlyStopping
from sae.training.trainer import Progress, Trainer


def save_model(record: RunRecord, model: nn.Module) -> None:
    """Write the weights of a trained method."""
    record.write_arrays(record.MODEL, _to_arrays(model.state_dict()))


def load_model(record: RunRecord, model: nn.Module) -> None:
    """Read the weights of a trained method into one of the same config."""
    arrays, _ = record.read_arrays(record.MODEL)
    _load_state(model, arrays, f"{record.path / record.MODEL}")


def load_first_streams(record: RunRecord, method: Method) -> None:
    """Read the weights of the first members of a larger ensemble."""
    arrays, _ = record.read_arrays(record.MODEL)
    names = {module: name for name, module in method.named_modules()}
    for stream in range(method.num_streams):
        member = method.stream_module(stream)
        _load_state(member, _below(arrays, f"{names[member]}."), f"{record.path / record.MODEL}")


def save_checkpoint(record: RunRecord, trainer: Trainer, progress: Progress) -> None:
    """Write everything that the next epoch depends on into one file, so that it is never half written."""
    arrays = {f"method.{name}": array for name, array in _to_arrays(trainer.method.state_dict()).items()}
    for index, state in trainer.optimizer.state_dict()["state"].items():
        arrays |= {f"optimizer.{index}.{name}": array for name, array in _to_arrays(state).items()}
    for stream, average in trainer.averages.items():
        named = {f"average.{stream}.{index}": tensor for index, tensor in enumerate(average.average)}
        arrays |= _to_arrays(named)
    for stream, best in enumerate(progress.stopping.best):
        arrays |= {f"best.{stream}.{name}": array for name, array in _to_arrays(best.state).items()}
    header = {
        "epoch": progress.epoch,
        "seconds": progress.seconds,
        "history": progress.history,
        "scaler": trainer.scaler.state_dict(),
        "best": [(best.epoch, best.nll) for best in progress.stopping.best],
    }
    record.write_arrays(record.CHECKPOINT, arrays, {"progress": json.dumps(header)})


def load_checkpoint(record: RunRecord, trainer: Trainer) -> Progress:
    """Restore a trainer from the last checkpoint and return its progress; start fresh if there is none."""
    path, stopping = record.path / record.CHECKPOINT, EarlyStopping(trainer.config.train.patience)
    if not path.exists():
        return Progress(stopping=stopping)
    arrays, metadata = record.read_arrays(record.CHECKPOINT)
    if "progress" not in metadata:
        raise RecordError(f"{path} is not a checkpoint of sae: delete it or train again with --force")
    header = json.loads(metadata["progress"])
    _load_state(trainer.method, _below(arrays, "method."), str(path))
    last_step = header["epoch"] * trainer.steps_per_epoch - 1
    trainer.method.progress = trainer.progress_at(last_step)  # predictions depend on it
    state: dict[int, dict[str, Tensor]] = {}
    for name, array in _below(arrays, "optimizer.").items():
        index, key = name.split(".")
        state.setdefault(int(index), {})[key] = torch.from_numpy(array)
    trainer.optimizer.load_state_dict({**trainer.optimizer.state_dict(), "state": state})
    trainer.scaler.load_state_dict(header["scaler"])
    for stream, average in trainer.averages.items():
        saved = _below(arrays, f"average.{stream}.")
        average.load([torch.from_numpy(saved[str(index)]) for index in range(len(saved))])
    for stream, (epoch, nll) in enumerate(header.get("best", [])):  # older checkpoints have none
        weights = _below(arrays, f"best.{stream}.")
        stopping.best.append(BestEpoch(epoch, nll, {name: torch.from_numpy(array) for name, array in weights.items()}))
    return Progress(header["epoch"], header["seconds"], header["history"], stopping)


def _to_arrays(state: dict[str, Tensor]) -> Arrays:
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in state.items()}


def _below(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _load_state(model: nn.Module, arrays: Arrays, where: str) -> None:
    """Load weights after checking that their names and shapes fit this network."""
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    given = {name: array.shape for name, array in arrays.items()}
    for name in [*expected, *given]:
        if expected.get(name) != given.get(name):
            raise RecordError(
                f"{where} holds another network: {name} must have shape {expected.get(name, 'none')}, "
                f"got {given.get(name, 'none')}"
            )
    model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
