"""What is known of an exported graph: the file beside it that says how to feed it and what to expect."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sae.core.errors import ModelError
from sae.deploy.conformal import Calibration, ConformalPart

NAME = "manifest.json"
"""A folder ships one model, and this file describes it."""
FORMAT = "sae-model"
ADVICE = "export it again with `sae export`, and keep the files of a folder together"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ColumnPart(_Part):
    """How a column of a table becomes features; see `sae.data.column_encoding`."""

    name: str
    median: float | None
    categories: tuple[str, ...]
    marks_missing: bool


class InputPart(_Part):
    """What the graph takes, and what it does with it first.

    Attributes:
        name: Of the graph's input.
        dtype: Of the graph's input.
        shape: One sample, as it comes: (channel, height, width) or (feature,).
        frame: Black pixels that the graph adds on each side.
        mean: What the graph subtracts, by channel or feature.
        std: What it then divides by.
        columns: Of a table's file; None for images.
    """

    name: str
    dtype: Literal["uint8", "float32"]
    shape: tuple[int, ...]
    frame: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    columns: tuple[ColumnPart, ...] | None


class TargetPart(_Part):
    """What is predicted.

    Attributes:
        class_names: In the order of the outputs; None for regression.
        column: Of a table, where the truth may be found.
        label_scale: What real-valued labels of a file are divided by.
    """

    class_names: tuple[str, ...] | None
    column: str | None
    label_scale: float


class MemberPart(_Part):
    """One member of the ensemble inside.

    Attributes:
        weight: Its share of the answer.
        exit: The depth at which it answers, counted from 1.
        input: Which input it belongs to, counted from 1, if the method has several.
    """

    weight: float
    exit: int
    input: int | None


class NetworkPart(_Part):
    """What is inside: the method, N, K, the K′ that is shipped, and the members in use."""

    method: str
    backbone: str
    num_inputs: int
    depth: int
    max_exits: int
    eval_exits: int
    active: tuple[int, ...]
    members: tuple[MemberPart, ...]


class CostPart(_Part):
    """`params` and `flops` as the paper counts them, on the pruned network; `shipped_*` are this graph's."""

    params: int
    flops: int
    shipped_params: int
    shipped_flops: int


class ParityPart(_Part):
    """How far the graph, in float32, is from the run's network: in standardised units, relative above 1."""

    samples: int
    largest_difference: float
    tolerance: float


class FloatPart(_Part):
    """The graph in float32 that an eight-bit one was made from, and its metrics by split."""

    bytes: int
    metrics: dict[str, dict[str, float]]


class QuantisationPart(_Part):
    """What eight bits change: compare the manifest's metrics with those of the graph in float32.

    Attributes:
        scheme: How numbers are stored and computed.
        calibration_samples: Training samples by which the ranges of activations were found.
        float32: What it was made from, whose `parity` with the run was shown.
        size_ratio: Bytes of the file, to those in float32.
        time_ratio: Time for a batch where it was exported, to that in float32.
        batch: Samples in that batch.
    """

    scheme: str
    calibration_samples: int
    float32: FloatPart
    size_ratio: float
    time_ratio: float
    batch: int


class ExitTarget(BaseModel):
    """What a threshold has to keep.

    Attributes:
        kind: A share of the plain graph's accuracy at least, or of its FLOPs at most.
        value: That share.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["keep_accuracy", "mean_flops"]
    value: float


DEFAULT_TARGET = ExitTarget(kind="keep_accuracy", value=0.995)


class StagePart(_Part):
    """One segment of the network, up to and with a used exit.

    Attributes:
        file: Beside the plain graph.
        sha256: Of the file.
        bytes: Its size.
        exit: The depth of its exit, counted from 1.
        seen: The weight of all members up to this exit.
        flops: Shipped FLOPs of a sample that leaves here.
    """

    file: str
    sha256: str
    bytes: int
    exit: int
    seen: float
    flops: int


class TimingPart(_Part):
    """Medians of repeats taken in turns, in milliseconds for a batch of validation samples.

    Attributes:
        batch: Samples in a batch.
        plain: Of the plain graph.
        adaptive: Of the stages, rows compacted between them.
        noise: How far two sessions of the same plain graph are apart, as a share: an A/A control.
        stages: Of each stage for a whole batch, were nobody to leave.
    """

    batch: int
    plain: float
    adaptive: float
    noise: float
    stages: tuple[float, ...]


class AdaptivePart(_Part):
    """Stages, the calibrated threshold, and what it came to.

    Attributes:
        stages: Shallowest first.
        threshold: The confidence from which a sample leaves, the same for every exit.
        target: What it was calibrated to on validation samples.
        fractions: Share of the samples that leave after each stage, by split.
        metrics: Of the answers, by split.
        accuracy_kept: Share of the plain graph's accuracy, by split.
        mean_flops: Mean shipped FLOPs as a share of the plain graph's, by split.
        calibration: Of conformal sets, on the answers of validation samples.
        largest_difference: Between stages where nobody leaves and the plain graph.
        timing: Measured on the machine that exported.
        time_ratio: Adaptive / plain.
        pays: Whether adaptive beats the plain graph by more than the noise.
        verdict: The same as a sentence.
    """

    stages: tuple[StagePart, ...]
    threshold: float
    target: ExitTarget
    fractions: dict[str, tuple[float, ...]]
    metrics: dict[str, dict[str, float]]
    accuracy_kept: dict[str, float]
    mean_flops: dict[str, float]
    calibration: Calibration
    largest_difference: float
    timing: TimingPart
    time_ratio: float
    pays: bool
    verdict: str


class RunPart(_Part):
    """What it was made from: name of the data, and SHA-256 of the run's files."""

    data: str
    config_sha256: str
    weights_sha256: str


class GraphPart(_Part):
    """The file that this manifest belongs to."""

    file: str
    sha256: str
    bytes: int
    outputs: tuple[str, ...]


class Manifest(_Part):
    """Everything that is known of a shipped model."""

    format: Literal["sae-model"] = "sae-model"
    version: Literal[1] = 1
    task: Literal["classification", "regression"]
    graph: GraphPart
    input: InputPart
    target: TargetPart
    network: NetworkPart
    cost: CostPart
    metrics: dict[str, dict[str, float]] = Field(description="of the graph on the val and the test split")
    conformal: ConformalPart
    adaptive: AdaptivePart | None = None
    parity: ParityPart
    run: RunPart
    versions: dict[str, str]
    quantisation: QuantisationPart | None = None

    @model_validator(mode="after")
    def _classes_are_named(self) -> Self:
        if (self.target.class_names is None) != (self.task == "regression"):
            raise ValueError("must have class names if and only if it is of a classification")
        return self

    def to_json(self) -> str:
        """As a file holds it: a line for each list of numbers."""
        text = json.dumps(self.model_dump(mode="json"), indent=2, allow_nan=False)
        return re.sub(r"\[[^\[\]{}\"]*\]", lambda found: " ".join(found.group().split()), text) + "\n"


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file, checked."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path} must be readable, however: {error.strerror}: {ADVICE}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} must be JSON, however it is damaged ({error}): {ADVICE}") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ModelError(f"{path} must be a manifest written by `sae export`, however it is something else")
    try:
        return Manifest.model_validate(values)
    except ValidationError as error:
        raise ModelError(f"{path} cannot be used, {_first_complaint(error)}: {ADVICE}") from None


def sha256_of(content: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _first_complaint(error: ValidationError) -> str:
    first: Any = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
