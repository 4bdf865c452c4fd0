"""Weights and checkpoints on disk: safetensors for arrays, with JSON in the header for the rest.

Both are bound to their run: weights by their hash in `status.json`, a checkpoint by the run's identity in its header.
"""

import warnings
from collections.abc import Mapping

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeInt, ValidationError
from torch import Tensor, nn

from sae.core.errors import RecordError, RecordWarning
from sae.data.dataset import Dataset
from sae.methods import Method, build_method
from sae.records.folder import Arrays, first_problem
from sae.records.run import RunRecord
from sae.training.kept_weights import BestEpoch, EarlyStopping
from sae.training.trainer import Progress, Trainer, pick_device

DELETE_IT = "delete it and begin again, or start over with --force"


class CheckpointHeader(BaseModel):
    """The content of a checkpoint other than arrays.

    Attributes:
        epoch: Number of finished epochs.
        seconds: Time spent in them.
        history: A row for each epoch.
        scaler: State of the gradient scaler.
        best: Epoch and validation NLL of the best epoch of each stream; older checkpoints have none.
        run: The identity of the run; older checkpoints have none.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")

    epoch: NonNegativeInt
    seconds: FiniteFloat
    history: list[dict[str, int | float]]
    scaler: Mapping[str, int | float]
    best: tuple[tuple[NonNegativeInt, float], ...] = ()
    run: str | None = None


def save_model(record: RunRecord, model: nn.Module) -> None:
    """Write the weights of a trained method."""
    record.write_arrays(record.MODEL, _to_arrays(model.state_dict()))


def load_model(record: RunRecord, model: nn.Module) -> None:
    """Read the weights of a trained method into one of the same config."""
    arrays, _ = record.read_arrays(record.MODEL)
    _check_finite(arrays, f"{record.path / record.MODEL}: {record.advice}")
    _load_state(model, arrays, f"{record.path / record.MODEL}")
    record.check_weights()


def load_first_streams(record: RunRecord, method: Method) -> None:
    """Read the weights of the first members of a larger ensemble."""
    record.check_weights()
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
    header = CheckpointHeader(
        epoch=progress.epoch,
        seconds=progress.seconds,
        history=progress.history,
        scaler=trainer.scaler.state_dict(),
        best=tuple((best.epoch, best.nll) for best in progress.stopping.best),
        run=record.identity(),
    )
    record.write_arrays(record.CHECKPOINT, arrays, {"progress": header.model_dump_json()})


def load_checkpoint(record: RunRecord, trainer: Trainer) -> Progress:
    """Restore a trainer from the last checkpoint and return its progress; start fresh if there is none."""
    path, stopping = record.path / record.CHECKPOINT, EarlyStopping(trainer.config.train.patience)
    if not path.exists():
        return Progress(stopping=stopping)
    arrays, metadata = record.read_arrays(record.CHECKPOINT)
    header = _read_header(record, metadata)
    _check_finite(arrays, f"{path}: {DELETE_IT}")
    _load_state(trainer.method, _below(arrays, "method."), str(path))
    last_step = header.epoch * trainer.steps_per_epoch - 1
    trainer.method.progress = trainer.progress_at(last_step)  # predictions depend on it
    try:
        _restore_trainer(trainer, arrays, header)
    except (KeyError, ValueError, RuntimeError) as error:
        raise RecordError(f"{path} is damaged ({error}): {DELETE_IT}") from None
    if len(header.best) not in (0, trainer.method.num_streams):
        raise RecordError(f"{path} is damaged (it has the best epochs of {len(header.best)} streams): {DELETE_IT}")
    for stream, (epoch, nll) in enumerate(header.best):
        weights = _below(arrays, f"best.{stream}.")
        _check_state(trainer.method.stream_module(stream), weights, str(path))
        stopping.best.append(BestEpoch(epoch, nll, {name: torch.from_numpy(array) for name, array in weights.items()}))
    return Progress(header.epoch, header.seconds, header.history, stopping)


def _read_header(record: RunRecord, metadata: Mapping[str, str]) -> CheckpointHeader:
    """Return the header of a checkpoint; refuse one of another run."""
    path = record.path / record.CHECKPOINT
    if "progress" not in metadata:
        raise RecordError(f"{path} is not a checkpoint of sae: {DELETE_IT}")
    try:
        header = CheckpointHeader.model_validate_json(metadata["progress"])
    except ValidationError as error:
        raise RecordError(f"{path} is damaged ({first_problem(error)}): {DELETE_IT}") from None
    if header.run is None:
        warnings.warn(
            f"{path} was made before checkpoints recorded their run: whether it belongs to this run is not checked",
            RecordWarning,
            stacklevel=3,
        )
    elif header.run != record.identity():
        raise RecordError(f"{path} belongs to a run with other settings, another seed or other data: {DELETE_IT}")
    return header


def _restore_trainer(trainer: Trainer, arrays: Arrays, header: CheckpointHeader) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, array in _below(arrays, "optimizer.").items():
        number, key = name.split(".")
        state.setdefault(int(number), {})[key] = torch.from_numpy(array)
    shapes = [parameter.shape for group in trainer.optimizer.param_groups for parameter in group["params"]]
    for index, tensors in state.items():
        for key, tensor in tensors.items():
            if not 0 <= index < len(shapes) or tensor.shape not in (shapes[index], torch.Size()):
                raise ValueError(f"optimizer.{index}.{key} does not fit")
    trainer.optimizer.load_state_dict({**trainer.optimizer.state_dict(), "state": state})
    trainer.scaler.load_state_dict(dict(header.scaler))
    for stream, average in trainer.averages.items():
        saved = _below(arrays, f"average.{stream}.")
        average.load([torch.from_numpy(saved[str(index)]) for index in range(len(saved))])


def _to_arrays(state: dict[str, Tensor]) -> Arrays:
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in state.items()}


def _below(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _load_state(model: nn.Module, arrays: Arrays, where: str) -> None:
    """Load weights after checking that they fit this network."""
    _check_state(model, arrays, where)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})


def _check_finite(arrays: Arrays, where_and_advice: str) -> None:
    """Refuse numbers that are not finite: nothing that is trained or predicted with them is of use."""
    wrong = next((name for name, array in arrays.items() if not np.isfinite(array).all()), None)
    if wrong is not None:
        raise RecordError(f"weights must be finite, but {wrong} is not in {where_and_advice}")


def _check_state(model: nn.Module, arrays: Arrays, where: str) -> None:
    """Refuse weights whose names, shapes or types of numbers do not fit this network."""
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    given = {name: array.shape for name, array in arrays.items()}
    for name in [*expected, *given]:
        if expected.get(name) != given.get(name):
            raise RecordError(
                f"{where} holds another network: {name} must have shape {expected.get(name, 'none')}, "
                f"got {given.get(name, 'none')}"
            )
    for name, tensor in model.state_dict().items():
        wanted, found = str(tensor.dtype).removeprefix("torch."), arrays[name].dtype.name
        if wanted != found:
            raise RecordError(f"{where} holds another network: {name} must be {wanted}, got {found}")


def trained_method(record: RunRecord, dataset: Dataset, device: str | None = None) -> Method:
    """Return the trained method of a run on these data; by default on the device of the training."""
    config = record.read_config()
    method = build_method(config.method, config.backbone, dataset.spec, config.seed)
    load_model(record, method)
    return method.to(pick_device(device or config.train.device)).eval()
