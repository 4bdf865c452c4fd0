"""Predicting with a shipped model: numpy and onnxruntime, no torch."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sae.core.errors import ConfigError, ModelError
from sae.deploy.conformal import ConformalScores, Values, are_all, class_sets, intervals
from sae.deploy.manifest import ADVICE, NAME, Manifest, TargetPart, read_manifest
from sae.deploy.rows import Frame, Row, encode_rows, encodings_of, is_rows
from sae.deploy.session import MEMBERS, Floats, Integers, Output, SegmentSessions, Session, limited
from sae.deploy.sources import as_samples

NO_CLASS = -1
"""The label of a sample whose probabilities are not finite."""
DIMENSIONS = {"probs": 2, MEMBERS: 3}
"""Dimensions of outputs with more than one number for each sample."""
ROUNDING = 1e-2
"""Probabilities of a graph, also of one in int8, sum to 1 within this."""


@dataclass(frozen=True)
class ClassPrediction:
    """Predictions of a classification.

    Attributes:
        labels: The most probable class of each sample, (batch,), int64; `NO_CLASS` if its probabilities are not finite.
        probs: Probabilities, (batch, class).
        entropy: Uncertainty of the prediction in nats, (batch,).
        disagreement: Disagreement between the members in nats, (batch,).
        class_names: Names of the classes in the order of `probs`.
        exits: The depth of the exit at which each sample left, counted from 1, (batch,); None for a plain graph.
        members: Probabilities of every member, (batch, member, class), ordered as in the manifest; None unless asked
            for.
        unusual: The first column or channel in which each sample is far outside of the training data, (batch,), empty
            if none is; None for a model without a profile.
    """

    labels: Integers
    probs: Floats
    entropy: Floats
    disagreement: Floats
    class_names: tuple[str, ...]
    exits: Integers | None = None
    members: Floats | None = None
    unusual: NDArray[np.generic] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def names(self) -> list[str]:
        """The name of the most probable class of each sample; empty for `NO_CLASS`."""
        return [self.class_names[label] if label != NO_CLASS else "" for label in self.labels]

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Whether the probabilities of each sample are finite, (batch,)."""
        has_class: NDArray[np.bool_] = self.labels != NO_CLASS
        return has_class

    @property
    def confidence(self) -> Floats:
        """The probability of the most probable class, (batch,)."""
        highest: Floats = self.probs.max(axis=1, initial=0.0)
        return highest

    def abstains(self, threshold: float) -> NDArray[np.bool_]:
        """Return which samples to pass to a human, (batch,): those whose top probability is not at the threshold."""
        above: NDArray[np.bool_] = self.confidence >= threshold
        return ~above  # also without a probability


@dataclass(frozen=True)
class LabelPrediction:
    """Predictions of several labels, each of which holds or not.

    Attributes:
        probs: The probability that each label holds, (batch, label).
        entropy: Uncertainty of the prediction in nats, the mean over labels, (batch,).
        disagreement: Disagreement between the members in nats, the mean over labels, (batch,).
        names: Names of the labels.
        members: Probabilities of every member, (batch, member, label); None unless asked for.
        unusual: As for classes.
    """

    probs: Floats
    entropy: Floats
    disagreement: Floats
    names: tuple[str, ...]
    members: Floats | None = None
    unusual: NDArray[np.generic] | None = None

    def __len__(self) -> int:
        return len(self.probs)

    @property
    def labels(self) -> Integers:
        """Whether each label holds, (batch, label): 1 if that is more probable than not, 0, or `NO_CLASS`."""
        return np.where(np.isfinite(self.probs), self.probs > 0.5, NO_CLASS)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Whether the probabilities of each sample are finite, (batch,)."""
        return are_all(np.isfinite(self.probs))


@dataclass(frozen=True)
class ValuePrediction:
    """Predictions of a regression, in the units of the data and in float64.

    Attributes:
        mean: Means, (batch[, target]).
        variance: Variances, (batch[, target]).
        entropy: Uncertainty of the prediction in nats, (batch,).
        disagreement: The variance of the members' means, (batch,); of several targets see `sae.measure.uncertainty`.
        members: Mean and variance of every member, (batch, member, [target,] 2), ordered as in the manifest; None
            unless asked for.
        unusual: As for classes.
    """

    mean: Output
    variance: Output
    entropy: Output
    disagreement: Output
    members: Output | None = None
    unusual: NDArray[np.generic] | None = None

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def std(self) -> Output:
        """Standard deviations, (batch,)."""
        root: Output = np.sqrt(self.variance)
        return root

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Whether mean and variance of each sample are finite, (batch,)."""
        return are_all(np.isfinite(self.mean) & np.isfinite(self.variance))


Prediction = ClassPrediction | LabelPrediction | ValuePrediction


