"""What a manifest says of adaptive exits."""

from pydantic import BaseModel, ConfigDict

from sae.deploy.conformal import Calibration
from sae.deploy.exit_rule import ExitTarget


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


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
