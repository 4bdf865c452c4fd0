"""Predicting with an exported model: numpy and onnxruntime, no torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.deploy.conformal import class_sets, intervals
from sae.deploy.manifest import ADVICE, NAME, Manifest, read_manifest, sha256_of
from sae.deploy.prediction import ClassPrediction, Prediction, ValuePrediction
from sae.deploy.samples import as_samples
from sae.deploy.session import Session
from sae.errors import ConfigError, ModelError

Array = NDArray[Any]


class Model:
    """A shipped model.

    Attributes:
        manifest: What is known of it.
    """

    def __init__(self, manifest: Manifest, session: Session) -> None:
        self.manifest, self._session = manifest, session

    def predict(self, x: Any) -> Prediction:
        """What the model says of samples; of none it says nothing, an empty prediction.

        Args:
            x: Images (batch, channel, height, width), or with channels last, in whole numbers of
                [0, 255]; or features (batch, feature). Image files are read by `sae.deploy.sources`.
        """
        outputs = self._session.run(as_samples(x, self.manifest.input))
        if self.manifest.task == "regression":
            return ValuePrediction(**outputs)
        names = self.manifest.target.class_names
        assert names is not None, "a manifest of a classification has class names"
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
        return self.manifest.conformal.calibration.threshold(coverage)


def load(path: Path | str, threads: int = 1) -> Model:
    """A model that `sae export` left.

    Args:
        path: The `.onnx` file, its `manifest.json` beside it; or the folder of both.
        threads: That one operation may use.
    """
    given = Path(path)
    manifest_path = (given if given.is_dir() else given.parent) / NAME
    if not given.exists():
        raise ModelError(f"a model must be an .onnx file that exists, got {given}")
    if not manifest_path.is_file():
        raise ModelError(
            f"a model must have a {NAME} beside it, however {manifest_path.parent} has none: {given} is "
            f"not from `sae export`, or was moved without it"
        )
    manifest = read_manifest(manifest_path)
    content = _read_graph(given / manifest.graph.file if given.is_dir() else given, manifest, manifest_path)
    session = Session(content, threads)
    _check_agreement(manifest, session, manifest_path)
    return Model(manifest, session)


def _read_graph(path: Path, manifest: Manifest, manifest_path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} must be readable, however: {error.strerror}: {ADVICE}") from None
    if sha256_of(content) != manifest.graph.sha256:
        raise ModelError(
            f"{path} must be the graph that {manifest_path} describes (SHA-256 {manifest.graph.sha256[:12]}…), "
            f"however it is another ({sha256_of(content)[:12]}…): {ADVICE}"
        )
    return content


def _check_agreement(manifest: Manifest, session: Session, manifest_path: Path) -> None:
    """The bytes are those that were exported; this finds a manifest that was changed since."""
    takes = manifest.input
    pairs: Sequence[tuple[str, Any, Any]] = (
        ("input", takes.name, session.input_name),
        ("dtype", takes.dtype, session.dtype),
        ("shape", tuple(takes.shape), session.shape),
        ("outputs", tuple(manifest.graph.outputs), session.outputs),
    )
    for what, said, found in pairs:
        if said != found:
            raise ModelError(
                f"{manifest_path} must agree with its graph, however its {what} is {said} and the graph's {found}: "
                f"{ADVICE}"
            )
    names = manifest.target.class_names
    if names is not None and session.width("probs") != len(names):
        raise ModelError(
            f"{manifest_path} must name every class of its graph, got {len(names)} names for "
            f"{session.width('probs')}: {ADVICE}"
        )
