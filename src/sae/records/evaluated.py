"""What `sae evaluate` finds: metrics of a split, and on request shift, detection of other data and a decision."""

from sae.records.evaluation import Evaluation, Json, Metrics, Part, Reading, ShiftEvaluation, Split


class Detection(Part):
    """The quality with which uncertainty detects samples of another data set.

    Attributes:
        other: Name or path of the other data set.
        metrics: AUROC and false-positive rates, by measure and kind of uncertainty.
    """

    other: str
    metrics: Metrics

    def to_json(self) -> Json:
        """Return the set and its metrics."""
        return {"set": self.other, **self.metrics}


class Decision(Part):
    """Decisions between two classes at a threshold.

    Attributes:
        positive: The name of the positive class.
        threshold: The smallest probability that is called positive.
        is_best: Whether it was chosen on the validation split, by the costs.
        mean_cost: The cost of mistakes per sample, if costs were given.
    """

    positive: str
    threshold: float
    is_best: bool
    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int
    mean_cost: float | None = None

    @property
    def recall(self) -> float | None:
        """The share of positive samples that are called so; None without a positive sample."""
        positives = self.true_positives + self.false_negatives
        return self.true_positives / positives if positives else None

    @property
    def precision(self) -> float | None:
        """The share of samples called positive that are so; None if none is called so."""
        called = self.true_positives + self.false_positives
        return self.true_positives / called if called else None

    def to_json(self) -> Json:
        """Return all of it, with recall and precision."""
        return {**self.model_dump(mode="json"), "recall": self.recall, "precision": self.precision}


class SplitEvaluation(Part):
    """A finished run, evaluated again on one split: the result of `sae evaluate`.

    Attributes:
        run: The run folder.
        split: The split.
        evaluation: Metrics and costs at every K′.
        shift: The same under corruption, if asked for.
        ood: Detection of another data set, if asked for.
        other_data: Whether the user allowed samples that are not those of the run.
        target: The column that is predicted, if the data name it: the unit of some metrics.
        decision: Decisions at a threshold, at `exits`, if asked for.
    """

    run: str
    split: Split
    evaluation: Evaluation
    shift: ShiftEvaluation | None = None
    ood: Detection | None = None
    other_data: bool = False
    target: str | None = None
    decision: Decision | None = None

    @property
    def exits(self) -> int:
        """K′ that `metrics` belongs to."""
        return self.evaluation.exits

    @property
    def metrics(self) -> Metrics:
        """The metrics at `exits`."""
        return self.evaluation.metrics

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The network at every K′."""
        return self.evaluation.readings

    def at(self, eval_exits: int) -> Reading:
        """Return the reading at K′ exits."""
        return self.evaluation.at(eval_exits)

    def to_json(self) -> Json:
        """Return the JSON of `sae evaluate --json`."""
        chosen = self.evaluation.chosen
        calibrated = {} if chosen.calibrated is None else dict(chosen.calibrated)
        remark = {} if chosen.temperature_remark is None else {"temperature_remark": chosen.temperature_remark}
        return {
            "run": self.run,
            "split": self.split,
            **self.evaluation.to_json(),
            **({"temperature": chosen.temperature, **remark, "calibrated": calibrated} if calibrated else {}),
            "shift": None if self.shift is None else self.shift.to_json(),
            **({} if self.ood is None else {"ood": self.ood.to_json()}),
            **({} if self.decision is None else {"decision": self.decision.to_json()}),
            **({"other_data": True} if self.other_data else {}),
        }
