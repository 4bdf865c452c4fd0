"""The whole experiment as one resumable command: search, confirm, ship, report.

Each stage finds in the folder what an earlier session left there, so that the same command
continues at any point. The folder is a study folder: every other command reads it too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from sae.analysis.selection import select
from sae.data.catalogue import find_entry
from sae.errors import ConfigError, ModelError, did_you_mean
from sae.report.build import report_of
from sae.report.page import write_page
from sae.search.executors import Executor
from sae.search.holes import read_holes
from sae.search.plan import SearchPlan
from sae.search.run import run_study
from sae.settings import Layer, merge, read_yaml, section_name
from sae.study_record import StudyRecord

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


def experiment_layers(what: str, budget: str, above: Sequence[Layer] = ()) -> list[Layer]:
    """The settings of an experiment, lowest first: the budget's, the experiment's own, what that says for the budget.

    Args:
        what: The name of a preset, a YAML file, or the name or path of any other data.
        budget: `small` or `paper`.
        above: Settings that go over all of it, such as flags.
    """
    if budget not in BUDGETS:
        raise ConfigError(f"budget must be one of {', '.join(BUDGETS)}; got {budget!r}{did_you_mean(budget, BUDGETS)}")
    own = dict(_own_settings(what))
    special = {name: own.pop(name, None) or {} for name in BUDGETS}
    layers = [own, special[budget], *above]
    return [_suited(read_preset(budget), reduce(merge, map(read_holes, layers), {})), *layers]


def _suited(budget: Layer, given: Layer) -> dict[str, Any]:
    """What of a budget fits an experiment: objectives of its task, shift of images, spaces of methods it searches.

    Args:
        budget: Its settings; `objectives` may be given for each kind of task.
        given: What the experiment says.
    """
    name = section_name(given.get("data"))
    entry = find_entry(name) if name else None
    search = dict(budget.get("search", {}))
    if isinstance(search.get("objectives"), Mapping):
        said = given["data"].get("task") if isinstance(given.get("data"), Mapping) else None
        search["objectives"] = search["objectives"][said or (entry and entry.task) or "classification"]
    if entry and entry.kind == "table":
        search["shift"] = False
    methods = given.get("search", {}).get("methods", search.get("methods", ()))
    spaces = {method: space for method, space in budget.get("spaces", {}).items() if method in methods}
    return {**budget, "search": search, "spaces": spaces}


def _own_settings(what: str) -> Layer:
    if Path(what).suffix in YAML:
        return read_yaml(Path(what))
    return read_preset(what) if what in presets() else {"data": what}


def presets() -> list[str]:
    """Names of the experiments that are shipped."""
    names = (Path(file.name).stem for file in files("sae.presets").joinpath("experiments").iterdir())
    return sorted(name for name in names if name not in BUDGETS)


def read_preset(name: str) -> dict[str, Any]:
    """The settings of a shipped experiment or budget."""
    text = files("sae.presets").joinpath("experiments", f"{name}.yaml").read_text(encoding="utf-8")
    settings: dict[str, Any] = yaml.safe_load(text)
    return settings


def run_experiment(place: Place, plan: SearchPlan, on_word: Callable[[str], None]) -> dict[str, Any]:
    """Search, confirm, ship the pick and write the report; returns the receipt.

    Args:
        place: Where.
        plan: What is searched and confirmed.
        on_word: Says something to the person at the terminal.
    """
    record = run_study(place.out, plan, place.executor, place.storage, force=place.force, on_word=on_word)
    try:
        on_word("shipping the pick, and measuring it beside the best ensemble and standard network")
        return ship(record)
    finally:  # a study of which nothing can be shipped has a report too, which says why
        write_page(report_of([record]), record.path / record.REPORT)


def ship(record: StudyRecord) -> dict[str, Any]:
    """Export the pick into the study folder; that of an earlier session, with fewer trials, gives way."""
    from sae.deploy.receipt import ship_pick

    selection, model = select(record), record.path / record.SHIPPED / record.MODEL
    try:
        return ship_pick(selection, model)[1]
    except ModelError:
        return ship_pick(selection, model, force=True)[1]
