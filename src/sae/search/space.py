"""The configurations that a search may try: a run's settings with holes, for each method."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml
from optuna.distributions import BaseDistribution

from sae.config.run import FcConfig, ResnetConfig, RunConfig, VggConfig, VitConfig, parse_run, suit_method
from sae.config.settings import Layer, flatten, merge, section_name
from sae.config.study import StudyConfig
from sae.core.errors import ConfigError, did_you_mean
from sae.search.holes import DEPTH, Hole, fill_holes, find_holes, read_holes, write_holes

METHODS = ("sae", "standard", "ensemble", "mc_dropout", "batch_ensemble")
DEPTHS = {c().name: c().depth for c in (FcConfig, VggConfig, ResnetConfig, VitConfig)}
GRID = ("method.inputs", "method.exits")
"""What the sampler `grid` enumerates: N and K."""
MEMBERS = "method.members"


@dataclass(frozen=True)
class Space:
    """What may be tried of one method.

    Attributes:
        method: Its name.
        template: Settings of a run, with holes.
    """

    method: str
    template: Mapping[str, Any]

    @property
    def holes(self) -> dict[str, Hole]:
        """By their paths."""
        return dict(find_holes(self.template))

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """As Optuna knows them."""
        return {path: hole.distribution() for path, hole in self.holes.items()}

    @property
    def size(self) -> float:
        """How many configurations there are; infinite if a hole is continuous."""
        points = [hole.points() for hole in self.holes.values()]
        return math.prod(math.inf if p is None else len(p) for p in points)

    def is_enumerated(self, config: StudyConfig) -> bool:
        """Whether a study tries out all of it, in order: if it is small, or if that is what was asked for."""
        return self.size <= config.grid or config.sampler == "grid"

    def fill(self, suggested: Mapping[str, Any]) -> RunConfig:
        """The config for a value in every hole."""
        return parse_run(fill_holes(self.template, suggested))

    def points(self) -> Iterator[dict[str, Any]]:
        """All suggestions of a finite space.

        Ensembles of most members come first: smaller ones can take their members from them.
        """
        holes = self.holes
        order = sorted(holes, key=lambda path: path != MEMBERS)
        for values in itertools.product(*(_descending_members(path, holes[path]) for path in order)):
            point = dict(zip(order, values, strict=True))
            yield {path: point[path] for path in holes}

    def structures(self) -> Iterator[dict[str, Any]]:
        """All suggestions of what is finite, with what is continuous at the lower end."""
        choices = {path: hole.points() or [hole.values[0]] for path, hole in self.holes.items()}
        return (dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values()))

    def corners(self) -> Iterator[dict[str, Any]]:
        """Suggestions whose acceptance means that every other is accepted: any two holes at each of their ends.

        What a run checks is one setting, or one against another, such as exits against depth.
        """
        ends = {path: hole.ends() for path, hole in self.holes.items()}
        first = {path: values[0] for path, values in ends.items()}
        yield first
        for path, values in ends.items():
            yield from ({**first, path: value} for value in values[1:])
        for (one, of_one), (other, of_other) in itertools.combinations(ends.items(), 2):
            for pair in itertools.product(of_one[1:], of_other[1:]):
                yield first | dict(zip((one, other), pair, strict=True))

    def check(self) -> None:
        """Refuse a space with values that a run would refuse."""
        for corner in self.corners():
            try:
                self.fill(corner)
            except ConfigError as error:
                raise ConfigError(
                    f"the space of {self.method} must hold valid settings only, however {error}"
                ) from None

    def to_yaml(self) -> dict[str, Any]:
        """As it is kept in a study."""
        return write_holes(self.template)

    def restricted_to_grid(self, k_free: bool) -> "Space":
        """N and K only, everything else fixed; with `k_free` only the largest K is trained.

        What is fixed has its default, or the first value of its hole if the default is not in there.

        Of a method that has neither, only what is continuous is fixed.
        """
        holes, defaults = self.holes, dict(flatten(_defaults(self.template)))
        has_grid = any(path in holes for path in GRID)
        free = [path for path, hole in holes.items() if (path in GRID if has_grid else hole.points() is not None)]
        fixed = {path: _inside(hole, defaults[path]) for path, hole in holes.items() if path not in free}
        if k_free and GRID[1] in holes:
            fixed[GRID[1]] = max(holes[GRID[1]].values)
        return Space(self.method, _with_values(self.template, fixed))


def build_space(method: str, suggestions: Layer, given: Layer, own: Layer) -> Space:
    """The space of one method, the later over the earlier: data set, shipped space, the user's file and flags.

    Args:
        method: Its name.
        suggestions: What the data set suggests.
        given: Settings for all methods, perhaps with holes; a `method` section counts for the method that it names.
        own: Settings for this method alone.
    """
    if method not in METHODS:
        raise ConfigError(f"method must be one of {', '.join(METHODS)}; got {method!r}{did_you_mean(method, METHODS)}")
    section = {"method": {"name": method}}
    given = merge(_for_method(read_holes(given), method), read_holes(own))
    base = merge(merge(suit_method(suggestions, section), section), {})
    _check_names(given)
    backbone = section_name(merge(base, given).get("backbone"))
    template = merge(merge(base, shipped(method, str(backbone))), given)
    space = Space(method, _with_depth(template))
    space.check()
    return Space(method, merge(_defaults(space.template), space.template))


def read_space(method: str, template: Layer) -> Space:
    """A space as a study kept it."""
    return Space(method, read_holes(template))


def shipped(method: str, backbone: str) -> dict[str, Any]:
    """The paper's space for a method on a backbone, as a layer of settings with holes."""
    text = files("sae.presets").joinpath("spaces", f"{method}.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    of_backbone = values["backbones"].get(backbone, {})
    return read_holes({"method": values["method"], "backbone": {"name": backbone, **of_backbone}})


def _for_method(given: Layer, method: str) -> dict[str, Any]:
    """The layer without a `method` section that is about another one; a section without a name is about SAE."""
    name = section_name(given.get("method"))
    return dict(given) if (name or "sae") == method else {key: value for key, value in given.items() if key != "method"}


def _check_names(given: Layer) -> None:
    """A space is of one data set, one backbone and one method."""
    for path, hole in find_holes(given):
        if path.removesuffix(".name") in ("data", "backbone", "method"):
            raise ConfigError(
                f"{path.removesuffix('.name')}.name must be one value, not a hole, got {hole.as_setting()}"
            )


def _with_depth(template: dict[str, Any]) -> dict[str, Any]:
    """Ranges that end at the depth of the backbone end there."""
    backbone = template.get("backbone", {})
    all_stages = next((stages for name, stages in DEPTHS.items() if name == backbone.get("name")), 1)
    depth = backbone.get("depth", all_stages)
    if not isinstance(depth, int | Hole):
        raise ConfigError(f"backbone.depth must be a whole number, or a hole of them, got {depth!r}")
    open_ends = {path: hole for path, hole in find_holes(template) if DEPTH in hole.values}
    if open_ends and isinstance(depth, Hole):
        raise ConfigError(
            f"{', '.join(open_ends)} ends at the depth of the backbone, which must then be one number, "
            f"got {depth.as_setting()}: fix backbone.depth, or give both ends"
        )

    for path, hole in open_ends.items():
        if not hole.values[0] <= depth:
            raise ConfigError(
                f"{path}: a range up to the depth of the backbone, {depth}, cannot start at {hole.values[0]}"
            )
    return _with_values(template, {path: Hole(hole.kind, (hole.values[0], depth)) for path, hole in open_ends.items()})


def _inside(hole: Hole, default: Any) -> Any:
    """The default if it may stand in the hole, else the hole's first value."""
    if hole.kind == "choice":
        return default if default in hole.values else hole.values[0]
    low, high = hole.values
    return default if low <= default <= high else low


def _defaults(template: Layer) -> dict[str, Any]:
    """All settings of a run of the same data, backbone and method at their defaults."""
    names = {key: {"name": template[key]["name"]} for key in ("data", "backbone", "method")}
    return parse_run(names).model_dump(mode="json")


def _with_values(values: Layer, fixed: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The same settings with values in place of some holes, by their paths."""
    return {
        key: _with_values(value, fixed, f"{prefix}{key}.")
        if isinstance(value, Mapping)
        else fixed.get(f"{prefix}{key}", value)
        for key, value in values.items()
    }


def _descending_members(path: str, hole: Hole) -> list[Any]:
    points = hole.points()
    assert points is not None, f"only a finite space can be enumerated, however {path} is {hole.kind}"
    return sorted(points, reverse=True) if path == MEMBERS else points
