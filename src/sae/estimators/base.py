"""The common base of both estimators: settings, fitting and export."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from sae.config.settings import Layer, Values, merge
from sae.core.predictive import Predictive
from sae.core.progress import Bar
from sae.data.columns import Reading
from sae.data.dataset import Array
from sae.data.table import reading_of
from sae.deploy.manifest import Manifest
from sae.estimators.fitted import FittedNetwork
from sae.estimators.fitting import Goal, Rows, fit_network, nested, settings_of
from sae.estimators.inputs import (
    EstimatorError,
    as_value_errors,
    check_given_names,
    check_lengths,
    hold_out_rows,
    join_rows,
    kept_rows,
    names_of,
    read_columns,
    read_targets,
    read_weights,
    reading_like,
)
from sae.estimators.searching import Trial, budget_of, search_rows

LARGEST_SEED = 2**31 - 1

PARAMETERS = """
    Args:
        method: Name of the method to train: sae, standard, ensemble, mc_dropout, batch_ensemble or packed.
        task: "ordinal" for classes in an order, which are numbers; "counts" for whole numbers from 0. By default
            classes have no order, and values may be any numbers.
        inputs: N, inputs of the network; by default that of the method.
        exits: K, exits per input; by default that of the method.
        backbone: Name of the network, one that takes rows of a table: fc, or another package's.
        width: Width of the network, times 128 features.
        depth: Residual blocks of the network.
        epochs: Most passes over the training rows; by default as many as suit their number.
        batch_size: Rows per update; by default a size that suits their number.
        learning_rate: Step size at the start; by default a rate that suits the number of rows.
        patience: Stop after this many epochs without a better validation NLL, and keep the best epoch. 0 never
            stops; by default a quarter of the epochs.
        validation_fraction: Share of the rows for validation, which decide when to stop and how wide intervals are.
        refit: Train once more on all rows, those for validation, too, for as many updates as was best on these; by
            default for classes, and never with `X_val` or weights of rows. Two more networks, each without one half of
            the validation rows, then decide how large sets and intervals are.
        search: A number of seconds, or a text like "20 trials": first search for the best settings of the method
            and the network, on the training rows alone, then train with them. Trials that run when the time is up
            finish.
        categories: Columns of numbers that are categories.
        dates: Columns that hold dates; pandas times and ISO dates are recognised without this.
        settings: Any other setting of a run by its path, as `--set` takes it, e.g. {"train.weight_decay": 1e-4}.
        device: cpu, cuda, …; predictions are computed on the CPU.
        n_jobs: Trials of a search at once. More than 1 starts processes, so a script needs the usual
            `if __name__ == "__main__":`.
        verbose: 1 shows the progress of the training: a bar on a terminal, some lines in a log.
        random_state: An integer makes results repeatable, and without `refit` equal to those of `sae train --seed`.

    Attributes:
        network_: The trained network, with its settings (`network_.config`) and encodings.
        history_: Loss and validation metrics of each epoch.
        n_iter_: Epochs that were trained before the last training on all rows.
        trials_: The trials of the search, the best first; only with `search`.
        n_features_in_: Number of columns.
        feature_names_in_: Their names, if they were given.
