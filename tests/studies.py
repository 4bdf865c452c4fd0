"""Study folders as a search leaves them, without any training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sae.config.study import StudyConfig
from sae.core.objectives import COSTS
from sae.records.evaluation import (
    Evaluation,
    Metrics,
    PartCosts,
    Reading,
    ShiftedSet,
    ShiftEvaluation,
    ShiftReading,
    Split,
)
from sae.records.network import Member, Network, PrunedReading
from sae.records.run import Ending, Run, RunRecord, Status
from sae.records.study import StudyRecord
from tests.builders import run_config

DEPTH = 3
OBJECTIVES = ("nll", "cc_ece", "flops")
SHIPPED = ("shipped_flops", "shipped_params")
METHODS = ("sae", "standard", "ensemble", "mc_dropout", "batch_ensemble")


def study_config(data: str = "digits", methods: Sequence[str] = METHODS[:3], **changes: Any) -> StudyConfig:
    space = {"data": {"name": data}, "backbone": {"name": "fc"}}
    values: dict[str, Any] = {
        "id": "x",
        "task": "classification",
        "spaces": dict.fromkeys(methods, space),
        "objectives": OBJECTIVES,
        "max": {},
        "min": {},
        "sampler": "random",
        "startup": 4,
        "grid": 100,
        "rungs": (),
        "reduction": 3,
        "shift": False,
        "seed": 0,
    }
    return StudyConfig.model_validate({**values, **changes})


def point(nll: float, cc_ece: float, flops: int, **more: float) -> dict[str, float]:
    """What is measured of a network at one number of exits."""
    return {"nll": nll, "cc_ece": cc_ece, "flops": flops, "params": flops // 2, "f1": 1 - nll / 2, **more}


class StudyBuilder:
    """Adds trials to a study, each ending a minute after the one before."""

    def __init__(self, path: Path, data: str = "digits", **config: Any) -> None:
        self.record = StudyRecord.create(path, study_config(data, **config))
        self.data, self.clock = data, 1_000_000.0

    def begin(self, settings: Mapping[str, Any]) -> RunRecord:
        config = run_config(data={"name": self.data}, method=settings, backbone={"name": "fc", "depth": DEPTH})
        number = sum(trial.path.parent.name == settings["name"] for trial in self.record.trials())
        trial = self.record.trial(settings["name"], number, config)
        trial.make(config)
        return trial

    def end(self, settings: Mapping[str, Any], state: Ending, **status: Any) -> RunRecord:
        trial = self.begin(settings)
        self._close(trial, state, **status)
        return trial

    def finish(
        self, settings: Mapping[str, Any], points: Sequence[Mapping[str, float]], shift: bool = False
    ) -> RunRecord:
        """A trial whose validation gives `points` at K′ = 1, 2, …; on test everything is worse by 1 in nll."""
        trial = self.begin(settings)
        val = [reading(exits, values) for exits, values in enumerate(points, start=1)]
        test = [item.model_copy(update={"metrics": {**item.metrics, "nll": item.metrics["nll"] + 1}}) for item in val]
        write_metrics(trial, val, test)
        if shift:
            write_sets(trial, "val", [alike_sets(item.eval_exits, item.metrics) for item in test])
        self._close(trial, "finished")
        return trial

    def runs(self, *, with_shift: bool = False) -> list[Run]:
        return self.record.read_runs(with_shift=with_shift)

    def _close(self, trial: RunRecord, state: Ending, **status: Any) -> None:
        self.clock += 60
        ending = Status(state=state, seconds=60.0, ended=self.clock, **status)
        trial.write_json(trial.STATUS, ending.model_dump(mode="json", exclude_none=True))


def reading(exits: int, values: Mapping[str, float]) -> Reading:
    """A reading with metrics and costs as `point` gives them; by default it costs as much when it is exported."""
    costs = {key: int(values[key]) for key in ("flops", "params")}
    shipped = {key: int(values.get(key, values[key.removeprefix("shipped_")])) for key in SHIPPED}
    metrics = {key: value for key, value in values.items() if key not in COSTS}
    active = (0,) * (DEPTH - exits) + (1,) * exits
    return Reading(eval_exits=exits, active=active, metrics=metrics, **costs, **shipped)


def write_metrics(run: RunRecord, val: Sequence[Reading], test: Sequence[Reading]) -> None:
    """The metrics of both splits, those at the trained K first, and what the network consists of."""
    exits = run.read_config().method.trained_exits
    splits = {"val": val, "test": test}
    evaluations = {name: Evaluation(exits=exits, readings=tuple(items)) for name, items in splits.items()}
    run.write_json(run.METRICS, {name: evaluation.to_json() for name, evaluation in evaluations.items()})
    run.write_json(run.NETWORK, network(run, val).to_json())


def network(run: RunRecord, readings: Sequence[Reading]) -> Network:
    """A network of one part, in which every input uses the last K′ exits."""
    config = run.read_config()
    pruned = [
        PrunedReading(
            eval_exits=item.eval_exits,
            members=tuple(
                Member(input=one + 1, exit=DEPTH - k, weight=1 / config.method.num_inputs / item.eval_exits)
                for one in range(config.method.num_inputs)
                for k in range(item.eval_exits)
            ),
            parts=(PartCosts.model_validate({"name": "stem", **item.costs}),),
        )
        for item in readings
    ]
    return Network(
        exits=config.method.trained_exits, depth=DEPTH, passes=1, whole=pruned[-1].parts, readings=tuple(pruned)
    )


def alike_sets(exits: int, metrics: Metrics) -> ShiftReading:
    """Two corrupted sets with the same metrics."""
    sets = tuple(ShiftedSet(corruption="fog", severity=severity, metrics=metrics) for severity in (1, 5))
    return ShiftReading(eval_exits=exits, metrics=metrics, std_over_sets=dict.fromkeys(metrics, 0.0), sets=sets)


def write_sets(run: RunRecord, split: Split, readings: Sequence[ShiftReading]) -> None:
    """Results on corrupted versions of a split."""
    exits = run.read_config().method.trained_exits
    evaluation = ShiftEvaluation(exits=exits, num_sets=len(readings[0].sets), readings=tuple(readings))
    run.write_json(run.SHIFT[split], evaluation.to_json())


def sae(inputs: int, exits: int) -> dict[str, Any]:
    return {"name": "sae", "inputs": inputs, "exits": exits}


def small_study(path: Path, **config: Any) -> StudyBuilder:
    """Three finished trials of two methods, one failed, one stopped, one unfinished.

    The front of nll, cc_ece and flops is sae/0 at K′ = 1 and 2, sae/2 at K′ = 3 and standard/0.
    """
    study = StudyBuilder(path, **config)
    study.finish(sae(2, 2), [point(0.5, 0.10, 1000), point(0.3, 0.08, 2000), point(0.4, 0.20, 3000)])
    study.end(sae(1, 1), "failed", error="the loss was nan")
    study.finish({"name": "standard"}, [point(0.6, 0.05, 900)])
    study.finish(sae(3, 3), [point(0.9, 0.30, 1500), point(0.8, 0.30, 2500), point(0.2, 0.09, 4000)])
    study.end(sae(2, 2), "stopped")
    study.begin(sae(2, 3))
    return study
