"""Search spaces: the settings of a run with holes, one space for each method."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from optuna.distributions import BaseDistribution

from sae.config.backbones import BACKBONES
from sae.config.methods import DEFAULT_METHOD, METHODS
from sae.config.run import RunConfig, parse_run, suit_method
from sae.config.settings import Layer, Values, flatten, merge, section_name
from sae.config.study import StudyConfig, Value
from sae.core.errors import ConfigError
from sae.search.holes import DEPTH, Hole, Point, fill_holes, find_holes, number, read_holes, write_holes

GRID_PATHS = ("method.inputs", "method.exits")
"""The settings that the sampler `grid` enumerates: N and K."""
MEMBERS = "method.members"
RATE = "train.lr"
STRUCTURAL = ("method.", "backbone.")
"""Prefixes of the paths of settings that may affect the cost of a network."""


@dataclass(frozen=True)
class Space:
    """The configurations of one method that may be tried.

    Attributes:
        method: Its name.
        template: Settings of a run, with holes.
    """

    method: str
    template: Layer

    @property
    def holes(self) -> dict[str, Hole]:
        """Its holes by their paths."""
        return dict(find_holes(self.template))

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Its holes as distributions of Optuna, by their paths."""
        return {path: hole.distribution() for path, hole in self.holes.items()}

    @property
    def size(self) -> float:
        """The number of configurations; infinite if a hole is continuous."""
        points = [hole.points() for hole in self.holes.values()]
        return math.prod(math.inf if p is None else len(p) for p in points)

    def is_enumerated(self, config: StudyConfig) -> bool:
        """Return whether a study tries every configuration, in order: if there are few, or with the sampler grid."""
        return self.size <= config.grid or config.sampler == "grid"

    def fill(self, suggested: Point) -> RunConfig:
        """Return the config with the suggested value in every hole."""
        return parse_run(fill_holes(self.template, suggested))

    def points(self) -> Iterator[Point]:
        """Yield all points of a finite space.

        The largest ensembles come first, because smaller ones can take their members from them.
        """
        holes = self.holes
        order = sorted(holes, key=lambda path: path != MEMBERS)
        for values in itertools.product(*(_descending_members(path, holes[path]) for path in order)):
            point = dict(zip(order, values, strict=True))
            yield {path: point[path] for path in holes}

    def structures(self) -> Iterator[Point]:
        """Yield all points of the finite holes of networks; other holes, e.g. the learning rate, have one value."""
        choices: dict[str, list[Value]] = {
            path: (hole.points() if path.startswith(STRUCTURAL) else None) or hole.ends()[:1]
            for path, hole in self.holes.items()
        }
        return (dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values()))

    def corners(self) -> Iterator[Point]:
        """Yield the points to check, with every pair of holes at their ends: if a run accepts these, it accepts all.

        A run checks single settings, or one against another, e.g. exits against depth.
        """
        ends = {path: hole.ends() for path, hole in self.holes.items()}
        first = {path: values[0] for path, values in ends.items()}
        yield first
        for path, values in ends.items():
            yield from ({**first, path: value} for value in values[1:])
        for (one, of_one), (other, of_other) in itertools.combinations(ends.items(), 2):
            for pair in itertools.product(of_one[1:], of_other[1:]):
                yield first | dict(zip((one, other), pair, strict=True))

    def starts(self, first: Sequence[Mapping[str, object]]) -> Iterator[dict[str, Value]]:
        """Yield those of the given values that lie in this space, as suggestions for its holes.

        Where the space has a choice of learning rates and the values name none, each of them is tried. Enumerated
        methods get every rate, too, so that a comparison does not depend on which rates a sampler happened to draw.

        Args:
            first: Values of some holes, by their paths.
        """
        holes = self.holes
        for values in first:
            found = {path: holes[path].suggestion(value) for path, value in values.items() if path in holes}
            if len(found) == len(values) and None not in found.values():
                rates = holes[RATE].points() if RATE in holes and RATE not in found else None
                yield from [found] if rates is None else [{**found, RATE: rate} for rate in rates]

    def check(self) -> None:
        """Refuse a space with values that a run would refuse."""
        for corner in self.corners():
            try:
                self.fill(corner)
            except ConfigError as error:
                raise ConfigError(f"the space of {self.method} must hold valid settings only: {error}") from None

    def to_yaml(self) -> Layer:
        """Return the template as it is stored in a study."""
        return write_holes(self.template)

    def restricted_to_grid(self, k_free: bool) -> "Space":
        """Return the space with only the holes of N and K; with `k_free` only N, and the largest K.

        All other holes are fixed at their default, or at their first value if the default is outside. In a method
        without N and K only the continuous holes are fixed. Finite holes of the training, e.g. of its learning rate,
        stay in every method, so that each gets the same number of values.
        """
        holes, defaults = self.holes, dict(flatten(_defaults(self.template)))
        has_grid = any(path in holes for path in GRID_PATHS)
        free = [
            path
            for path, hole in holes.items()
            if (path in GRID_PATHS if has_grid and path.startswith(STRUCTURAL) else hole.points() is not None)
        ]
        fixed = {path: _inside(hole, defaults[path]) for path, hole in holes.items() if path not in free}
        if k_free and GRID_PATHS[1] in holes:
            fixed[GRID_PATHS[1]] = max(holes[GRID_PATHS[1]].values, key=number)
        return Space(self.method, _with_values(self.template, fixed))


