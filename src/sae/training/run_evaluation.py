"""Evaluation of a finished run: its metrics, and on request shift, other data and a decision."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from sae.analysis.decision import DecisionRule, Scored, decide
from sae.core.predictive import Categorical
from sae.core.progress import SILENT, ProgressDisplay
from sae.data.binding import AS_BEFORE, Whereabouts
from sae.data.catalogue import load_others
from sae.data.corruptions import ALL_SETS, CorruptedSet
from sae.data.dataset import Split as Samples
from sae.data.dataset import class_titles, target_titles
from sae.methods import Method
from sae.records.evaluated import Detection, SplitEvaluation
from sae.records.evaluation import ShiftEvaluation, Split
from sae.records.run import RunRecord
from sae.training.evaluator import (
    Scaling,
    evaluate_split,
    predictive_at,
    scale_temperature,
    split_outputs,
)
from sae.training.run import preparation, restore
from sae.training.shift import check_images, check_same_shape, evaluate_ood, evaluate_shift
from sae.training.trainer import torch_threads


def evaluate(
    run: Path | str,
    split: Split = "test",
    eval_exits: int | None = None,
    *,
    shift: bool = False,
    ood: str | None = None,
    calibrate: bool = False,
    rule: DecisionRule | None = None,
    device: str | None = None,
    where: Whereabouts = AS_BEFORE,
    display: ProgressDisplay = SILENT,
    processes: int = 1,
) -> SplitEvaluation:
    """Evaluate a finished run again from its weights, at every number of exits.

    Args:
        run: The run folder.
        split: val or test.
        eval_exits: K′ to evaluate at; by default the best on validation.
        shift: Whether to also evaluate on the 95 corrupted versions of the split.
        ood: Name or path of another data set; measures how well uncertainty detects its samples.
        calibrate: Whether to also evaluate after temperature scaling fitted on the validation split.
        rule: How to decide between two classes; by default nothing is decided.
        device: The device to compute on; by default that of the training.
        where: Where the data are now, and whether other data may be used instead.
        display: Where progress is shown.
        processes: How many processes may corrupt images; the numbers do not depend on it.
    """
    record = RunRecord.open(Path(run))
    settings = record.read_config().train
    with torch_threads(settings.threads):
        method, dataset = restore(record, device, where)
        others = load_others(ood, dataset) if ood else None
        if shift:
            check_images(dataset)
        if others is not None:
            check_same_shape(dataset, others)
        chosen = method.resolve_exits(record.exits_to_read(eval_exits))
        label = rule.label_in(class_titles(dataset), target_titles(dataset)) if rule else 0
        prepare = preparation(dataset, device or settings.device)
        outputs = split_outputs(method, dataset, prepare, dict.fromkeys(("val", split)))
        scaling = Scaling(method, dataset, outputs["val"])
        evaluation = evaluate_split(scaling, split, outputs)
        if calibrate:
            evaluation = scale_temperature(scaling, split, outputs, evaluation)
        decision = None
        if rule:
            scored = {name: _scored(method, dataset.split(name), outputs[name], chosen, label) for name in outputs}
            decision = decide(rule, class_titles(dataset)[label], scored["val"], scored[split])
        detection = None
        if ood is not None and others is not None:
            detected = evaluate_ood(method, dataset, split, others, prepare, chosen)
            detection = Detection(other=ood, metrics=detected)
        shifted = None
        if shift:
            shifted = evaluate_shift(method, dataset, split, prepare, chosen, display, processes=processes)
        return SplitEvaluation(
            run=str(run),
            split=split,
            evaluation=evaluation.model_copy(update={"exits": chosen}),
            shift=shifted,
            ood=detection,
            other_data=dataset.is_other,
            target=record.read_config().data.unit,
            decision=decision,
        )


def _scored(method: Method, split: Samples, outputs: Tensor, eval_exits: int, label: int) -> Scored:
    """Return the probability of a class at K′ exits, and whether it is the true one."""
    predictive = predictive_at(method, outputs, eval_exits)
    assert isinstance(predictive, Categorical), "only classes are decided on"
    return predictive.probs[:, label].double().numpy(), split.targets == label


def measure_shift(
    run: Path, split: Split, sets: Sequence[CorruptedSet] = ALL_SETS, display: ProgressDisplay = SILENT
) -> ShiftEvaluation:
    """Evaluate a finished run on corrupted versions of a split only; see `evaluate_shift`."""
    record = RunRecord.open(run)
    settings = record.read_config().train
    with torch_threads(settings.threads):
        method, dataset = restore(record)
        prepare = preparation(dataset, settings.device)
        return evaluate_shift(method, dataset, split, prepare, method.exits, display, sets)
