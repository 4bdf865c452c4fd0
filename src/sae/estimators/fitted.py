"""A fitted network in an estimator: weights, encodings and metrics, but no row of its data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from sae.config.run import RunConfig
from sae.core.predictive import Categorical, Gaussian, Predictive, join
from sae.core.seeds import derive_seed
from sae.core.task import DataSpec
from sae.data.batches import Preparation, evaluation_batches
from sae.data.columns import Column
from sae.data.dataset import Array, ColumnEncoding, Dataset, Depth, Features, Normalisation, Split
from sae.deploy.conformal import ConformalPart, ConformalScores, class_scores, keep_scores, value_scores
from sae.deploy.evaluation import PARITY_SAMPLES
from sae.deploy.manifest import Manifest
from sae.deploy.method_export import TrainedMethod, export_method
from sae.deploy.rows import encode_columns
from sae.methods import Method, build_method
from sae.records.folder import Arrays
from sae.records.receipt import RefitPart
from sae.training.evaluator import measure_predictive, predictive_at
from sae.training.trainer import torch_threads

CPU = torch.device("cpu")


@dataclass(frozen=True)
class RowForm:
    """The form of encoded rows, for a graph.

    Attributes:
        spec: Number of features, and the task.
        normalisation: Normalisation of the features.
        frame: Frame of images; rows have none.
        depth: Bits of images; of no effect for rows.
    """

    spec: DataSpec
    normalisation: Normalisation
    frame: int = 0
    depth: Depth = 8


@dataclass(frozen=True, eq=False)
class FittedNetwork:
    """A trained method with everything that predictions need.

    A pickle of it holds its weights as plain arrays; the method is built again from them.

    Attributes:
        config: How it was trained.
        spec: Number of features, and the task.
        normalisation: Normalisation of the features.
        columns: Encodings of the columns.
        class_names: Names of the classes in the order of the labels; None for regression.
        eval_exits: K′, the number of exits that it predicts with.
        weights: The weights of the method by name.
        metrics: Metrics on the validation rows.
        calibration: Conformal scores of the validation rows; None until they are measured.
        refit: The last training on all rows, if there was one.
        target_names: Names of the targets, if there are several.
    """

    config: RunConfig
    spec: DataSpec
    normalisation: Normalisation
    columns: tuple[ColumnEncoding, ...]
    class_names: tuple[str, ...] | None
    eval_exits: int
    weights: Arrays
    metrics: dict[str, float]
    calibration: ConformalScores | None
    refit: RefitPart | None = None
    target_names: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        method: Method,
        dataset: Dataset,
        config: RunConfig,
        eval_exits: int,
        held_out: "Sequence[HeldOut]" = (),
    ) -> "FittedNetwork":
        """Keep a method that was just trained, and measure it on the validation rows.

        Args:
            method: The method.
            dataset: Its data.
            config: How it was trained.
            eval_exits: K′, the number of exits that it predicts with.
            held_out: If it has seen the validation rows: networks that have not.
        """
        weights = {name: np.array(tensor.detach().cpu().numpy()) for name, tensor in method.state_dict().items()}
        assert dataset.columns is not None, "a table has columns"
        plain = cls(
            config,
            dataset.spec,
            dataset.normalisation,
            dataset.columns,
            dataset.class_names,
            eval_exits,
            weights,
            metrics={},
            calibration=None,
            target_names=dataset.target_names,
        )
        lots = held_out or [HeldOut(plain, dataset.val)]
        predictive = join([lot.network.predict_features(lot.rows.inputs[:].astype(np.float64)) for lot in lots])
        targets = np.concatenate([lot.rows.targets for lot in lots])
        measured = measure_predictive(predictive, torch.from_numpy(targets))
        refit = RefitPart(samples=len(dataset.train), folds=len(held_out)) if held_out else None
        return replace(plain, metrics=measured, calibration=_calibrate(predictive, targets), refit=refit)

    def __post_init__(self) -> None:
        self._build()

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name in self.__dataclass_fields__}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._build()

    def _build(self) -> None:
        method = build_method(self.config.method, self.config.backbone, self.spec, self.config.seed)
        method.load_state_dict({name: torch.tensor(array) for name, array in self.weights.items()})
        vars(self)["method"] = method.eval()

    @property
    def method(self) -> Method:
        """The trained method, on the CPU."""
        method: Method = vars(self)["method"]
        return method

    def encode(self, columns: dict[str, Column]) -> Features:
        """Return the features of rows, (row, feature), encoded like the training rows."""
        return encode_columns(columns, self.columns, "X", self.spec.shape).samples

    def predict_features(self, features: Features) -> Predictive:
        """Predict rows from their features, (row, feature), with the same members as an exported network."""
        prepare = Preparation(self.normalisation, len(self.spec.shape), CPU)
        with torch_threads(self.config.train.threads), torch.inference_mode():
            batches = [self.method.shipped_outputs(x) for x in evaluation_batches(features, prepare)]
            return predictive_at(self.method, torch.cat(batches), self.eval_exits)

    def threshold(self, coverage: float) -> float:
        """Return the largest conformal score that is still in a set or interval."""
        assert self.calibration is not None, "a fitted network has conformal scores"
        return self.calibration.threshold(coverage)

    def export(self, out: Path, *, force: bool) -> Manifest:
        """Write the network as ONNX with a manifest, if its predictions agree with the method's.

        No rows are kept to compare on, so both predict rows that are drawn around the training mean. The metrics are
        those of the validation rows, measured when the network was fitted.
        """
        scores, conformal = self.calibration, None
        if scores is not None:
            conformal = ConformalPart(calibration=scores, tried=None, test_coverage=None, test_size=None)
        trained = TrainedMethod(
            self.method,
            self.config.method,
            self.config.backbone.name,
            self.spec,
            self.class_names,
            RowForm(self.spec, self.normalisation),
            self.columns,
            {"val": self.metrics},
            conformal,
            self.refit,
            self.target_names or (),
        )
        with torch_threads(self.config.train.threads):
            return export_method(trained, out, self._drawn(2 * PARITY_SAMPLES), self.eval_exits, force=force)

    def _drawn(self, num_rows: int) -> Features:
        """Return the features of rows that were drawn around the training mean, to compare predictions on."""
        generator = np.random.default_rng(derive_seed(self.config.seed, "parity"))
        mean, std = np.array(self.normalisation.mean), np.array(self.normalisation.std)
        return mean + std * generator.standard_normal((num_rows, *self.spec.shape))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A network, and validation rows that it has not seen."""

    network: FittedNetwork
    rows: Split


def _calibrate(predictive: Predictive, targets: Array) -> ConformalScores | None:
    """Return the conformal scores of the validation rows; None for several labels, which have no sets."""
    if isinstance(predictive, Categorical) and targets.ndim == 2:
        return None
    if isinstance(predictive, Categorical):
        return keep_scores(class_scores(predictive.probs.numpy(), targets), "one_minus_probability")
    assert isinstance(predictive, Gaussian), f"predictions are of two kinds, got {type(predictive)}"
    scores = value_scores(predictive.mean.numpy(), predictive.variance.numpy(), targets)
    return keep_scores(scores, "standardised_error")
