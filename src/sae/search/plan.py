"""From settings to a plan: what a search looks for, where, and in which data."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sae.config.settings import Layer, merge, parse, section_name
from sae.config.study import ConfirmConfig, SearchConfig, StudyConfig
from sae.core.errors import ConfigError
from sae.core.objectives import limits, objectives
from sae.core.task import DataSpec, Regression
from sae.data.catalogue import data_name, load, suggestions
from sae.search.holes import read_holes
from sae.search.screening import check_reach, rungs
from sae.search.space import build_space
from sae.training.shift import check_images


@dataclass(frozen=True)
class SearchPlan:
    """A search that has been found to make sense.

    Attributes:
        settings: What was asked for.
        study: All that its trials depend on.
        spec: Shape and task of the data.
        confirm: What is trained again afterwards.
    """

    settings: SearchConfig
    study: StudyConfig
    spec: DataSpec
    confirm: ConfirmConfig


def resolve_search(layers: Sequence[Layer]) -> SearchPlan:
    """Lay settings over what the data set suggests and the shipped spaces.

    Args:
        layers: Settings of a run with holes, and sections `search`, `confirm` and `spaces`; the lowest first.
    """
    given: dict[str, Any] = {}
    for layer in layers:
        given = merge(given, read_holes(layer))
    own, asked, again = given.pop("spaces", {}), _pop_section(given, "search"), _pop_section(given, "confirm")
    if not isinstance(own, dict) or not all(isinstance(value, dict) for value in own.values()):
        raise ConfigError("spaces must hold a section of settings for each method, e.g. standard: {backbone: …}")
    settings, confirm = parse(SearchConfig, {**methods_of(given), **asked}), parse(ConfirmConfig, again)
    study, spec = resolve_study(settings, suggestions(data_name(given)), given, own)
    return SearchPlan(settings, study, spec, confirm)


def _pop_section(given: dict[str, Any], name: str) -> dict[str, Any]:
    section = given.pop(name, {})
    if not isinstance(section, dict):
        raise ConfigError(f"{name} must be a section of settings, got {section!r}")
    return section


def methods_of(given: Layer) -> dict[str, Any]:
    """The method that a `method` section names is the one to search, where nothing else is said."""
    name = section_name(given.get("method"))
    return {"methods": [name]} if name else {}


def resolve_study(
    search: SearchConfig, suggestions: Layer, given: Layer, own: dict[str, Layer]
) -> tuple[StudyConfig, DataSpec]:
    """All that the trials of a study depend on, and the data's shape; wrong settings are found here, before any work.

    Args:
        search: What is looked for.
        suggestions: What the data set suggests.
        given: The user's settings for all methods, with holes.
        own: The user's settings for single methods.
    """
    strangers = [method for method in own if method not in search.methods]
    if strangers:
        raise ConfigError(f"spaces are for methods that are searched ({', '.join(search.methods)}), got {strangers[0]}")
    named = section_name(given.get("method"))
    if named is not None and named not in search.methods:
        raise ConfigError(
            f"the method section must be about a method that is searched ({', '.join(search.methods)}), got {named}"
        )
    spaces = [build_space(method, suggestions, given, own.get(method, {})) for method in search.methods]
    if search.sampler == "grid":
        spaces = [space.restricted_to_grid(search.k_free) for space in spaces]
    elif search.k_free:
        raise ConfigError(
            "--k-free goes with --sampler grid: every other sampler chooses K itself, and K′ is always free"
        )
    some = spaces[0].fill(next(spaces[0].corners()))
    dataset = load(some.data, some.seed)
    task = "regression" if isinstance(dataset.spec.task, Regression) else "classification"
    chosen = objectives(search.objectives_for(task), task)
    bounds = limits(search.max, search.min, task)
    check_reach(spaces, bounds, dataset.spec)
    if search.shift or any(objective.is_shifted for objective in (*chosen, *(limit.objective for limit in bounds))):
        check_images(dataset)
    study = StudyConfig(
        id=uuid.uuid4().hex[:8],
        task=task,
        spaces={space.method: space.to_yaml() for space in spaces},
        objectives=tuple(objective.name for objective in chosen),
        max=search.max,
        min=search.min,
        sampler=search.sampler_for(len(chosen)),
        startup=search.startup_trials,
        grid=search.grid,
        rungs=rungs(some.train.epochs, search.reduction) if search.stop_early else (),
        reduction=search.reduction,
        shift=search.shift,
        seed=some.seed,
    )
    return study, dataset.spec