def build_space(method: str, suggestions: Layer, given: Layer, own: Layer) -> Space:
    """Build the space of one method from layers: data set, shipped space, the user's file and flags.

    Args:
        method: Its name.
        suggestions: The data set's suggested settings.
        given: Settings for all methods, with or without holes; a `method` section applies to the method it names.
        own: Settings for this method alone.
    """
    METHODS.get(method)
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
    """Read a space as it is stored in a study."""
    return Space(method, read_holes(template))


def shipped(method: str, backbone: str) -> Values:
    """Return the space of a method on a backbone as a layer of settings with holes.

    A method with exits always uses all stages. An unknown backbone has no holes; its name is refused when the
    settings are checked.
    """
    entry = METHODS.get(method)
    sizes = BACKBONES.get(backbone).space if backbone in BACKBONES else {}
    varied = {key: hole for key, hole in sizes.items() if key != "depth" or not entry.settings.has_exits}
    return read_holes({"method": {"name": method, **entry.space}, "backbone": {"name": backbone, **varied}})


def _for_method(given: Layer, method: str) -> Values:
    """Return the layer without a `method` section of another method; without a name it is the default method's."""
    name = section_name(given.get("method"))
    if (name or DEFAULT_METHOD) == method:
        return dict(given)
    return {key: value for key, value in given.items() if key != "method"}


def _check_names(given: Layer) -> None:
    """Refuse holes in place of the names of data set, backbone and method."""
    for path, hole in find_holes(given):
        if path.removesuffix(".name") in ("data", "backbone", "method"):
            raise ConfigError(
                f"{path.removesuffix('.name')}.name must be one value, not a hole, got {hole.as_setting()}"
            )


def _with_depth(template: Values) -> Values:
    """Replace the word `depth` in ranges and choices by the depth of the backbone."""
    backbone = template.get("backbone", {})
    name = backbone.get("name")
    depth = BACKBONES.get(name).settings.depth_of(backbone) if name in BACKBONES else backbone.get("depth", 1)
    if not isinstance(depth, int | Hole):
        raise ConfigError(f"backbone.depth must be a whole number, a range or choices, got {depth!r}")
    open_ends = {path: hole for path, hole in find_holes(template) if _means_depth(hole)}
    if not open_ends:
        return template
    if isinstance(depth, Hole):
        raise ConfigError(
            f"{', '.join(open_ends)} ends at the depth of the backbone, which must then be one number, "
            f"got {depth.as_setting()}: fix backbone.depth, or write a number instead of {DEPTH}"
        )
    for path, hole in open_ends.items():
        if hole.kind != "choice" and not number(hole.values[0]) <= depth:
            raise ConfigError(
                f"{path}: a range up to the depth of the backbone, {depth}, cannot start at {hole.values[0]}"
            )
    return _with_values(template, {path: _closed(hole, depth) for path, hole in open_ends.items()})


def _means_depth(hole: Hole) -> bool:
    """Return whether a hole holds the word `depth` among numbers; among other words it is an ordinary word."""
    others = [value for value in hole.values if value != DEPTH]
    return len(others) < len(hole.values) and all(isinstance(value, int) for value in others)


def _closed(hole: Hole, depth: int) -> Hole:
    """Return the hole with the depth as a number; choices are kept once each."""
    values = tuple(depth if value == DEPTH else value for value in hole.values)
    return Hole(hole.kind, tuple(dict.fromkeys(values)) if hole.kind == "choice" else values)


def _inside(hole: Hole, default: object) -> object:
    """Return the default if the hole allows it, else the hole's first value."""
    if hole.kind == "choice":
        return default if default in hole.values else hole.values[0]
    low, high = hole.bounds()
    return default if isinstance(default, int | float) and low <= default <= high else low


def _defaults(template: Layer) -> Layer:
    """Return all settings of a run with the same data, backbone and method at their defaults."""
    names = {key: {"name": template[key]["name"]} for key in ("data", "backbone", "method")}
    fields = BACKBONES.get(template["backbone"]["name"]).settings.model_fields
    needed = {key: value for key, value in template["backbone"].items() if key in fields and fields[key].is_required()}
    return parse_run(merge(names, {"backbone": needed})).model_dump(mode="json")


def _with_values(values: Layer, fixed: Mapping[str, object], prefix: str = "") -> Values:
    """Replace some holes of settings by values, given by their paths."""
    return {
        key: _with_values(value, fixed, f"{prefix}{key}.")
        if isinstance(value, Mapping)
        else fixed.get(f"{prefix}{key}", value)
        for key, value in values.items()
    }


def _descending_members(path: str, hole: Hole) -> list[Value]:
    points = hole.points()
    assert points is not None, f"only a finite space can be enumerated, got {hole.kind} for {path}"
    return sorted(points, key=number, reverse=True) if path == MEMBERS else points
