"""A mixed search space as the unit cube, where distances mean something and random points are easy to draw.

A point has one coordinate in [0, 1] per parameter. Logarithmic floats and ints are spread in
log space. Every value of a stepped or whole-numbered parameter, and every choice of a
categorical one, owns a cell of the axis; `snap` moves a coordinate to the middle of its cell,
so that a snapped point is a valid configuration.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

Floats = NDArray[np.float64]


class Axis(Protocol):
    """One parameter: its values, and where they are in [0, 1]."""

    def encode(self, value: Any) -> float:
        """The coordinate of a value."""

    def decode(self, coordinate: float) -> Any:
        """The value nearest to a coordinate."""

    def snap(self, coordinates: Floats) -> Floats:
        """The coordinates of valid values that are nearest, (point,)."""

    def columns(self, coordinates: Floats) -> Floats:
        """What a model sees of snapped coordinates, (point, column)."""


class ContinuousAxis:
    """A float without steps."""

    def __init__(self, distribution: FloatDistribution) -> None:
        self.low, self.high, self.log = distribution.low, distribution.high, distribution.log

    def encode(self, value: float) -> float:
        """The coordinate of a value."""
        low, high, at = np.log([self.low, self.high, value]) if self.log else (self.low, self.high, value)
        return float((at - low) / (high - low))

    def decode(self, coordinate: float) -> float:
        """The value at a coordinate."""
        low, high = np.log([self.low, self.high]) if self.log else (self.low, self.high)
        at = low * (1 - coordinate) + high * coordinate
        return float(np.clip(np.exp(at) if self.log else at, self.low, self.high))

    def snap(self, coordinates: Floats) -> Floats:
        """All coordinates are valid."""
        return coordinates

    def columns(self, coordinates: Floats) -> Floats:
        """The coordinate itself."""
        return coordinates[:, None]


class SteppedAxis:
    """An int, or a float with steps; each value owns a cell from half a step below to half a step above."""

    def __init__(self, distribution: FloatDistribution | IntDistribution) -> None:
        assert distribution.step is not None
        self.low, self.step, self.log = distribution.low, distribution.step, distribution.log
        self.is_int = isinstance(distribution, IntDistribution)
        self.last = round((distribution.high - distribution.low) / distribution.step)
        edges = np.array([self.low - self.step / 2, self.low + (self.last + 0.5) * self.step])
        self.edges = np.log(edges) if self.log else edges

    def encode(self, value: float) -> float:
        """The coordinate of a value."""
        return float(self._coordinates(np.array([value]))[0])

    def decode(self, coordinate: float) -> int | float:
        """The value in whose cell a coordinate is."""
        value = self.low + int(self._steps(np.array([coordinate]))[0]) * self.step
        return int(value) if self.is_int else float(value)

    def snap(self, coordinates: Floats) -> Floats:
        """The coordinates of the values in whose cells these are."""
        return self._coordinates(self.low + self._steps(coordinates) * self.step)

    def columns(self, coordinates: Floats) -> Floats:
        """The coordinate itself."""
        return coordinates[:, None]

    def _coordinates(self, values: Floats) -> Floats:
        at = np.log(values) if self.log else values
        return np.asarray((at - self.edges[0]) / (self.edges[1] - self.edges[0]))

    def _steps(self, coordinates: Floats) -> Floats:
        at = self.edges[0] + coordinates * (self.edges[1] - self.edges[0])
        values = np.exp(at) if self.log else at
        return np.asarray(np.clip(np.rint((values - self.low) / self.step), 0, self.last))


class CategoricalAxis:
    """One of several choices without an order."""

    def __init__(self, distribution: CategoricalDistribution) -> None:
        self.distribution = distribution
        self.count = len(distribution.choices)

    def encode(self, value: Any) -> float:
        """The middle of the choice's cell."""
        return (self.distribution.to_internal_repr(value) + 0.5) / self.count

    def decode(self, coordinate: float) -> Any:
        """The choice in whose cell a coordinate is."""
        return self.distribution.choices[int(self._indices(np.array([coordinate]))[0])]

    def snap(self, coordinates: Floats) -> Floats:
        """The middles of the cells in which these are."""
        return (self._indices(coordinates) + 0.5) / self.count

    def columns(self, coordinates: Floats) -> Floats:
        """One column per choice, such that any two choices are one apart."""
        return np.asarray(np.sqrt(0.5) * np.eye(self.count)[self._indices(coordinates).astype(int)])

    def _indices(self, coordinates: Floats) -> Floats:
        return np.asarray(np.clip(np.floor(coordinates * self.count), 0, self.count - 1))


def axis_of(distribution: BaseDistribution) -> Axis:
    """The axis of a parameter."""
    if isinstance(distribution, CategoricalDistribution):
        return CategoricalAxis(distribution)
    if isinstance(distribution, FloatDistribution) and distribution.step is None:
        return ContinuousAxis(distribution)
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return SteppedAxis(distribution)


class UnitCube:
    """All parameters of a space, in its order.

    Example:
        >>> cube = UnitCube({"width": IntDistribution(1, 4), "rate": FloatDistribution(1e-4, 1, log=True)})
        >>> cube.encode([{"width": 1, "rate": 0.01}])
        array([[0.125, 0.5  ]])
        >>> cube.decode(np.array([0.3, 1.0]))
        {'width': 2, 'rate': 1.0}
    """

    def __init__(self, space: Mapping[str, BaseDistribution]) -> None:
        self.axes = {name: axis_of(distribution) for name, distribution in space.items()}

    def encode(self, configurations: Sequence[Mapping[str, Any]]) -> Floats:
        """Configurations as points, (point, parameter)."""
        rows = [[axis.encode(params[name]) for name, axis in self.axes.items()] for params in configurations]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.axes))

    def decode(self, point: Floats) -> dict[str, Any]:
        """The configuration at a point, (parameter,)."""
        return {name: axis.decode(at) for (name, axis), at in zip(self.axes.items(), point, strict=True)}

    def snap(self, points: Floats) -> Floats:
        """The valid points that are nearest, (point, parameter)."""
        return np.stack([axis.snap(at) for axis, at in zip(self.axes.values(), points.T, strict=True)], axis=1)

    def columns(self, points: Floats) -> Floats:
        """What a model sees of snapped points, (point, column)."""
        parts = [axis.columns(at) for axis, at in zip(self.axes.values(), points.T, strict=True)]
        return np.concatenate(parts, axis=1)

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Random valid points, (point, parameter)."""
        return self.snap(rng.random((count, len(self.axes))))

    def vary(self, points: Floats, count: int, radius: float, rng: np.random.Generator) -> Floats:
        """Valid points near each of these: some coordinates moved a little, or drawn anew.

        Args:
            points: Around which, (point, parameter).
            count: How many around each.
            radius: How far coordinates move, as a standard deviation.
            rng: Where randomness comes from.
        """
        around = np.repeat(points, count, axis=0)
        moved = np.clip(around + rng.normal(0, radius, around.shape), 0, 1)
        is_moved = rng.random(around.shape) < max(0.3, 1 / around.shape[1])
        is_new = rng.random(around.shape) < 0.1
        return self.snap(np.where(is_new, rng.random(around.shape), np.where(is_moved, moved, around)))
