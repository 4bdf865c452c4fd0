"""A whole experiment in one resumable call: settings from presets, search, confirmation, shipping and report."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import yaml

from sae.analysis.selection import select
from sae.config.backbones import BACKBONES, WeightsSettings
from sae.config.run import as_kind
from sae.config.settings import Layer, read_yaml, section_name
from sae.core.errors import ConfigError, ModelError, OtherModelError, check_known
from sae.data.catalogue import find_entry
from sae.records.receipt import Receipt
from sae.records.study import StudyRecord
from sae.report.build import report_of
from sae.report.page import write_page
from sae.search.run import Place, Say, SearchPlan, run_study

BUDGETS = ("small", "paper")
ALL_EXITS: Layer = {"method.inputs": 1, "method.exits": "depth"}
THREE_INPUTS: Layer = {
    **{"method.inputs": 3, "method.exits": "depth"},
    **{"method.repeat_fraction.start": 0.0, "method.repeat_fraction.end": 0.0},
}
RECIPES: Mapping[str, Layer] = {
    "tuned": {"train": {"lr": {"choice": [3e-4, 1e-3, 3e-3]}}, "search": {"first": [ALL_EXITS, THREE_INPUTS]}},
    "paper": {},
}
"""Recipes: `tuned` searches the learning rate of every method, and begins with the SAEs that did best in our map over
sizes of training sets and networks; `paper` uses one learning rate for all, and begins at random."""
FINE_TUNED: Layer = {"train": {"lr": {"choice": [1e-4, 3e-4, 1e-3]}}}
"""The learning rates of `tuned` for networks that keep their weights."""
USUAL_RECIPES = {"small": "tuned", "paper": "paper"}
YAML = (".yaml", ".yml")


def experiment_layers(what: str, budget: str, over: Sequence[Layer] = (), recipe: str | None = None) -> list[Layer]:
    """Return the layers of an experiment, lowest first.

    These are the budget, the recipe, the experiment, its section for the budget, and `over`.

    Shipped settings are adapted: spaces of methods that are not searched are dropped, and so are metrics and
    corruptions that do not suit the data.

    Args:
        what: The name of a preset, a YAML file, or the name or path of any other data.
        budget: `small` or `paper`.
        over: Layers that override all others, e.g. flags.
        recipe: One of `RECIPES`; by default the usual one of the budget.
    """
    check_known("budget", budget, BUDGETS)
    recipe = USUAL_RECIPES[budget] if recipe is None else recipe
    check_known("recipe", recipe, RECIPES)
    own = dict(_own_settings(what))
    special = [_section_for(name, own.pop(name, None)) for name in BUDGETS]
    asked = [own, special[BUDGETS.index(budget)], *over]
    methods = _last_set(asked, "search", "methods")
    shipped = [read_preset(budget), *(asked[:2] if what in presets() else [])]
    suited = [_of_methods(layer, methods) for layer in shipped]
    return [
        _suited_to_backbone(_suited_to_data(suited[0], asked), asked),
        RECIPES[recipe],
        *([FINE_TUNED] if recipe == "tuned" and _keeps_weights(asked) else []),
        *(suited[1:] or asked[:2]),
        *over,
    ]


def _keeps_weights(asked: Sequence[Layer]) -> bool:
    """Return whether the network of an experiment keeps pretrained weights."""
    given = {key: _last_set(asked, "backbone", key) for key in ("pretrained", "weights_file")}
    return WeightsSettings.are_kept({key: value for key, value in given.items() if value is not None})


def _section_for(budget: str, given: object) -> Layer:
    """Check the section of an experiment for a budget; it may be missing."""
    if given is not None and not isinstance(given, dict):
        raise ConfigError(f"{budget} must be a section of settings for this budget, got {given!r}")
    return given or {}


def _last_set(layers: Sequence[Layer], section: str, key: str) -> object:
    """Return the value set by the highest layer, or None."""
    sections = (layer.get(section) for layer in reversed(layers))
    return next((found[key] for found in sections if isinstance(found, dict) and key in found), None)


def _of_methods(layer: Layer, methods: object) -> Layer:
    """Drop the spaces of other methods; `methods` is checked later, when the search settings are parsed."""
    spaces = layer.get("spaces")
    if not spaces or not methods or not isinstance(methods, list | tuple):
        return layer
    return {**layer, "spaces": {name: space for name, space in spaces.items() if name in methods}}


def _suited_to_data(budget: Layer, asked: Sequence[Layer]) -> Layer:
    """Adapt a budget to the data: only images of 8 bits have corruptions, and regression has its own metrics."""
    name = next((name for layer in reversed(asked) if (name := section_name(layer.get("data")))), None)
    kind = as_kind(_last_set(asked, "data", "kind"))
    entry, search = find_entry(name, kind) if isinstance(name, str) else None, dict(budget["search"])
    if entry and not entry.has_corruptions:
        search["shift"] = False
    if isinstance(search.get("objectives"), Mapping):
        task = (entry and entry.task) or _last_set(asked, "data", "task")
        by_task = search["objectives"]
        search["objectives"] = by_task["regression" if task == "regression" else "classification"]
    return {**budget, "search": search}


def _suited_to_backbone(budget: Layer, asked: Sequence[Layer]) -> Layer:
    """Drop the sizes of networks from the spaces of a budget where the network has one size only."""
    name = next((name for layer in reversed(asked) if (name := section_name(layer.get("backbone")))), None)
    if name not in BACKBONES or BACKBONES.get(name).space:
        return budget
    spaces = budget.get("spaces", {})
    return {
        **budget,
        "spaces": {
            method: {key: value for key, value in space.items() if key != "backbone"}
            for method, space in spaces.items()
        },
    }


def _own_settings(what: str) -> Layer:
    if Path(what).suffix in YAML:
        settings = read_yaml(Path(what))
        if not settings:
            raise ConfigError(f"an experiment file must hold at least `data: NAME`, but {what} is empty")
        return settings
    return read_preset(what) if what in presets() else {"data": what}


def presets() -> list[str]:
    """Return the names of the shipped experiments."""
    names = (Path(file.name).stem for file in files("sae.presets").joinpath("experiments").iterdir())
    return sorted(name for name in names if name not in BUDGETS)


def read_preset(name: str) -> Layer:
    """Read the settings of a shipped experiment or budget."""
    text = files("sae.presets").joinpath("experiments", f"{name}.yaml").read_text(encoding="utf-8")
    settings = yaml.safe_load(text)
    assert isinstance(settings, dict), f"the shipped {name}.yaml must hold settings"
    return settings


def run_experiment(place: Place, plan: SearchPlan, say: Say) -> Receipt:
    """Search, confirm, ship the pick and write the report; return the receipt.

    Args:
        place: Where the study runs and where its results go.
        plan: The search and its confirmation.
        say: Prints a line of progress.
    """
    record = run_study(place, plan, say)
    say("shipping the pick, and measuring it beside the best ensemble and the best standard network")
    try:
        receipt = ship(record)
    except Exception:  # the report of a study with nothing to ship says why
        try:
            write_report(record)
        except Exception as error:
            say(f"the report cannot be written either: {error}")
        raise
    write_report(record)
    return receipt


def ship(record: StudyRecord) -> Receipt:
    """Export the pick into the study folder and return its receipt.

    The pick of an earlier session is replaced, but not a model without a manifest: it may be the user's own file.
    """
    from sae.deploy.manifest import NAME
    from sae.deploy.receipt import ship_pick

    selection, model = select(record), record.path / record.SHIPPED / record.MODEL
    if model.exists() and not model.with_name(NAME).exists():
        raise ModelError(
            f"{model} must have been written by this study, but there is no {NAME} beside it: "
            f"move it away, and the same command continues"
        )
    try:
        return ship_pick(selection, model)[1]
    except OtherModelError:
        return ship_pick(selection, model, force=True)[1]


def write_report(record: StudyRecord) -> None:
    """Write the report page of a study into its folder."""
    write_page(report_of([record]), record.path / record.REPORT)
