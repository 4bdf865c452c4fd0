"""The receipt of a shipped pick: its quality, cost and time beside its rivals in the study."""

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_serializer

from sae.core.errors import RecordError
from sae.core.reading import read_file
from sae.records.folder import first_problem
from sae.records.study import MeanAndStd

PICK = "pick"
"""The role of the network to ship; the roles of its rivals are the names of their methods."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ReceiptIdentity(_Part):
    """The model that a receipt belongs to, and the trials it is compared with.

    Attributes:
        sha256: SHA-256 of the shipped graph.
        compared: Name of the compared trial, by method.
    """

    sha256: str
    compared: dict[str, str]


class RefitPart(_Part):
    """The last training of a shipped network, with the validation samples, too.

    Attributes:
        samples: Number of training and validation samples together.
        folds: Number of networks that predicted the validation samples that they had not seen.
        nll_before: NLL of the network before on the test split; None if there is none.
        nll: That of this network, in float32 and without a temperature.
    """

    samples: int
    folds: int
    nll_before: float | None = None
    nll: float | None = None

    @property
    def text(self) -> str:
        """The last training in a sentence."""
        tested = ""
        if self.nll is not None and self.nll_before is not None:
            tested = f"test metrics are those of this file (NLL {self.nll:.4f}, {self.nll_before:.4f} before); "
        others = (
            "two more networks, each trained with one half of the validation samples and measured on the other"
            if self.folds == 2
            else "one more network, trained with the earlier half of the validation samples and measured on the later"
        )
        return (
            f"Trained again on all {self.samples:,} training and validation samples: {tested}validation metrics and "
            f"what is fitted on validation samples come from {others}."
        )


class ReceiptPrediction(_Part):
    """Predictions of the test split from the file alone.

    Attributes:
        samples: Number of samples.
        right: Number of correct classes; None for a regression.
        rmse: Root of the mean squared error; None for a classification.
    """

    samples: int
    right: int | None = None
    rmse: float | None = None

    @model_serializer
    def _without_none(self) -> dict[str, int | float]:
        known = {"samples": self.samples, "right": self.right, "rmse": self.rmse}
        return {key: value for key, value in known.items() if value is not None}


class ReceiptRow(_Part):
    """One shipped network.

    Attributes:
        trial: Name of the trial.
        run: Its run folder.
        kind: The kind that it is grouped with.
        called: The kind to name it by; missing in receipts of earlier versions.
        settings: Its settings in short.
        eval_exits: K′ of the shipped network.
        inputs_at_exit: Number of inputs that use each exit; missing in receipts of earlier versions.
        metrics: Metrics of the graph on the test split.
        over_seeds: Means and deviations of the same metrics over the new seeds; None if it was not confirmed.
        params: Parameters of the pruned network.
        flops: FLOPs of the pruned network.
        shipped_params: Parameters of the exported graph.
        shipped_flops: FLOPs of the exported graph.
        bytes: Size of the file.
        ms: Milliseconds for a batch.
    """

    trial: str
    run: str
    kind: str
    called: str | None = Field(None, exclude_if=lambda called: called is None)
    settings: str
    eval_exits: int
    inputs_at_exit: tuple[int, ...] | None = Field(None, exclude_if=lambda inputs: inputs is None)
    metrics: dict[str, float]
    over_seeds: dict[str, MeanAndStd] | None = Field(None, exclude_if=lambda spread: spread is None)
    params: int
    flops: int
    shipped_params: int
    shipped_flops: int
    bytes: int
    ms: float


class ReceiptRatios(_Part):
    """Costs of another network relative to the pick's."""

    flops: float
    params: float
    shipped_flops: float
    shipped_params: float
    bytes: float
    ms: float


class ReceiptBaseline(_Part):
    """A simple baseline on the same data: scikit-learn on the CPU, which has no FLOPs to compare.

    Attributes:
        name: Its name for people.
        val: Metrics on the validation split.
        test: Metrics on the test split.
    """

    name: str
    val: dict[str, float]
    test: dict[str, float]


class Receipt(_Part):
    """The pick of a study once it is shipped, beside the best of other methods.

    Attributes:
        identity: The model it belongs to.
        why: Why it was picked.
        task: `classification` or `regression`.
        batch: Samples in a timed batch.
        noise: Time of the pick when measured again, relative to itself.
        predicted: Predictions of the test split from the file alone.
        rows: The shipped networks; the pick first, then others by method.
        ratios: Costs of the others relative to the pick's, by method.
        baselines: Simple baselines on the same data; missing in receipts of earlier versions.
        verdict: A sentence if one of them is better on validation, beyond noise.
        refit: The last training of the pick; its rivals have none.
    """

    identity: ReceiptIdentity
    why: str
    task: Literal["classification", "regression"]
    batch: int
    noise: float
    predicted: ReceiptPrediction
    rows: dict[str, ReceiptRow]
    ratios: dict[str, ReceiptRatios]
    baselines: tuple[ReceiptBaseline, ...] = Field((), exclude_if=lambda baselines: not baselines)
    verdict: str | None = Field(None, exclude_if=lambda verdict: verdict is None)
    refit: RefitPart | None = Field(None, exclude_if=lambda part: part is None)

    @property
    def refit_text(self) -> str:
        """The last training, and that rivals have none; empty if there was none."""
        if self.refit is None:
            return ""
        return self.refit.text + (" Its rivals were trained on the training samples alone." if self.ratios else "")

    def to_json(self) -> dict[str, object]:
        """Return the JSON object of the file."""
        return self.model_dump(mode="json")


def read_receipt(path: Path) -> Receipt:
    """Read and check a receipt."""
    try:
        return Receipt.model_validate(json.loads(read_file(str(path))))
    except OSError as error:
        raise RecordError(f"{path} must be a readable receipt: {error.strerror}") from None
    except ValidationError as error:
        raise RecordError(f"{path} must be a receipt written by `sae export` ({first_problem(error)})") from None
    except (ValueError, RecursionError) as error:  # not JSON, not text, a number too long, or nested too deeply
        raise RecordError(f"{path} must be a receipt written by `sae export`, but is damaged ({error})") from None
