"""The whole experiment as one resumable command: search, confirm, ship, report.

Each stage finds in the folder what an earlier session left there, so that the same command
continues at any point. The folder is a study folder: every other command reads it too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from sae.analysis.selection import select
from sae.config.settings import Layer, read_yaml, section_name
from sae.core.errors import ConfigError, ModelError, OtherModelError, did_you_mean
from sae.data.catalogue import find_entry
from sae.records.receipt import Receipt
from sae.records.study import StudyRecord
from sae.report.build import report_of
from sae.report.page import write_page
from sae.search.executors import Executor
from sae.search.plan import SearchPlan
from sae.search.run import run_study

BUDGETS = ("small", "paper")
YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class Place:
    """Where an experiment is done.

    Attributes:
        out: The study folder that it leaves.
        executor: Where trials run.
        storage: URL of Optuna's database; by default a file in the folder.
        force: Whether to start over.
    """

    out: Path
    executor: Executor
    storage: str | None = None
    force: bool = False


def experiment_layers(what: str, budget: str, over: Sequence[Layer] = ()) -> list[Layer]:
    """The settings of an experiment, lowest first: the budget's, the experiment's own, what that says for the budget.

    What is shipped suits what is asked for: it says nothing of methods that are not searched, nor of
    metrics and corruptions that the data does not have.

    Args:
        what: The name of a preset, a YAML file, or the name or path of any other data.
        budget: `small` or `paper`.
        over: What goes over all that, such as flags.
    """
    if budget not in BUDGETS:
        raise ConfigError(f"budget must be one of {', '.join(BUDGETS)}; got {budget!r}{did_you_mean(budget, BUDGETS)}")
    own = dict(_own_settings(what))
    special = [_section_for(name, own.pop(name, None)) for name in BUDGETS]
    asked = [own, special[BUDGETS.index(budget)], *over]
    methods = _last_said(asked, "search", "methods")
    shipped = [read_preset(budget), *(asked[:2] if what in presets() else [])]
    suited = [_of_methods(layer, methods) for layer in shipped]
    return [_suited_to_data(suited[0], asked), *(suited[1:] or asked[:2]), *over]


def _section_for(budget: str, given: Any) -> Layer:
    """What an experiment says for a budget; it need not say anything."""
    if given is not None and not isinstance(given, dict):
        raise ConfigError(f"{budget} must be a section of settings for this budget, got {given!r}")
    return given or {}


def _last_said(layers: Sequence[Layer], section: str, key: str) -> Any:
    """What the topmost layer that says something of a setting says; None if none does."""
    sections = (layer.get(section) for layer in reversed(layers))
    return next((found[key] for found in sections if isinstance(found, dict) and key in found), None)


def _of_methods(layer: Layer, methods: Any) -> Layer:
    """The same without the spaces of other methods; what is no list of methods is refused later, where it is read."""
    spaces = layer.get("spaces")
    if not spaces or not methods or not isinstance(methods, list | tuple):
        return layer
    return {**layer, "spaces": {name: space for name, space in spaces.items() if name in methods}}


def _suited_to_data(budget: Layer, asked: Sequence[Layer]) -> Layer:
    """A budget for this data: a table cannot be corrupted, and numbers are not judged as classes are."""
    name = next((name for layer in reversed(asked) if (name := section_name(layer.get("data")))), None)
    entry, search = find_entry(name) if isinstance(name, str) else None, dict(budget["search"])
    if entry and entry.kind == "table":
        search["shift"] = False
    if isinstance(search.get("objectives"), Mapping):
        task = (entry and entry.task) or _last_said(asked, "data", "task")
        by_task = search["objectives"]
        search["objectives"] = by_task["regression" if task == "regression" else "classification"]
    return {**budget, "search": search}


def _own_settings(what: str) -> Layer:
    if Path(what).suffix in YAML:
        settings = read_yaml(Path(what))
        if not settings:
            raise ConfigError(f"an experiment's file must say at least `data: NAME`, however {what} is empty")
        return settings
    return read_preset(what) if what in presets() else {"data": what}


def presets() -> list[str]:
    """Names of the experiments that are shipped."""
    names = (Path(file.name).stem for file in files("sae.presets").joinpath("experiments").iterdir())
    return sorted(name for name in names if name not in BUDGETS)


def read_preset(name: str) -> dict[str, Any]:
    """The settings of a shipped experiment or budget."""
    text = files("sae.presets").joinpath("experiments", f"{name}.yaml").read_text(encoding="utf-8")
    settings: dict[str, Any] = yaml.safe_load(text)
    assert isinstance(settings, dict), f"the shipped {name}.yaml holds settings"
    return settings


def run_experiment(place: Place, plan: SearchPlan, on_word: Callable[[str], None]) -> Receipt:
    """Search, confirm, ship the pick and write the report; returns the receipt.

    Args:
        place: Where.
        plan: What is searched and confirmed.
        on_word: Says something to the person at the terminal.
    """
    record = run_study(place.out, plan, place.executor, place.storage, force=place.force, on_word=on_word)
    on_word("shipping the pick, and measuring it beside the best ensemble and standard network")
    try:
        receipt = ship(record)
    except Exception:  # a study of which nothing can be shipped has a report too, which says why
        try:
            write_report(record)
        except Exception as error:
            on_word(f"the report cannot be written either: {error}")
        raise
    write_report(record)
    return receipt


def ship(record: StudyRecord) -> Receipt:
    """Export the pick into the study folder; that of an earlier session, with fewer trials, gives way.

    A file there that no manifest describes does not: it may be the user's.
    """
    from sae.deploy.manifest import NAME
    from sae.deploy.receipt import ship_pick

    selection, model = select(record), record.path / record.SHIPPED / record.MODEL
    if model.exists() and not model.with_name(NAME).exists():
        what = f"{model.parent} must hold what the study has shipped, however nothing says what its {model.name} is"
        raise ModelError(f"{what}: move it away, and the same command continues")
    try:
        return ship_pick(selection, model)[1]
    except OtherModelError:
        return ship_pick(selection, model, force=True)[1]


def write_report(record: StudyRecord) -> None:
    """Write the page of a study into its folder."""
    write_page(report_of([record]), record.path / record.REPORT)
