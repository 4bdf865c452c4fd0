"""Measurements of a trained network as types, one for each file of a run folder.

A trained network can be evaluated at several numbers of exits K′, so every type holds one reading per
K′ and finds it with `at`. JSON is parsed here, once; the folder that reads a file refuses one with
missing or wrong content. JSON keeps the short key `exits` where the code says `eval_exits`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sae.core.errors import RecordError
from sae.core.objectives import SHIFTED

Split = Literal["val", "test"]
SPLITS: tuple[Split, ...] = ("val", "test")
"""The splits on which every finished run is evaluated."""

Where = Literal["val", "test", "shift"]
"""A split, or `shift`: the 95 corrupted versions of the test split."""

Metrics = Mapping[str, float]
Json = dict[str, object]


class Part(BaseModel):
    """A frozen part of a JSON file, with keys as the file has them."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)


class AtExits(Part):
    """Something measured at K′ exits per input."""

    eval_exits: int = Field(alias="exits")


Item = TypeVar("Item", bound=AtExits)


def find_exits(readings: Sequence[Item], eval_exits: int) -> Item:
    """Return the reading at K′ exits; raise a RecordError that lists the recorded ones if there is none."""
    for reading in readings:
        if reading.eval_exits == eval_exits:
            return reading
    recorded = ", ".join(str(reading.eval_exits) for reading in readings) or "none"
    raise RecordError(f"the number of exits must be one that was recorded ({recorded}), got {eval_exits}")


def check_recorded(readings: Sequence[AtExits], wanted: Sequence[int]) -> None:
    """Raise a ValueError unless there is a reading at every wanted number of exits."""
    recorded = {reading.eval_exits for reading in readings}
    if not recorded.issuperset(wanted):
        missing = sorted(set(wanted) - recorded)
        raise ValueError(f"it must have a reading at {', '.join(map(str, missing))} exits")


class PartCosts(Part):
    """The costs of a part of a network, pruned and as exported."""

    name: str
    params: int
    flops: int
    shipped_params: int
    shipped_flops: int


