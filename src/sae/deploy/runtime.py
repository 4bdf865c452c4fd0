"""Predicting with an exported model: numpy and onnxruntime, no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import ConfigError, ModelError
from sae.deploy.conformal import Calibration, class_sets, intervals
from sae.deploy.manifest import ADVICE, NAME, Manifest, read_manifest, sha256_of
from sae.deploy.session import Session, Staged
from sae.deploy.sources import as_samples

Array = NDArray[Any]


@dataclass(frozen=True)
class ClassPrediction:
    """Of a classification.

    Attributes:
        labels: The most probable class of each sample, (batch,), int64.
        probs: (batch, class).
        entropy: How uncertain the prediction is, in nats, (batch,).
        disagreement: How far the members disagree, in nats, (batch,).
        class_names: In the order of `probs`.
        exits: The depth of the exit that each sample left at, counted from 1, (batch,); None of a plain graph.
    """

    labels: Array
    probs: Array
    entropy: Array
    disagreement: Array
    class_names: tuple[str, ...]
    exits: Array | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def names(self) -> list[str]:
        """The name of the most probable class of each sample."""
        return [self.class_names[label] for label in self.labels]

    @property
    def confidence(self) -> Array:
        """The probability of the most probable class, (batch,)."""
        highest: Array = self.probs.max(axis=1, initial=0.0)
        return highest

    def abstains(self, threshold: float) -> Array:
        """Which samples to pass to a human, (batch,): those whose top probability is below the threshold."""
        below: Array = self.confidence < threshold
        return below


@dataclass(frozen=True)
class ValuePrediction:
    """Of a regression, in the units of the data.

    Attributes:
        mean: (batch,).
        variance: (batch,).
        entropy: How uncertain the prediction is, in nats, (batch,).
        disagreement: The variance of the members' means, (batch,).
    """

    mean: Array
    variance: Array
    entropy: Array
    disagreement: Array

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def std(self) -> Array:
        """(batch,)."""
        root: Array = np.sqrt(self.variance)
        return root


Prediction = ClassPrediction | ValuePrediction


class Model:
    """A shipped model.

    Attributes:
        manifest: What is known of it.
        graph: What computes: the plain graph, or its stages.
    """

    def __init__(self, manifest: Manifest, graph: Session | Staged) -> None:
        self.manifest, self.graph = manifest, graph

    def predict(self, x: Any) -> Prediction:
        """What the model says of samples; of none it says nothing, an empty prediction.

        Args:
            x: Images (batch, channel, height, width), or with channels last, in whole numbers of
                [0, 255]; or features (batch, feature). Image files are read by `sae.deploy.sources`.
        """
        outputs = self.graph.run(as_samples(x, self.manifest.input))
        if self.manifest.task == "regression":
            return ValuePrediction(**outputs)
        names = self.manifest.target.class_names
        assert names is not None, "a manifest of a classification has class names"
        if "stage" in outputs:
            outputs["exits"] = self._exits()[outputs.pop("stage")]
        labels = outputs["probs"].argmax(axis=1) if len(outputs["probs"]) else np.zeros(0, np.int64)
        return ClassPrediction(labels, class_names=names, **outputs)

    def sets(self, prediction: Prediction, coverage: float = 0.9) -> Array:
        """Which classes each sample's set holds, (batch, class); it holds the true one with this probability."""
        if not isinstance(prediction, ClassPrediction):
            raise ConfigError("sets are of classes, however this model predicts values: ask for intervals")
        return class_sets(prediction.probs, self.threshold(coverage))

    def intervals(self, prediction: Prediction, coverage: float = 0.9) -> tuple[Array, Array]:
        """Lower and upper ends, (batch,) each, that hold the true value with this probability."""
        if not isinstance(prediction, ValuePrediction):
            raise ConfigError("intervals are of values, however this model predicts classes: ask for sets")
        return intervals(prediction.mean, prediction.variance, self.threshold(coverage))

    def threshold(self, coverage: float) -> float:
        """The conformal score up to which an answer belongs into a set or interval."""
        return self._calibration().threshold(coverage)

    def mean_flops(self, prediction: Prediction) -> float:
        """What the samples of a prediction cost on average, as a share of the plain graph's FLOPs."""
        exits = prediction.exits if isinstance(prediction, ClassPrediction) else None
        part = self.manifest.adaptive
        if exits is None or part is None or not len(exits):
            return 1.0
        flops = np.array([stage.flops for stage in part.stages])
        return float(flops[np.searchsorted(self._exits(), exits)].mean() / flops[-1])

    def _exits(self) -> Array:
        part = self.manifest.adaptive
        assert part is not None, "stages are of a manifest that lists them"
        return np.array([stage.exit for stage in part.stages])

    def _calibration(self) -> Calibration:
        """Of the answers that are given: those of early exits have scores of their own."""
        part = self.manifest.adaptive
        return (
            part.calibration
            if part is not None and isinstance(self.graph, Staged)
            else (self.manifest.conformal.calibration)
        )


