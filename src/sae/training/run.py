"""Runs: train a config into a run folder, and evaluate or restore it from there."""

import copy
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from sae.config.run import RunConfig
from sae.core.errors import ConfigError, DivergedError
from sae.core.progress import SILENT, ProgressDisplay
from sae.core.version import __version__
from sae.data.batches import Preparation
from sae.data.binding import AS_BEFORE, Binding, Whereabouts, load_bound, warn_of_unbound
from sae.data.dataset import Dataset
from sae.data.splits import trained_on
from sae.data.training_profile import DataProfile
from sae.methods import Method, build_method
from sae.records.evaluation import SPLITS, Interim, Json, Reading
from sae.records.network import Network
from sae.records.run import RunRecord
from sae.training.checkpoint import (
    load_checkpoint,
    load_first_streams,
    save_checkpoint,
    save_model,
    trained_method,
)
from sae.training.class_weights import training_spec
from sae.training.evaluator import (
    Scaling,
    describe_exits,
    describe_network,
    draw_curves,
    evaluate_split,
    measure_costs,
    measure_members,
    member_outputs,
    split_outputs,
)
from sae.training.parallel import training
from sae.training.teacher import bind_teacher, load_teacher, open_teacher
from sae.training.tracking import Row, RunCallback, check_callbacks, follow
from sae.training.trainer import Progress, Trainer, keep_freed_memory, pick_device, torch_threads, train_epochs

START_ON_OTHER_DATA = "bring the old data back, choose another folder, or start over on the new data with --force"
SEARCH_ON_OTHER_DATA = "bring the old data back, or begin another study in another folder"
REHEARSED = 2
"""Samples that a run is rehearsed on before its first epoch."""


def train(
    config: RunConfig,
    out: Path | str,
    *,
    force: bool = False,
    processes: int = 1,
    until: int | None = None,
    same_data_as: RunRecord | None = None,
    where: Whereabouts = AS_BEFORE,
    display: ProgressDisplay = SILENT,
    callbacks: Sequence[RunCallback] = (),
    on_data: Callable[[Dataset, DataProfile | None], None] = lambda *_: None,
) -> RunRecord:
    """Train, evaluate and record a run; continue it if it was interrupted, return it if it is finished.

    Args:
        config: Everything that the result depends on.
        out: The run folder.
        force: Whether to delete an earlier run in the folder and start over.
        processes: How many processes may train the members of an ensemble; the numbers do not depend on it.
        until: Pause after this epoch, if the run has not passed it, and write its evaluation to `interim.json`.
        same_data_as: An earlier run on the same data, such as another trial of the study; other data are refused.
        where: Where the data of that earlier run are now.
        display: Where progress is shown.
        callbacks: Called at the beginning, after every epoch and at the end; they change no number. See `RunCallback`.
        on_data: Called with the data and their profile once they are read.
    """
    out = Path(out)
    pick_device(config.train.device)
    check_callbacks(callbacks)
    with torch_threads(config.train.threads):
        is_new = force or not _has_begun(out)
        earlier = Binding.read(same_data_as) if same_data_as else None
        before = earlier if is_new else _binding_of(RunRecord(out))
        advice = SEARCH_ON_OTHER_DATA if is_new else START_ON_OTHER_DATA
        dataset = load_bound(config.data, config.seed, before, where, advice)
        binding = before or Binding.of(dataset, config.data)
        dataset = trained_on(dataset, config.train.val_too, config.data.split_seed)
        on_data(dataset, binding.description.profile)
        keep_freed_memory()  # from now on; memory that reading has freed is returned
        spec = training_spec(dataset, config.train)
        method = build_method(config.method, config.backbone, spec, config.seed)
        is_over = not is_new and RunRecord(out).has(RunRecord.STATUS)  # then the teacher is no longer needed
        teacher = open_teacher(config.teacher, out, binding) if config.teacher and not is_over else None
        guide = load_teacher(config, dataset).guide if teacher else None
        with training(method, dataset, config, processes, binding, guide) as trainer:
            costs = check_run(trainer) if is_new else []
            record = RunRecord.create(out, config, force=force)
            with record.lock():
                if is_new and not _has_begun(out):  # another process may have begun it in between
                    binding.write(record)
                if teacher:
                    bind_teacher(teacher, record)
                has_ended, epochs = _has_ended(record), config.train.last_epoch
                progress = None if has_ended else load_checkpoint(record, trainer)
                with follow(callbacks, record, progress.history if progress else record.read_history()) as on_epoch:
                    if progress:
                        last = min(until or epochs, epochs)
                        _train_and_record(trainer, record, progress, last, display, on_epoch, costs)
    return record


