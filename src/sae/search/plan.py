"""The plan of a search: settings that were checked against each other and against the data."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sae.config.run import data_kind, data_name, data_side, data_train_size
from sae.config.settings import Layer, merge, parse, section_name
from sae.config.study import ConfirmConfig, SearchConfig, StudyConfig
from sae.core.errors import ConfigError
from sae.core.objectives import limits, objectives
from sae.core.task import DataSpec, Regression
from sae.data.catalogue import load, suggestions
from sae.search.holes import read_holes
from sae.search.screening import check_reach, rungs
from sae.search.space import Space, build_space
from sae.training.shift import check_images

SEARCH_SECTIONS = ("search", "confirm", "spaces")
"""Sections of a search file that a run does not have."""


@dataclass(frozen=True)
class SearchPlan:
    """A search whose settings are valid.

    Attributes:
        settings: The search settings that were asked for.
        study: All settings that the results of trials depend on.
        spec: Shape and task of the data.
        confirm: What to train again after the search.
    """

    settings: SearchConfig
    study: StudyConfig
    spec: DataSpec
    confirm: ConfirmConfig


def resolve_search(layers: Sequence[Layer]) -> SearchPlan:
    """Merge layers of settings over the data set's suggestions and the shipped spaces, and check the result.

    Args:
        layers: Settings of a run with holes, and sections `search`, `confirm` and `spaces`; the lowest layer first.
    """
    given: Layer = {}
    for layer in layers:
        given = merge(given, read_holes(layer))
    own = given.get("spaces", {})
    if not isinstance(own, dict) or not all(isinstance(value, dict) for value in own.values()):
        raise ConfigError("spaces must hold a section of settings for each method, e.g. standard: {backbone: …}")
    of_runs = {key: value for key, value in given.items() if key not in SEARCH_SECTIONS}
    settings = parse(SearchConfig, {**_named_method(of_runs), **_section(given, "search")})
    confirm = parse(ConfirmConfig, _section(given, "confirm"))
    suggested = suggestions(data_name(of_runs), data_kind(of_runs), data_side(of_runs), data_train_size(of_runs))
    study, spec = resolve_study(settings, suggested, of_runs, own)
    return SearchPlan(settings, study, spec, confirm)


def _section(given: Layer, name: str) -> Layer:
    section = given.get(name, {})
    if not isinstance(section, dict):
        raise ConfigError(f"{name} must be a section of settings, got {section!r}")
    return section


def _named_method(of_runs: Layer) -> Layer:
    """Return the method that the `method` section names, as the only method to search by default."""
    name = section_name(of_runs.get("method"))
    return {"methods": [name]} if name else {}


def resolve_study(
    search: SearchConfig, suggestions: Layer, given: Layer, own: Mapping[str, Layer]
) -> tuple[StudyConfig, DataSpec]:
    """Return all settings that the trials depend on, and the data's shape; wrong settings are refused here.

    Args:
        search: The search settings.
        suggestions: The data set's suggested settings.
        given: The user's settings for all methods, with holes.
        own: The user's settings for single methods.
    """
    spaces = _build_spaces(search, suggestions, given, own)
    some = spaces[0].fill(next(spaces[0].corners()))
    dataset = load(some.data, some.seed)
    task = "regression" if isinstance(dataset.spec.task, Regression) else "classification"
    chosen = objectives(search.objectives_for(task), task)
    bounds = limits(search.max, search.min, task)
    check_reach(spaces, bounds, dataset.spec)
    is_shifted = any(objective.is_shifted for objective in (*chosen, *(limit.objective for limit in bounds)))
    if search.shift or is_shifted:
        check_images(dataset)
    elif search.shift_sets is not None:
        raise ConfigError("search.shift_sets has no effect without --shift or an objective such as nll@shift")
    study = StudyConfig(
        id=uuid.uuid4().hex[:8],
        task=task,
        spaces={space.method: dict(space.to_yaml()) for space in spaces},
        objectives=tuple(objective.name for objective in chosen),
        max=search.max,
        min=search.min,
        sampler=search.sampler_for(len(chosen)),
        startup=search.startup_trials,
        grid=search.grid,
        rungs=rungs(some.train.epochs, search.reduction) if search.stop_early else (),
        reduction=search.reduction,
        shift=search.shift,
        shift_sets=search.shift_sets or ("all" if search.shift else None),
        seed=some.seed,
    )
    return study, dataset.spec


def _build_spaces(search: SearchConfig, suggestions: Layer, given: Layer, own: Mapping[str, Layer]) -> list[Space]:
    """Return the space of each method; refuse settings for methods that are not searched."""
    searched = ", ".join(search.methods)
    others = [method for method in own if method not in search.methods]
    if others:
        raise ConfigError(f"spaces must name methods that are searched ({searched}), got {others[0]}")
    named = section_name(given.get("method"))
    if named is not None and named not in search.methods:
        raise ConfigError(f"the method section must name a method that is searched ({searched}), got {named}")
    spaces = [build_space(method, suggestions, given, own.get(method, {})) for method in search.methods]
    if search.sampler == "grid":
        return [space.restricted_to_grid(search.k_free) for space in spaces]
    if search.k_free:
        raise ConfigError("--k-free needs --sampler grid: every other sampler chooses K itself, and K′ is always free")
    return spaces