def load(path: Path | str, threads: int = 1) -> Model:
    """A model that `sae export` left.

    Args:
        path: The `.onnx` file, its `manifest.json` beside it; or the folder of both.
        threads: That one operation may use.
    """
    given, manifest, manifest_path = _find(path)
    content = _read_graph(
        given / manifest.graph.file if given.is_dir() else given, manifest.graph.sha256, manifest_path
    )
    session = Session(content, threads)
    _check_agreement(manifest, session, manifest_path)
    return Model(manifest, session)


def load_adaptive(path: Path | str, threads: int = 1, threshold: float | None = None) -> Model:
    """The same model in stages: a sample leaves at the first exit that is confident enough.

    Args:
        path: As of `load`; exported with `--adaptive`.
        threads: That one operation may use.
        threshold: The confidence from which a sample leaves; by default the calibrated one, for which alone
            coverage is promised.
    """
    _, manifest, manifest_path = _find(path)
    part = manifest.adaptive
    if part is None:
        raise ModelError(
            f"adaptive exits need the stages of a model, however {manifest_path} lists none: export it with --adaptive"
        )
    if threshold is not None and not threshold >= 0:
        raise ConfigError(f"the threshold must be a probability, or above 1 for never, got {threshold}")
    stages = [
        Session(_read_graph(manifest_path.with_name(stage.file), stage.sha256, manifest_path), threads)
        for stage in part.stages
    ]
    _check_input(manifest, stages[0], manifest_path)
    seen = [stage.seen for stage in part.stages]
    return Model(manifest, Staged(stages, seen, part.threshold if threshold is None else threshold))


def _find(path: Path | str) -> tuple[Path, Manifest, Path]:
    """What was given, the manifest that belongs to it, and where that is."""
    given = Path(path)
    manifest_path = (given if given.is_dir() else given.parent) / NAME
    if not given.exists():
        raise ModelError(f"a model must be an .onnx file that exists, got {given}")
    if not manifest_path.is_file():
        raise ModelError(
            f"a model must have a {NAME} beside it, however {manifest_path.parent} has none: {given} is "
            f"not from `sae export`, or was moved without it"
        )
    return given, read_manifest(manifest_path), manifest_path


def _read_graph(path: Path, sha256: str, manifest_path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} must be readable, however: {error.strerror}: {ADVICE}") from None
    if sha256_of(content) != sha256:
        raise ModelError(
            f"{path} must be the graph that {manifest_path} describes (SHA-256 {sha256[:12]}…), "
            f"however it is another ({sha256_of(content)[:12]}…): {ADVICE}"
        )
    return content


def _check_agreement(manifest: Manifest, session: Session, manifest_path: Path) -> None:
    """The bytes are those that were exported; this finds a manifest that was changed since."""
    _check_input(manifest, session, manifest_path)
    _check_pairs([("outputs", tuple(manifest.graph.outputs), session.outputs)], manifest_path)
    names = manifest.target.class_names
    if names is not None and session.width("probs") != len(names):
        raise ModelError(
            f"{manifest_path} must name every class of its graph, got {len(names)} names for "
            f"{session.width('probs')}: {ADVICE}"
        )


def _check_input(manifest: Manifest, session: Session, manifest_path: Path) -> None:
    takes = manifest.input
    pairs = [
        ("input", takes.name, session.input_name),
        ("dtype", takes.dtype, session.dtype),
        ("shape", tuple(takes.shape), session.shape),
    ]
    _check_pairs(pairs, manifest_path)


def _check_pairs(pairs: Sequence[tuple[str, Any, Any]], manifest_path: Path) -> None:
    for what, said, found in pairs:
        if said != found:
            raise ModelError(
                f"{manifest_path} must agree with its graph, however its {what} is {said} and the graph's {found}: "
                f"{ADVICE}"
            )