def check_run(trainer: Trainer) -> list[Reading]:
    """Rehearse everything that a run will do, so that a run that cannot work is refused before the first epoch.

    On a copy of the method: one training step on a few samples, then pruning, folding and metrics
    at the fewest and the most exits, and the cost at the most, where every operation occurs.
    Neither the trainer nor torch's global generator changes.

    Returns:
        The counted cost, which need not be counted again.
    """
    rehearsal = copy.copy(trainer)
    rehearsal.method = method = _copy_to_train(trainer.method, trainer.streams[0])
    rehearsal.compiled = rehearsal.compile()
    dataset, fewest, most = trainer.dataset, method.exit_choices[0], method.exit_choices[-1]
    with torch.random.fork_rng(devices=[]):
        rehearsal.try_step()
        outputs = member_outputs(method, [trainer.prepare(dataset.train.inputs[:REHEARSED])])
        cost = describe_exits(method, most, dataset.spec)
        if fewest < most:
            method.pruned(fewest).folded(dataset.spec.shape)
        for eval_exits in sorted({fewest, most}):
            for split in (dataset.val, dataset.test):
                # The few outputs repeat, because a metric may need every target of a split.
                repeated = outputs[torch.arange(len(split)) % len(outputs)]
                measure_members(method, repeated, split, eval_exits)
    return [cost]


def _copy_to_train(method: Method, stream: int) -> Method:
    """Return a copy of a method for a step on one stream; it shares the modules of all other streams."""
    others = [method.stream_module(other) for other in range(method.num_streams) if other != stream]
    return copy.deepcopy(method, {id(module): module for module in others})


def derive(config: RunConfig, out: Path, source: Path) -> RunRecord:
    """Record an ensemble whose members are the first members of a larger trained ensemble.

    A member is the same in ensembles of any size, so this records what `train` would record,
    except for the history of the epochs.

    Args:
        config: The config of the smaller ensemble or of the standard network.
        out: Its run folder.
        source: The run folder of the larger ensemble; only the number of members may differ.
    """
    larger = RunRecord.open(source)
    giver = larger.read_config().method
    if giver.name != config.method.members_from:
        raise ConfigError(
            f"members of {config.method.name} must come from {config.method.members_from}, got {giver.name} in {source}"
        )
    share = config.method.num_members / giver.num_members
    with torch_threads(config.train.threads):
        dataset = load_bound(config.data, config.seed, _binding_of(larger))
        method = build_method(config.method, config.backbone, dataset.spec, config.seed)
        record = RunRecord.create(out, config)
        load_first_streams(larger, method.to(pick_device(config.train.device)))
        record_derived(record, larger, method, dataset, share)
    return record


def record_derived(record: RunRecord, source: RunRecord, method: Method, dataset: Dataset, share: float = 1.0) -> None:
    """Evaluate and record a network whose weights come from another run, unless that is done already.

    Args:
        record: The folder to write to.
        source: The other run.
        method: The method with its weights.
        dataset: The data of both.
        share: Share of the other run's training time that this network took.
    """
    with record.lock():
        if _has_ended(record):
            return
        binding = Binding.read(source)
        if binding is not None:
            binding.write(record)
        _record_results(method, dataset, preparation(dataset, record.read_config().train.device), record)
        status = source.read_status()
        seconds = ((status and status.seconds) or 0.0) * share
        record.end("finished", seconds=seconds, derived_from=source.path.name, versions=_versions())


def network_of(record: RunRecord, where: Whereabouts = AS_BEFORE) -> Network:
    """Return the members and parts of the network of a finished run.

    A run of an older version has not recorded them. They are then computed from the weights, which needs
    the data, and recorded, so that reports can draw the network, too.

    Args:
        record: The run.
        where: Where the data are now, and whether other data may be used instead.
    """
    known = record.read_network()
    if known is not None:
        return known
    method, dataset = restore(record, "cpu", where)
    settings = record.read_config().method
    network = describe_network(method, settings, dataset.spec, measure_costs(method, dataset.spec))
    with record.lock():
        record.write_json(record.NETWORK, network.to_json())
    return network


def restore(record: RunRecord, device: str | None = None, where: Whereabouts = AS_BEFORE) -> tuple[Method, Dataset]:
    """Return the trained method of a finished run and the data it was trained on.

    Args:
        record: The run.
        device: The device of the method; by default that of the training.
        where: Where the data are now, and whether other data may be used instead.
    """
    config = record.read_config()
    if config.train.val_too != "none":
        raise ConfigError(
            f"{record.path} was trained on validation samples, too (train.val_too={config.train.val_too}), so nothing "
            f"can be measured or chosen by them: give the run that it came from"
        )
    dataset = load_bound(config.data, config.seed, _binding_of(record), where)
    return trained_method(record, dataset, device), dataset


