"""Fitting: from columns in memory to a trained network, by the same code as `sae train`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from sae.config.run import RunConfig, ValToo
from sae.config.settings import Layer, Values, merge
from sae.core.errors import ConfigError
from sae.core.progress import SILENT, Bar
from sae.core.task import Classification, WeightedClassification
from sae.data.columns import Column
from sae.data.dataset import Array, Dataset, Indices
from sae.data.frames import dataset_of, resolve_table
from sae.data.splits import trained_on
from sae.estimators.fitted import FittedNetwork, HeldOut
from sae.methods import build_method
from sae.training.class_weights import training_spec
from sae.training.evaluator import best_exits
from sae.training.kept_weights import EarlyStopping
from sae.training.refit import folds_of, refit_config
from sae.training.tracking import epoch_note
from sae.training.trainer import Progress, SampleWeights, Trainer, pick_device, torch_threads, train_epochs

TABLE = "X"
"""Name of the table in messages."""


@dataclass(frozen=True)
class Goal:
    """What is predicted.

    Attributes:
        task: As in settings.
        class_names: Names of the classes, if one of several is right.
        target_names: Names of the targets, if there are several.
    """

    task: str
    class_names: tuple[str, ...] | None = None
    target_names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Rows:
    """A table in memory with its targets.

    Attributes:
        columns: The columns to predict from.
        targets: Labels or values, (row[, target]).
        goal: What they are.
        train: Rows to train on.
        val: Rows that decide when to stop, and how wide intervals are.
        weights: How much each row counts in training, and for the epoch to keep; None if all count 1.
    """

    columns: Mapping[str, Column]
    targets: Array
    goal: Goal
    train: Indices
    val: Indices
    weights: SampleWeights | None = None

    def weighted(self, weights: NDArray[np.float64] | None) -> "Rows":
        """Return the rows with weights on any scale: of all rows, or of those to train on if these come first."""
        if weights is None:
            return self
        scaled = torch.from_numpy(weights / weights[self.train].mean()).float()
        val = scaled[self.val] if len(weights) == len(self.targets) else None
        return replace(self, weights=SampleWeights(scaled[self.train], val))

    def dataset(self) -> Dataset:
        """Return them encoded and standardised."""
        parts, goal = (self.train, self.val), self.goal
        return dataset_of(self.columns, self.targets, goal.class_names, parts, TABLE, goal.task, goal.target_names)


@dataclass(frozen=True)
class Fit:
    """The result of a training.

    Attributes:
        network: The trained network.
        progress: The epochs of its training.
    """

    network: FittedNetwork
    progress: Progress


def settings_of(rows: Rows, *layers: Layer) -> RunConfig:
    """Return the settings of a training: the given ones over those that suit the number of rows."""
    return resolve_table(len(rows.train), {"data": {"name": TABLE, "task": rows.goal.task}}, *layers)


def fit_network(
    rows: Rows,
    config: RunConfig,
    eval_exits: int | None = None,
    class_weights: tuple[float, ...] | None = None,
    bar: Bar | None = None,
    *,
    refits: bool = False,
) -> Fit:
    """Train a network; the weights are those that `sae train` finds with the same rows and settings.

    Args:
        rows: The table.
        config: The settings.
        eval_exits: K′ to predict with; by default the best on validation.
        class_weights: The factor of each class in the loss, if the settings do not balance classes.
        bar: Where progress is shown.
        refits: Train once more on all rows; validation rows are then predicted by two networks that each have not
            seen half of them. Rows have no weights then.
    """
    if config.teacher is not None:
        raise ConfigError("an estimator learns from labels alone, got a teacher: use sae train --teacher, or remove it")
    if config.train.val_too != "none":
        raise ConfigError(f"train.val_too must be none for an estimator, got {config.train.val_too}: see refit")
    pick_device(config.train.device)
    dataset = rows.dataset()

    assert not (refits and rows.weights), "rows with weights are not trained on again"

    def fit(config: RunConfig, exits: int | None, held_out: Sequence[HeldOut] = ()) -> Fit:
        rest = trained_on(dataset, config.train.val_too, config.data.split_seed)
        return _fit_once(rest, config, exits, class_weights, held_out, rows.weights, bar)

    first = fit(config, eval_exits)
    if not refits or len(dataset.val) < 2:
        return first
    exits = first.network.eval_exits  # the last network has seen what would choose them

    def settings(val_too: ValToo) -> RunConfig:
        return refit_config(config, first.progress.history, val_too, len(dataset.train), len(dataset.val))

    held_out = [
        HeldOut(fit(settings(fold), exits).network, trained_on(dataset, fold, config.data.split_seed).val)
        for fold in folds_of(config)
    ]
    return Fit(fit(settings("all"), exits, held_out).network, first.progress)


def _fit_once(
    dataset: Dataset,
    config: RunConfig,
    eval_exits: int | None,
    class_weights: tuple[float, ...] | None,
    held_out: Sequence[HeldOut],
    weights: SampleWeights | None,
    bar: Bar | None,
) -> Fit:
    with torch_threads(config.train.threads):
        spec = training_spec(dataset, config.train)
        if class_weights is not None and isinstance(spec.task, Classification):
            spec = replace(spec, task=WeightedClassification(spec.task.num_classes, class_weights))
        method = build_method(config.method, config.backbone, spec, config.seed)
        if eval_exits is not None:
            method.resolve_exits(eval_exits)
        trainer = Trainer(method, dataset, config, weights=weights)
        progress = Progress(stopping=EarlyStopping(config.train.patience))
        with (bar or SILENT).steps("fit", trainer.num_steps) as on_step:
            for row in train_epochs(trainer, progress, config.train.last_epoch, on_step):
                if bar:
                    bar.note = epoch_note(row, config.train.last_epoch)
        method.progress = 1.0
        with trainer.averaged():
            progress.stopping.restore(method)
            if eval_exits is None:
                of_val = weights.val if weights else None
                eval_exits = best_exits(method, dataset.val, trainer.prepare, of_val)
            return Fit(FittedNetwork.of(method, dataset, config, eval_exits, held_out), progress)


def nested(settings: Mapping[str, object]) -> Values:
    """Return settings that are given by paths, like those of `--set`, as a layer.

    Example:
        >>> nested({"train.lr": 0.001, "method": {"kl_weight": {"start": 0.1, "end": 0.1}}})["train"]
        {'lr': 0.001}
    """
    layer: Values = {}
    for path, value in settings.items():
        inner: object = value
        for key in reversed(path.split(".")):
            inner = {key: inner}
        assert isinstance(inner, dict), "a path has at least one key"
        layer = merge(layer, inner)
    return layer