"""


class SaeEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base of `SAEClassifier` and `SAERegressor`."""

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        cls.__doc__ = f"{cls.__doc__}{PARAMETERS}"

    def __init__(
        self,
        *,
        method: str = "sae",
        task: str | None = None,
        inputs: int | None = None,
        exits: int | None = None,
        backbone: str | None = None,
        width: int | None = None,
        depth: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        patience: int | None = None,
        validation_fraction: float = 0.2,
        refit: bool | None = None,
        search: float | str | None = None,
        categories: Sequence[str] = (),
        dates: Sequence[str] = (),
        settings: Mapping[str, object] | None = None,
        device: str = "cpu",
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.method = method
        self.task = task
        self.inputs = inputs
        self.exits = exits
        self.backbone = backbone
        self.width = width
        self.depth = depth
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.search = search
        self.categories = categories
        self.dates = dates
        self.settings = settings
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__({"refit": False, "task": None, **state})  # pickles of earlier versions

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    def fit(
        self,
        X: object,  # noqa: N803
        y: object,
        sample_weight: object = None,
        *,
        X_val: object = None,  # noqa: N803
        y_val: object = None,
    ) -> Self:
        """Train a network.

        Args:
            X: Rows, an array (row, column) or a data frame: numbers, texts, categories, dates, missing values.
            y: Targets, (row,), or several, (row, target): numbers, or for a classifier labels that are 0 or 1.
            sample_weight: How much each row counts in the loss, (row,), on any scale. A row of weight 0 is left out.
                They also choose the epoch to keep; metrics and intervals count validation rows alike.
            X_val: Rows that decide when to stop and how wide intervals are, instead of a share of `X`.
            y_val: Their targets.
        """
        with as_value_errors():
            if (X_val is None) != (y_val is None):
                raise EstimatorError("X_val and y_val must be given together, got only one of them")
            seed = self._choose_seed()
            columns = read_columns(self, X, Reading(tuple(self.categories), tuple(self.dates)), reset=True)
            check_given_names("categories", self.categories, columns)
            check_given_names("dates", self.dates, columns)
            if self.refit and sample_weight is not None:
                raise EstimatorError("refit=True is for rows without weights, got sample_weight: leave out one of them")
            weights = None if sample_weight is None else read_weights(self, sample_weight, y)
            if weights is not None and not weights.all():
                check_lengths(columns, weights)
                columns, y = kept_rows(columns, weights > 0), np.asarray(y)[weights > 0]
                weights = weights[weights > 0]
            names = names_of(y, read_targets(self, y))
            targets = self._learn_targets(y)
            goal = Goal(self._task(), self._class_names, names)
            if X_val is None:
                rows = hold_out_rows(columns, targets, goal, seed, self.validation_fraction)
            else:
                others = read_columns(self, X_val, reading_like(columns), reset=False)
                rows = join_rows(columns, targets, goal, others, self._encode_targets(y_val))
            refits = goal.task in ("classification", "ordinal") if self.refit is None else self.refit
            self._train(rows.weighted(weights), seed, refits=refits and X_val is None and weights is None)
        return self

    def _train(self, rows: Rows, seed: int, *, refits: bool) -> None:
        layers: list[Layer] = [self._layer(), {"seed": seed}]
        eval_exits = None
        if self.search is not None:
            found = search_rows(rows, budget_of(self.search), layers, seed, effective_n_jobs(self.n_jobs))
            layers, eval_exits = [*layers, found.layer], found.eval_exits
            self.trials_: list[Trial] = found.trials
        bar = Bar() if self.verbose else None
        weights, config = self._class_weights(rows), settings_of(rows, *layers)
        fit = fit_network(rows, config, eval_exits, weights, bar, refits=refits)
        self.network_: FittedNetwork = fit.network
        self.history_ = fit.progress.history
        self.n_iter_ = fit.progress.epoch

    def export(self, out: str | Path, *, force: bool = False) -> Manifest:
        """Write the network as ONNX with a manifest beside it; `sae.load` and `sae predict` read it.

        Args:
            out: The `.onnx` file. Its folder holds this one model.
            force: Replace another model in the folder.
        """
        check_is_fitted(self)
        with as_value_errors():
            return self.network_.export(Path(out), force=force)

    def _predictive(self, x: object) -> Predictive:
        """Return the predictive distribution of each row."""
        check_is_fitted(self)
        with as_value_errors():
            columns = read_columns(self, x, reading_of(self.network_.columns), reset=False)
            return self.network_.predict_features(self.network_.encode(columns))

    def _layer(self) -> Values:
        """Return the settings that were given; the others are left to the method and the data."""
        train = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "lr": self.learning_rate,
            "patience": self.patience,
            "device": self.device,
        }
        sections: dict[str, dict[str, object]] = {
            "method": {"name": self.method, "inputs": self.inputs, "exits": self.exits},
            "backbone": {"name": self.backbone, "width": self.width, "depth": self.depth},
            "train": dict(train),
        }
        given = {
            name: {key: value for key, value in section.items() if value is not None}
            for name, section in sections.items()
        }
        if not isinstance(self.settings, Mapping | None):
            raise EstimatorError(f'settings must be like {{"train.weight_decay": 1e-4}}, got {self.settings!r}')
        return merge(given, nested(self.settings or {}))

    def _choose_seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            if not 0 <= self.random_state <= LARGEST_SEED:
                raise EstimatorError(f"random_state must be in [0, {LARGEST_SEED}], got {self.random_state}")
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(LARGEST_SEED))

    TASKS: ClassVar[tuple[str, str]]
    """The task, and the other one that may be asked for."""

    def _task(self) -> str:
        """Return the task, as in settings."""
        if self.task not in (None, *self.TASKS):
            raise EstimatorError(f"task must be one of {', '.join(self.TASKS)}, got {self.task!r}")
        return self.task or self.TASKS[0]

    @property
    def _class_names(self) -> tuple[str, ...] | None:
        """Names of the classes, if one of several is right."""
        return None

    def _class_weights(self, rows: Rows) -> tuple[float, ...] | None:
        """Return the factor of each class in the loss; None if all count the same."""
        del rows
        return None

    def _learn_targets(self, y: object) -> Array:
        """Return labels or values, (row,), and remember the classes."""
        return self._encode_targets(y)

    def _encode_targets(self, y: object) -> Array:
        """Return labels or values, (row,)."""
        raise NotImplementedError(f"{type(self).__name__} must say what its targets are")
