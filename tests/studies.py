"""Study folders as a search leaves them, without any training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sae.config.methods import SaeConfig
from sae.config.study import StudyConfig
from sae.records.study import StudyRecord, Trial
from tests.builders import run_config

DEPTH = 3
OBJECTIVES = ("nll", "cc_ece", "flops")
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

    def begin(self, settings: Mapping[str, Any]) -> Trial:
        config = run_config(data={"name": self.data}, method=settings, backbone={"name": "fc", "depth": DEPTH})
        number = sum(trial.method == settings["name"] for trial in self.record.trials())
        trial = self.record.trial(settings["name"], number, config)
        type(trial.run).create(trial.run.path, config)
        return trial

    def end(self, settings: Mapping[str, Any], state: str, **status: Any) -> Trial:
        trial = self.begin(settings)
        self._close(trial, state, **status)
        return trial

    def finish(self, settings: Mapping[str, Any], points: Sequence[Mapping[str, float]], shift: bool = False) -> Trial:
        """A trial whose validation says `points` of K′ = 1, 2, …; on test everything is worse by 1 in nll."""
        trial = self.begin(settings)
        method = trial.run.config.method
        exits = method.exits if isinstance(method, SaeConfig) else 1
        val = [_item(exits, values) for exits, values in enumerate(points, start=1)]
        test = [{**item, "metrics": {**item["metrics"], "nll": item["metrics"]["nll"] + 1}} for item in val]
        report = {
            split: {"exits": exits, "metrics": items[exits - 1]["metrics"], "by_exits": items}
            for split, items in (("val", val), ("test", test))
        }
        trial.run.write_json(trial.run.METRICS, report)
        if shift:
            trial.run.write_json("shift-val.json", {"by_exits": test})
        self._close(trial, "finished")
        return trial

    def _close(self, trial: Trial, state: str, **status: Any) -> None:
        self.clock += 60
        trial.run.write_json(trial.run.STATUS, {"state": state, "seconds": 60.0, "ended": self.clock, **status})


def _item(exits: int, values: Mapping[str, float]) -> dict[str, Any]:
    costs = {key: values[key] for key in ("flops", "params")}
    active = [0] * (DEPTH - exits) + [1] * exits
    return {
        "exits": exits,
        "active": active,
        **costs,
        "metrics": {key: value for key, value in values.items() if key not in costs},
    }


def sae(inputs: int, exits: int) -> dict[str, Any]:
    return {"name": "sae", "inputs": inputs, "exits": exits}


def small_study(path: Path, **config: Any) -> StudyBuilder:
    """Three finished trials of two methods, one failed, one stopped, one unfinished.

    The front of nll, cc_ece and flops is sae/0 at K′ = 1 and 2, sae/1 at K′ = 3 and standard/0.
    """
    study = StudyBuilder(path, **config)
    study.finish(sae(2, 2), [point(0.5, 0.10, 1000), point(0.3, 0.08, 2000), point(0.4, 0.20, 3000)])
    study.end(sae(1, 1), "failed", error="the loss was nan")
    study.finish({"name": "standard"}, [point(0.6, 0.05, 900)])
    study.finish(sae(3, 3), [point(0.9, 0.30, 1500), point(0.8, 0.30, 2500), point(0.2, 0.09, 4000)])
    study.end(sae(2, 2), "stopped")
    study.begin(sae(2, 3))
    return study