class Reading(AtExits):
    """A network evaluated at K′ exits: the exits it uses, its costs, and its metrics on one split.

    Attributes:
        active: Number of inputs that use each exit, shallowest first.
        params: Parameters of the pruned network.
        flops: FLOPs per sample of the pruned network.
        shipped_params: Parameters of the exported network.
        shipped_flops: FLOPs per sample of the exported network.
        metrics: Quality and uncertainty, by name.
        parts: The parts whose costs sum to these, right after counting; files keep them in `Network` only.
        temperature: Fitted on validation data, if temperature scaling was asked for.
        temperature_remark: A remark if the temperature stopped at a bound, or in older runs stayed 1.
        calibrated: The metrics after temperature scaling.
        members: Numbers of the members in use, counted from 0, ordered by input, then exit; None in older runs.
    """

    active: tuple[int, ...]
    params: int
    flops: int
    shipped_params: int
    shipped_flops: int
    metrics: Metrics
    parts: tuple[PartCosts, ...] = Field((), exclude=True, repr=False)
    temperature: float | None = None
    temperature_remark: str | None = None
    calibrated: Metrics | None = None
    members: tuple[int, ...] | None = None

    @property
    def costs(self) -> dict[str, float]:
        """Counted costs by the names of objectives."""
        return {name: getattr(self, name) for name in ("flops", "params", "shipped_flops", "shipped_params")}

    def to_json(self) -> Json:
        """Return the item of `by_exits`."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Evaluation(Part):
    """One split, evaluated at every K′.

    Attributes:
        exits: The number of exits that `metrics` belongs to; by default the trained K.
        readings: One for each K′.
    """

    exits: int
    readings: tuple[Reading, ...] = Field(alias="by_exits")

    @model_validator(mode="after")
    def _check_exits(self) -> Self:
        check_recorded(self.readings, [self.exits])
        return self

    def at(self, eval_exits: int) -> Reading:
        """Return the reading at K′ exits."""
        return find_exits(self.readings, eval_exits)

    @property
    def chosen(self) -> Reading:
        """The reading at `exits`."""
        return self.at(self.exits)

    @property
    def metrics(self) -> Metrics:
        """The metrics at `exits`."""
        return self.chosen.metrics

    def to_json(self) -> Json:
        """Return `exits, metrics, by_exits`."""
        by_exits = [reading.to_json() for reading in self.readings]
        return {"exits": self.exits, "metrics": dict(self.metrics), "by_exits": by_exits}


class ShiftedSet(Part):
    """Metrics on one corrupted version of a split."""

    corruption: str
    severity: int
    metrics: Metrics


class ShiftReading(AtExits):
    """A network evaluated at K′ exits on corrupted versions of a split.

    Attributes:
        metrics: Mean over the sets.
        std_over_sets: Standard deviation over the sets; empty for a single set.
        sets: Every set by itself; empty in a summary.
    """

    metrics: Metrics
    std_over_sets: Metrics
    sets: tuple[ShiftedSet, ...] = Field(alias="by_set")


class ShiftEvaluation(Part):
    """Corrupted versions of a split, evaluated at every K′.

    Attributes:
        exits: The number of exits that the file's summary belongs to.
        num_sets: Number of corrupted versions.
        readings: One for each K′.
    """

    exits: int
    num_sets: int = Field(alias="sets")
    readings: tuple[ShiftReading, ...] = Field(alias="by_exits")

    @model_validator(mode="after")
    def _check_exits(self) -> Self:
        check_recorded(self.readings, [self.exits])
        return self

    def at(self, eval_exits: int) -> ShiftReading:
        """Return the reading at K′ exits."""
        return find_exits(self.readings, eval_exits)

    def summary(self) -> Self:
        """Return means and standard deviations without the single sets, which make files large."""
        readings = tuple(reading.model_copy(update={"sets": ()}) for reading in self.readings)
        return self.model_copy(update={"readings": readings})

    def to_json(self) -> Json:
        """Return the summary at `exits`, then every reading in `by_exits`."""
        at = self.at(self.exits).model_dump(mode="json", by_alias=True)
        return {
            "exits": self.exits,
            "sets": self.num_sets,
            "metrics": at["metrics"],
            "std_over_sets": at["std_over_sets"],
            "by_exits": [reading.model_dump(mode="json", by_alias=True) for reading in self.readings],
            "by_set": at["by_set"],
        }


class RiskCoverage(Part):
    """Mean loss of the samples that are kept when the most uncertain are left out."""

    coverage: tuple[float, ...]
    risk: tuple[float, ...]


class Reliability(Part):
    """Samples binned by the confidence of their most probable class."""

    count: tuple[int, ...]
    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]


class CurveReading(AtExits):
    """Curves of one split at K′ exits; only classifiers have a reliability curve."""

    risk_coverage: RiskCoverage
    reliability: Reliability | None = None


class SplitCurves(Part):
    """Curves of one split at every K′."""

    readings: tuple[CurveReading, ...] = Field(alias="by_exits")

    def at(self, eval_exits: int) -> CurveReading:
        """Return the curves at K′ exits."""
        return find_exits(self.readings, eval_exits)

    def to_json(self, exits: int) -> Json:
        """Return the curves at the trained K, then those at every K′ in `by_exits`."""
        by_exits = [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in self.readings]
        trained = self.at(exits).model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"eval_exits"})
        return {**trained, "by_exits": by_exits}


class LatencyReading(AtExits):
    """Milliseconds that the exported network takes for one batch at K′ exits."""

    latency: float


class Latency(Part):
    """Measured latency of the exported network at every K′.

    Attributes:
        batch: Samples per batch.
        threads: Threads of the runtime.
        readings: One for each K′.
    """

    batch: int
    threads: int
    readings: tuple[LatencyReading, ...] = Field(alias="by_exits")

    def at(self, eval_exits: int) -> LatencyReading:
        """Return the latency at K′ exits."""
        return find_exits(self.readings, eval_exits)

    def to_json(self) -> Json:
        """Return `batch, threads, by_exits`."""
        return self.model_dump(mode="json", by_alias=True)


class Interim(Part):
    """Validation results of a run that paused before its last epoch."""

    epoch: int
    seconds: float
    val: Evaluation

    def to_json(self) -> Json:
        """Return `epoch, seconds, val`."""
        return {"epoch": self.epoch, "seconds": self.seconds, "val": self.val.to_json()}


@dataclass(frozen=True)
class RunEvaluation:
    """Measurements of a finished run: quality on both splits, costs, and measurements for the objectives of a search.

    Attributes:
        val: The validation split, by which candidates are chosen.
        test: The test split, for reports only.
        shifted_val: Corrupted validation images, by which candidates are chosen under shift, if they were measured.
        latency: Measured on the exported network, if an objective needs it.
        shifted_test: The 95 corrupted versions of the test split, if they were measured.
        has_shift: Whether `shifted_test` was read; the file is large, and rarely needed.
    """

    val: Evaluation
    test: Evaluation
    shifted_val: ShiftEvaluation | None = None
    latency: Latency | None = None
    shifted_test: ShiftEvaluation | None = None
    has_shift: bool = False

    @property
    def exits(self) -> int:
        """K, the number of exits that the network was trained for."""
        return self.val.exits

    @property
    def best_exits(self) -> int:
        """The K′ that is best on validation, at which the network is read unless a user names another."""
        return best_exits([self])

    @property
    def eval_exits(self) -> tuple[int, ...]:
        """Every K′ at which the network was evaluated."""
        return tuple(reading.eval_exits for reading in self.val.readings)

    def shift_at(self, eval_exits: int) -> ShiftReading | None:
        """Return the reading on the corrupted test sets at K′ exits; None if it was not measured."""
        assert self.has_shift, "results on corrupted test sets were not read: use with_shift=True"
        return None if self.shifted_test is None else self.shifted_test.at(eval_exits)

    def metrics(self, where: Where, eval_exits: int) -> Metrics:
        """Return the metrics on a split or under shift at K′ exits; empty if they were not measured."""
        if where == "shift":
            shifted = self.shift_at(eval_exits)
            return {} if shifted is None else shifted.metrics
        return (self.val if where == "val" else self.test).at(eval_exits).metrics

    def costs(self, eval_exits: int) -> dict[str, float]:
        """Return counted and measured costs at K′ exits, by the names of objectives."""
        measured = {} if self.latency is None else {"latency": self.latency.at(eval_exits).latency}
        return {**self.val.at(eval_exits).costs, **measured}

    def objective_values(self, eval_exits: int) -> dict[str, float]:
        """Return every validation metric and cost at K′ exits, by the names of objectives."""
        return self.values_of(self.val.at(eval_exits))

    def values_of(self, reading: Reading) -> dict[str, float]:
        """Return every validation metric and cost at the K′ of a reading of the validation split."""
        values = {**reading.metrics, **reading.costs}
        if self.shifted_val is not None:
            shifted = self.shifted_val.at(reading.eval_exits).metrics
            values |= {f"{key}{SHIFTED}": value for key, value in shifted.items()}
        if self.latency is not None:
            values["latency"] = self.latency.at(reading.eval_exits).latency
        return values


def best_exits(runs: Sequence[RunEvaluation]) -> int:
    """Return the K′ with the lowest validation NLL, the mean over runs of one configuration; of equals the smallest.

    Without an NLL it is the trained K.
    """
    if not all("nll" in reading.metrics for run in runs for reading in run.val.readings):
        return runs[0].exits
    shared = set.intersection(*(set(run.eval_exits) for run in runs))
    return min(sorted(shared), key=lambda exits: fmean(run.val.at(exits).metrics["nll"] for run in runs))
