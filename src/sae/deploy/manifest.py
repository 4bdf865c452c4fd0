"""The manifest of a shipped model: how to feed it and what to expect of it. No torch."""

import builtins
import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from sae.config.run import Fit
from sae.core.errors import ConfigError, ModelError
from sae.core.reading import read_file
from sae.core.task import SampleKind
from sae.data.dataset import Depth
from sae.data.training_profile import DataProfile
from sae.deploy.conformal import ConformalPart, ConformalScores
from sae.records.folder import first_problem
from sae.records.receipt import RefitPart
from sae.records.shipped import FORMAT, MANIFEST, is_plain_name

NAME = MANIFEST
"""The file that describes the one model of a folder."""
ADVICE = "export it again with `sae export`, and keep the files of a folder together"


def _plain_name(name: str) -> str:
    if not is_plain_name(name):
        raise ValueError("must be the name of a file in the folder of the manifest, without a path")
    return name


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _FilePart(_Part):
    """A file in the folder of the manifest.

    Attributes:
        file: Its name.
        sha256: SHA-256 of its content.
        bytes: Its size.
    """

    file: Annotated[str, AfterValidator(_plain_name)]
    sha256: str
    bytes: int

    def read(self, path: Path) -> builtins.bytes:
        """Return the content of the file, which may be elsewhere; refuse another. At most its size is read."""
        try:
            content = read_file(str(path), self.bytes)
        except OSError as error:
            raise ModelError(f"{path} must be readable ({error.strerror}): {ADVICE}") from None
        if len(content) == self.bytes and sha256_of(content) == self.sha256:
            return content
        size = "" if len(content) == self.bytes else f" and {self.bytes:,} bytes"
        raise ModelError(
            f"{path} must be the graph that its {NAME} describes (SHA-256 {self.sha256[:12]}…{size}), got another: "
            f"{ADVICE}"
        )


class GraphPart(_FilePart):
    """The ONNX file that the manifest belongs to."""

    outputs: tuple[str, ...]


class ColumnPart(_Part):
    """The encoding of a table's column as features; see `sae.data.dataset`."""

    name: str
    median: float | None
    categories: tuple[str, ...]
    marks_missing: bool
    is_date: bool = False
    missing: tuple[str, ...] = Field((), exclude_if=lambda missing: not missing)
    has_others: bool = Field(False, exclude_if=lambda has: not has)


class InputPart(_Part):
    """The input of the graph, and the preprocessing inside it.

    Attributes:
        name: Name of the graph's input.
        dtype: Element type of the graph's input; graphs of older versions take the rows of a table in float32.
        shape: Shape of one raw sample: (channel, height, width), (channel, length) or (feature,).
        frame: Black pixels that the graph adds on each side.
        depth: Bits of a channel of an image file: 8; 16; or 32 for numbers on any scale.
        fit: How an image of another size is resized before the graph, see `sae.data.images`; None if it is refused.
        mean: Subtracted by the graph, by channel or feature.
        std: Divisor that the graph then applies.
        each_image: Whether the graph then standardises each image by its own mean and deviation.
        columns: Columns of a table, also of a table of signals; None for other files.
    """

    name: str
    dtype: Literal["uint8", "float32", "float64"]
    shape: tuple[int, ...]
    frame: int
    depth: Depth = Field(8, exclude_if=lambda depth: depth == 8)
    fit: Fit | None = Field(None, exclude_if=lambda fit: fit is None)
    mean: tuple[float, ...]
    std: tuple[float, ...]
    each_image: bool = Field(False, exclude_if=lambda each: not each)
    columns: tuple[ColumnPart, ...] | None

    @property
    def kind(self) -> SampleKind:
        """The kind of its samples."""
        return SampleKind.of(self.shape)