class Model:
    """A shipped model.

    Attributes:
        manifest: Its description.
        graph: The plain graph, or the segments.
    """

    def __init__(self, manifest: Manifest, graph: Session | SegmentSessions) -> None:
        self.manifest, self.graph = manifest, graph

    def predict(self, x: ArrayLike | Sequence[Row] | Frame, *, members: bool = False) -> Prediction:
        """Predict samples. An empty batch gives an empty prediction.

        Args:
            x: Images (batch, channel, height, width), or with channels last, as whole numbers in
                [0, 255]; rows of a table as dictionaries or as a data frame of pandas; or encoded
                features (batch, feature). A model that resizes takes images of any size, also a list of
                arrays of several sizes. `sae.deploy.sources` reads image files.
            members: Whether to also return the prediction of every member, which takes memory.
        """
        if members:
            self._check_members()
        samples = as_samples(encode_rows(x, self.manifest).samples if is_rows(x) else x, self.manifest.input)
        left = None
        if isinstance(self.graph, SegmentSessions):
            outputs, left = self.graph.run(samples)
        else:
            outputs = self.graph.run(samples, members=members)
        _check_outputs(outputs, self.manifest.target, has_labels=self.manifest.has_labels)
        profile = self.manifest.profile
        encodings = encodings_of(self.manifest) if self.manifest.input.columns else []
        unusual = None if profile is None else profile.unusual(samples, encodings)
        if self.manifest.task == "regression":
            return ValuePrediction(**outputs, unusual=unusual)
        if self.manifest.has_labels:
            return LabelPrediction(**outputs, names=self.manifest.target.names or (), unusual=unusual)
        names = self.manifest.target.class_names
        assert names is not None, "the manifest of a classification has class names"
        probs = outputs["probs"]
        labels = np.where(np.isfinite(probs).all(axis=1), probs.argmax(axis=1), NO_CLASS)
        exits = None if left is None else self._exits()[left]
        return ClassPrediction(labels, class_names=names, exits=exits, unusual=unusual, **outputs)

    def limited(self, seconds: float | None) -> AbstractContextManager[None]:
        """Return a context in which the graph is stopped after this many seconds; None sets no limit."""
        return limited(self.graph.segments if isinstance(self.graph, SegmentSessions) else [self.graph], seconds)

    def _check_members(self) -> None:
        """Refuse a graph that does not return members."""
        if isinstance(self.graph, SegmentSessions):
            raise ConfigError("members are those of the plain graph, because samples leave before some: use sae.load")
        if MEMBERS not in self.graph.outputs:
            raise ModelError(f"this model was exported by an older version, without the output {MEMBERS}: {ADVICE}")

    def sets(self, prediction: Prediction, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Return the classes in each sample's set, (batch, class). It contains the truth with this probability."""
        if not isinstance(prediction, ClassPrediction):
            kind = "several labels" if self.manifest.has_labels else "values: ask for intervals"
            raise ConfigError(f"sets are for classes, one of which is right, but this model predicts {kind}")
        return class_sets(prediction.probs, self.threshold(coverage))

    def intervals(self, prediction: Prediction, coverage: float = 0.9) -> tuple[Values, Values]:
        """Return lower and upper ends that contain the true value with this probability, (batch[, target]) each.

        Several targets are promised together: with this probability, all are inside.
        """
        if not isinstance(prediction, ValuePrediction):
            raise ConfigError("intervals are for values, but this model predicts classes: ask for sets")
        lower, upper = intervals(prediction.mean, prediction.variance, self.threshold(coverage))
        smallest = self.manifest.target.smallest
        return lower if smallest is None else np.maximum(lower, smallest), upper

    def threshold(self, coverage: float) -> float:
        """Return the largest conformal score that is still in a set or interval."""
        return self._conformal_scores().threshold(coverage)

    def mean_flops(self, prediction: Prediction) -> float:
        """Return the mean cost of a prediction's samples, as a share of the plain graph's FLOPs."""
        exits = prediction.exits if isinstance(prediction, ClassPrediction) else None
        part = self.manifest.adaptive
        if exits is None or part is None or not len(exits):
            return 1.0
        flops = np.array([segment.flops for segment in part.stages])
        return float(flops[np.searchsorted(self._exits(), exits)].mean() / flops[-1])

    def _exits(self) -> Integers:
        part = self.manifest.adaptive
        assert part is not None, "the manifest of a model with segments lists them"
        return np.array([segment.exit for segment in part.stages])

    def _conformal_scores(self) -> ConformalScores:
        """Return the conformal scores of the predictions in use; adaptive exits have their own."""
        part = self.manifest.adaptive
        if part is not None and isinstance(self.graph, SegmentSessions):
            return part.calibration
        if self.manifest.has_labels:
            raise ConfigError("sets are for classes, one of which is right, but several labels may hold here")
        if self.manifest.conformal is None:
            raise ConfigError(
                "sets and intervals need a model that was exported from a run, whose validation samples calibrate "
                "them: this one was exported from a training loop, without labels"
            )
        return self.manifest.conformal.calibration


def load(path: Path | str, threads: int = 1) -> Model:
    """Load a model that `sae export` wrote.

    Args:
        path: The `.onnx` file with its `manifest.json` beside it, or the folder of both.
        threads: Threads that one operation may use.
    """
    given, manifest, manifest_path = _find(path)
    content = manifest.graph.read(given / manifest.graph.file if given.is_dir() else given)
    session = Session(content, threads)
    _check_agreement(manifest, session, manifest_path)
    return Model(manifest, session)


def load_adaptive(path: Path | str, threads: int = 1, threshold: float | None = None) -> Model:
    """Load the same model in segments: a sample leaves at the first exit that is confident enough.

    Args:
        path: As for `load`; exported with `--adaptive`.
        threads: Threads that one operation may use.
        threshold: The confidence from which a sample leaves. Coverage is promised only for the default,
            the threshold that was chosen at export.
    """
    _, manifest, manifest_path = _find(path)
    part = manifest.adaptive
    if part is None:
        raise ModelError(
            f"adaptive exits need the segments of a model, but {manifest_path} lists none: export it with --adaptive"
        )
    if threshold is not None and not threshold >= 0:
        raise ConfigError(f"the threshold must be a probability, or above 1 for never, got {threshold}")
    segments = [Session(segment.read(manifest_path.with_name(segment.file)), threads) for segment in part.stages]
    _check_input(manifest, segments[0], manifest_path)
    seen = [segment.seen for segment in part.stages]
    return Model(manifest, SegmentSessions(segments, seen, part.threshold if threshold is None else threshold))


def _check_outputs(outputs: Mapping[str, Output], target: TargetPart, *, has_labels: bool) -> None:
    """Refuse probabilities and variances that are impossible; numbers that are not finite are told by `usable`.

    Args:
        outputs: Outputs of a graph by name.
        target: What it predicts.
        has_labels: Whether several labels may hold, so that probabilities need not sum to 1.
    """
    more = dict.fromkeys(("mean", "variance", MEMBERS), int(target.names is not None and not has_labels))
    for name, values in outputs.items():
        if values.ndim != DIMENSIONS.get(name, 1) + more.get(name, 0):
            raise ModelError(f"the graph must return {name} for each sample, got shape {values.shape}: {ADVICE}")
    if "probs" in outputs:
        probs = outputs["probs"]
        total = probs.max(axis=1, initial=0.0) if has_labels else probs.sum(axis=1)
        is_far = total - 1 > ROUNDING if has_labels else np.abs(total - 1) > ROUNDING
        needed = "probabilities" if has_labels else "probabilities that sum to 1"
        what, wrong = probs, ((probs < -ROUNDING).any(axis=1) | is_far) & np.isfinite(probs).all(axis=1)
    else:
        what, needed = outputs["variance"], "variances of at least 0"
        wrong = ~are_all(~(what < 0))
    if wrong.any():
        given = what[wrong.argmax()].tolist()
        raise ModelError(f"the graph must return {needed}, got {given}: it is damaged or forged; {ADVICE}")


def _find(path: Path | str) -> tuple[Path, Manifest, Path]:
    """Return the path that was given, the manifest that belongs to it, and the manifest's path."""
    given = Path(path)
    manifest_path = (given if given.is_dir() else given.parent) / NAME
    if not given.exists():
        raise ModelError(f"a model must be an .onnx file that exists, got {given}")
    if not manifest_path.is_file():
        raise ModelError(
            f"a model must have a {NAME} beside it, but {manifest_path.parent} has none: {given} is not from "
            f"`sae export`, or was moved without it"
        )
    return given, read_manifest(manifest_path), manifest_path


def _check_agreement(manifest: Manifest, session: Session, manifest_path: Path) -> None:
    """Refuse a manifest that was changed after the export. The bytes of the graph were checked already."""
    _check_input(manifest, session, manifest_path)
    _check_pairs([("outputs", tuple(manifest.graph.outputs), session.outputs)], manifest_path)
    names, output = manifest.target.class_names or manifest.target.names, session.outputs[0]
    if names is not None and session.width(output) != len(names):
        raise ModelError(
            f"{manifest_path} must name every class of its graph, got {len(names)} names for "
            f"{session.width(output)} of {output}: {ADVICE}"
        )


def _check_input(manifest: Manifest, session: Session, manifest_path: Path) -> None:
    expected = manifest.input
    pairs = [
        ("input", expected.name, session.input_name),
        ("dtype", expected.dtype, session.dtype),
        ("shape", tuple(expected.shape), session.shape),
    ]
    _check_pairs(pairs, manifest_path)


def _check_pairs(pairs: Sequence[tuple[str, object, object]], manifest_path: Path) -> None:
    for what, expected, found in pairs:
        if expected != found:
            raise ModelError(
                f"{manifest_path} must agree with its graph, but its {what} is {expected} and the graph's {found}: "
                f"{ADVICE}"
            )