def _has_begun(out: Path) -> bool:
    """Return whether an earlier command has passed the check and trained at least one epoch here."""
    try:
        return any((out / name).exists() for name in (RunRecord.STATUS, RunRecord.CHECKPOINT))
    except OSError:  # an impossible path; `RunRecord.create` names it
        return False


def _binding_of(record: RunRecord) -> Binding | None:
    """Return the recorded data of a run; None, with a warning, if it was made before data were recorded."""
    binding = Binding.read(record)
    if binding is None:
        warn_of_unbound(record)
    return binding


def _has_ended(record: RunRecord) -> bool:
    """Return whether the run is finished; raise an error if it failed."""
    status = record.read_status()
    if status:
        record.tidy()
    if status and status.state != "finished":
        raise DivergedError(f"{record.path} holds a {status.state} run ({status.reason}): start over with --force")
    return status is not None


def _train_and_record(
    trainer: Trainer,
    record: RunRecord,
    progress: Progress,
    until: int,
    display: ProgressDisplay,
    on_epoch: Callable[[Row], None],
    costs: Sequence[Reading],
) -> None:
    try:
        _train(trainer, record, progress, until, display, on_epoch)
    except DivergedError as error:
        record.end("failed", error=str(error), versions=_versions())
        raise
    stopped = progress.stopping.has_stopped(progress.epoch)
    if progress.epoch < trainer.config.train.last_epoch and not stopped:
        return
    trainer.method.progress = 1.0  # a run of one step ends at progress 0
    with trainer.averaged():
        progress.stopping.restore(trainer.method)
        _record_results(trainer.method, trainer.dataset, trainer.prepare, record, costs)
    epochs = progress.epoch if stopped or trainer.config.train.stop_at else None
    record.end("finished", seconds=progress.seconds, epochs=epochs, versions=_versions())


def _train(
    trainer: Trainer,
    record: RunRecord,
    progress: Progress,
    until: int,
    display: ProgressDisplay,
    on_epoch: Callable[[Row], None],
) -> None:
    """Train all epochs that are not done yet, with a checkpoint after each."""
    done = progress.epoch * trainer.steps_per_epoch
    total = trainer.config.train.last_epoch * trainer.steps_per_epoch
    with display.steps(record.path.name, total, done) as on_step:
        for row in train_epochs(trainer, progress, until, on_step):
            record.write_rows(record.HISTORY, progress.history)
            save_checkpoint(record, trainer, progress)
            on_epoch(row)
    if progress.epoch < trainer.config.train.last_epoch and not progress.stopping.has_stopped(progress.epoch):
        with trainer.averaged():
            progress.stopping.restore(trainer.method)
            outputs = split_outputs(trainer.method, trainer.dataset, trainer.prepare, ["val"])
            evaluation = evaluate_split(Scaling(trainer.method, trainer.dataset, outputs["val"]), "val", outputs)
        interim = Interim(epoch=progress.epoch, seconds=progress.seconds, val=evaluation)
        record.write_json(record.INTERIM, interim.to_json())


def _record_results(
    method: Method, dataset: Dataset, prepare: Preparation, record: RunRecord, known_costs: Sequence[Reading] = ()
) -> None:
    save_model(record, method)
    costs = measure_costs(method, dataset.spec, known_costs)
    outputs = split_outputs(method, dataset, prepare, SPLITS)
    scaling = Scaling(method, dataset, outputs["val"])
    metrics: Json = {name: evaluate_split(scaling, name, outputs, costs).to_json() for name in SPLITS}
    record.write_json(record.METRICS, metrics)
    network = describe_network(method, record.read_config().method, dataset.spec, costs)
    record.write_json(record.NETWORK, network.to_json())
    curves: Json = {
        name: draw_curves(method, dataset.split(name), outputs[name]).to_json(method.exits) for name in SPLITS
    }
    record.write_json(record.CURVES, curves)


def preparation(dataset: Dataset, device: str) -> Preparation:
    """Return the preparation of samples on a device."""
    return Preparation(dataset.normalisation, len(dataset.spec.shape), pick_device(device))


def _versions() -> dict[str, str]:
    return {"sae": __version__, "torch": torch.__version__, "python": platform.python_version()}