class TargetPart(_Part):
    """The target that the model predicts.

    Attributes:
        class_names: Names of the classes in the order of the outputs; None for regression.
        column: The column of a table that holds the truth.
        label_scale: The divisor of real-valued labels in a file.
        names: Names of several targets: labels, each of which holds or not, or values; None for a single one.
        smallest: The least possible value; None if there is none.
    """

    class_names: tuple[str, ...] | None
    column: str | None
    label_scale: float
    names: tuple[str, ...] | None = Field(None, exclude_if=lambda names: names is None)
    smallest: float | None = Field(None, exclude_if=lambda smallest: smallest is None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that hold the truth."""
        return self.names or ((self.column,) if self.column else ())


class MemberPart(_Part):
    """One member of the ensemble.

    Attributes:
        weight: Its share of the prediction.
        exit: The depth of its exit, counted from 1.
        input: Its input, counted from 1, if the method has several inputs.
    """

    weight: float
    exit: int
    input: int | None


class NetworkPart(_Part):
    """The network: method, backbone, N, the trained K (`max_exits`), the shipped K′, and the members in use."""

    method: str
    backbone: str
    num_inputs: int
    depth: int
    max_exits: int
    eval_exits: int
    active: tuple[int, ...]
    members: tuple[MemberPart, ...]


class CostPart(_Part):
    """`params` and `flops` of the pruned network as the paper counts them; `shipped_*` of the exported graph."""

    params: int
    flops: int
    shipped_params: int
    shipped_flops: int


class ExitTarget(_Part):
    """The target of a threshold.

    Attributes:
        kind: At least a share of the plain graph's accuracy, or at most a share of its FLOPs.
        value: That share.
    """

    kind: Literal["keep_accuracy", "mean_flops"]
    value: float


DEFAULT_TARGET = ExitTarget(kind="keep_accuracy", value=0.995)


class SegmentPart(_FilePart):
    """One segment of the network, up to and including a used exit; its file is beside the plain graph.

    Attributes:
        exit: The depth of its exit, counted from 1.
        seen: Total weight of the members up to this exit.
        flops: Shipped FLOPs of a sample that leaves here.
    """

    exit: int
    seen: float
    flops: int


class TimingPart(_Part):
    """Median milliseconds for a batch of validation samples, measured side by side.

    Attributes:
        batch: Samples in a batch.
        plain: Time of the plain graph.
        adaptive: Time of the segments, where samples leave early.
        noise: Relative difference between two sessions of the same plain graph: an A/A control.
        stages: Time of each segment on a whole batch, when no sample leaves.
    """

    batch: int
    plain: float
    adaptive: float
    noise: float
    stages: tuple[float, ...]


class AdaptivePart(_Part):
    """The segments, the chosen threshold, and its results.

    Attributes:
        stages: The segments, shallowest first.
        threshold: The confidence from which a sample leaves, the same for every exit.
        target: The target that the threshold meets on validation samples.
        fractions: Share of the samples that leave after each segment, by split.
        metrics: Metrics of the adaptive predictions, by split.
        accuracy_kept: Share of the plain graph's accuracy, by split.
        mean_flops: Mean shipped FLOPs as a share of the plain graph's, by split.
        calibration: Conformal scores of the adaptive predictions on validation samples.
        largest_difference: Largest difference between the plain graph and the segments when no sample leaves.
        timing: Times on the machine that exported.
        time_ratio: Adaptive / plain.
        pays: Whether adaptive exits save more time than the noise.
        verdict: The same in one sentence.
    """

    stages: tuple[SegmentPart, ...]
    threshold: float
    target: ExitTarget
    fractions: dict[str, tuple[float, ...]]
    metrics: dict[str, dict[str, float]]
    accuracy_kept: dict[str, float]
    mean_flops: dict[str, float]
    calibration: ConformalScores
    largest_difference: float
    timing: TimingPart
    time_ratio: float
    pays: bool
    verdict: str


class CalibrationPart(_Part):
    """Temperature scaling, fitted on validation samples: the graph's predictions are at this temperature.

    Attributes:
        temperature: T inside the graph; 1 if the fitted one was not applied.
        fitted: The fitted T.
        samples: Number of validation samples that it was fitted on.
        remark: Why a fitted T was not applied, if so.
        raw: Metrics of the same graph without a temperature, by split.
        under_shift: `nll` and `nll_scaled` of the run on corrupted test images, if they were measured.
    """

    temperature: float
    fitted: float
    samples: int
    remark: str | None = None
    raw: dict[str, dict[str, float]]
    under_shift: dict[str, float] = Field({}, exclude_if=lambda metrics: not metrics)

    @property
    def text(self) -> str:
        """The calibration in a few words: `T = 1.3, fitted on 359 validation samples`."""
        how = f"T = {self.temperature:.3g}, fitted on {self.samples:,} validation samples"
        return how if self.remark is None else f"not scaled: {self.remark.rstrip('.')}"


class ParityPart(_Part):
    """The difference between the float32 graph and the run's network: in standardised units, relative above 1."""

    samples: int
    largest_difference: float
    tolerance: float


class RunPart(_Part):
    """The run that was exported: name of its data, and SHA-256 of its files.

    For a network that was trained outside a run, `data` is None, and the hashes are those of its settings and weights.

    Attributes:
        other_data: Whether the user allowed other samples than the run's for metrics, conformal scores and thresholds.
    """

    data: str | None
    config_sha256: str
    weights_sha256: str
    other_data: bool = Field(False, exclude_if=lambda is_other: not is_other)


class FloatPart(_Part):
    """The float32 graph that was quantised, and its metrics by split."""

    bytes: int
    metrics: dict[str, dict[str, float]]


class QuantisationPart(_Part):
    """The effect of quantisation: compare the manifest's metrics with those of the float32 graph.

    Attributes:
        scheme: How numbers are stored and computed.
        calibration_samples: Number of training samples that set the ranges of activations.
        float32: The graph that was quantised, whose parity with the run was checked.
        size_ratio: Size of the file, relative to float32.
        time_ratio: Time for a batch on the machine that exported, relative to float32.
        batch: Samples in that batch.
    """

    scheme: str
    calibration_samples: int
    float32: FloatPart
    size_ratio: float
    time_ratio: float
    batch: int


class Manifest(_Part):
    """Everything that is known about a shipped model."""

    format: Literal["sae-model"] = "sae-model"
    version: Literal[1] = 1
    task: Literal["classification", "regression"]
    graph: GraphPart
    input: InputPart
    target: TargetPart
    network: NetworkPart
    cost: CostPart
    metrics: dict[str, dict[str, float]] = Field(
        description="of the graph on the val and the test split; empty for a network that was trained outside a run"
    )
    conformal: ConformalPart | None = Field(None, exclude_if=lambda part: part is None)
    adaptive: AdaptivePart | None = None
    parity: ParityPart
    run: RunPart
    versions: dict[str, str]
    quantisation: QuantisationPart | None = None
    calibration: CalibrationPart | None = Field(None, exclude_if=lambda part: part is None)
    profile: DataProfile | None = Field(
        None, exclude_if=lambda part: part is None, description="of the training data; models of older runs have none"
    )
    refit: RefitPart | None = Field(None, exclude_if=lambda part: part is None)

    @property
    def has_labels(self) -> bool:
        """Whether it predicts several labels, each of which holds or not."""
        return self.task == "classification" and self.target.names is not None

    @model_validator(mode="after")
    def _classes_are_named(self) -> Self:
        if (self.target.class_names is None) != (self.task == "regression" or self.has_labels):
            raise ValueError("must have class names for a classification of one target, and no others")
        names = self.target.class_names or self.target.names or ()
        if len(set(names)) < len(names):
            raise ValueError("must have a different name for each class or target")
        return self

    def to_json(self) -> str:
        """Return the text of the file, with each list of numbers on one line."""
        text = json.dumps(self.model_dump(mode="json"), indent=2, allow_nan=False)
        return re.sub(r"\[[^\[\]{}\"]*\]", lambda found: " ".join(found.group().split()), text) + "\n"


def check_model_path(path: Path) -> None:
    """Refuse a path at which no model can be written, before any work is done for it."""
    if path.suffix != ".onnx" or path.is_dir():
        raise ConfigError(f"the model must be a file that ends in .onnx, got {path}: give e.g. shipped/model.onnx")
    folder = next(parent for parent in path.parents if parent.exists())
    if not folder.is_dir():
        raise ConfigError(f"the folder of a model must be a folder, but {folder} is a file: name another for {path}")


def read_manifest(path: Path) -> Manifest:
    """Read and check a manifest."""
    try:
        values = json.loads(read_file(str(path)))
    except OSError as error:
        raise ModelError(f"{path} must be readable ({error.strerror}): {ADVICE}") from None
    except (ValueError, RecursionError) as error:  # not JSON, not text, a number too long, or nested too deeply
        raise ModelError(f"{path} must be JSON, but is damaged ({error}): {ADVICE}") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ModelError(f"{path} must be a manifest written by `sae export`, got another file")
    try:
        return Manifest.model_validate(values)
    except ValidationError as error:
        raise ModelError(f"{path} is not a valid manifest ({first_problem(error)}): {ADVICE}") from None


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
