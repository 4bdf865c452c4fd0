"""Single Architecture Ensembles: an ensemble's accuracy and calibration at one network's cost.

Names are imported when they are first used, so that `import sae` is light and works
without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from sae.core.version import __version__ as __version__

if TYPE_CHECKING:
    from sae.backbones import build_backbone as build_backbone
    from sae.backbones.survey import suggest_exits as suggest_exits
    from sae.backbones.wrapped import wrap as wrap
    from sae.config.run import RunConfig as RunConfig
    from sae.core.errors import SaeError as SaeError
    from sae.core.predictive import aggregate as aggregate
    from sae.core.task import Classification as Classification
    from sae.core.task import DataSpec as DataSpec
    from sae.core.task import Regression as Regression
    from sae.core.trust import trust_code as trust_code
    from sae.data.catalogue import resolve as resolve
    from sae.deploy.export import export as export
    from sae.deploy.runtime import load as load
    from sae.deploy.runtime import load_adaptive as load_adaptive
    from sae.estimators import SAEClassifier as SAEClassifier
    from sae.estimators import SAERegressor as SAERegressor
    from sae.measure.cost import measure_cost as measure_cost
    from sae.measure.cost import register_cost as register_cost
    from sae.methods import Method as Method
    from sae.methods import build_method as build_method
    from sae.methods.costing import cost_of as cost_of
    from sae.own_loop import SingleArchitectureEnsemble as SingleArchitectureEnsemble
    from sae.records.run import RunRecord as RunRecord
    from sae.training.run import train as train
    from sae.training.run_evaluation import evaluate as evaluate
    from sae.training.tracking import RunCallback as RunCallback

_HOMES = {
    "Classification": "sae.core.task",
    "DataSpec": "sae.core.task",
    "Method": "sae.methods",
    "Regression": "sae.core.task",
    "RunCallback": "sae.training.tracking",
    "RunConfig": "sae.config.run",
    "RunRecord": "sae.records.run",
    "SAEClassifier": "sae.estimators",
    "SAERegressor": "sae.estimators",
    "SaeError": "sae.core.errors",
    "SingleArchitectureEnsemble": "sae.own_loop",
    "aggregate": "sae.core.predictive",
    "build_backbone": "sae.backbones",
    "build_method": "sae.methods",
    "cost_of": "sae.methods.costing",
    "evaluate": "sae.training.run_evaluation",
    "export": "sae.deploy.export",
    "load": "sae.deploy.runtime",
    "load_adaptive": "sae.deploy.runtime",
    "measure_cost": "sae.measure.cost",
    "register_cost": "sae.measure.cost",
    "resolve": "sae.data.catalogue",
    "suggest_exits": "sae.backbones.survey",
    "train": "sae.training.run",
    "trust_code": "sae.core.trust",
    "wrap": "sae.backbones.wrapped",
}


def __getattr__(name: str) -> object:
    """Import a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sae' has no attribute {name!r}; public names: {', '.join(_HOMES)}")
    try:
        home = import_module(_HOMES[name])
    except ModuleNotFoundError as error:
        from sae.core.errors import MissingExtraError

        missing = MissingExtraError.of(error, f"sae.{name}")
        if missing is None:
            raise
        raise missing from None
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__"])
