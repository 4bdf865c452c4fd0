"""A mixed search space mapped to the unit cube, for distances and random points.

A point has one coordinate in [0, 1] per parameter. Logarithmic floats and ints are spread in
log space. Every value of an int, a stepped float or a categorical parameter owns a cell of
its axis; `snap` moves a coordinate to the middle of its cell, so that a snapped point is a
valid configuration.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from sae.config.study import Value
from sae.search.holes import Point, number

Floats = NDArray[np.float64]


class Axis(Protocol):
    """One parameter: its values, and their places in [0, 1]."""

    def encode(self, value: Value) -> float:
        """Return the coordinate of a value."""

    def decode(self, coordinate: float) -> Value:
        """Return the value nearest to a coordinate."""

    def snap(self, coordinates: Floats) -> Floats:
        """Return the nearest coordinates of valid values, (point,)."""

    def columns(self, coordinates: Floats) -> Floats:
        """Return the features of snapped coordinates for a model, (point, column)."""


class ContinuousAxis:
    """A float without steps."""

    def __init__(self, distribution: FloatDistribution) -> None:
        self.low, self.high, self.log = distribution.low, distribution.high, distribution.log

    def encode(self, value: Value) -> float:
        """Return the coordinate of a value."""
        ends_and_value = self.low, self.high, number(value)
        low, high, at = np.log(ends_and_value) if self.log else ends_and_value
        return float((at - low) / (high - low))

    def decode(self, coordinate: float) -> float:
        """Return the value at a coordinate."""
        low, high = np.log([self.low, self.high]) if self.log else (self.low, self.high)
        at = low * (1 - coordinate) + high * coordinate
        return float(np.clip(np.exp(at) if self.log else at, self.low, self.high))

    def snap(self, coordinates: Floats) -> Floats:
        """Return the coordinates: all are valid."""
        return coordinates

    def columns(self, coordinates: Floats) -> Floats:
        """Return the coordinate itself."""
        return coordinates[:, None]


class SteppedAxis:
    """An int, or a float with steps; the cell of a value reaches half a step down and up."""

    def __init__(self, distribution: FloatDistribution | IntDistribution) -> None:
        assert distribution.step is not None
        self.low, self.step, self.log = distribution.low, distribution.step, distribution.log
        self.is_int = isinstance(distribution, IntDistribution)
        self.last = round((distribution.high - distribution.low) / distribution.step)
        edges = np.array([self.low - self.step / 2, self.low + (self.last + 0.5) * self.step])
        self.edges = np.log(edges) if self.log else edges

    def encode(self, value: Value) -> float:
        """Return the coordinate of a value."""
        return float(self._coordinates(np.array([number(value)]))[0])

    def decode(self, coordinate: float) -> int | float:
        """Return the value whose cell holds a coordinate."""
        value = self.low + int(self._steps(np.array([coordinate]))[0]) * self.step
        return int(value) if self.is_int else float(value)

    def snap(self, coordinates: Floats) -> Floats:
        """Return the coordinates of the values whose cells hold these."""
        return self._coordinates(self.low + self._steps(coordinates) * self.step)

    def columns(self, coordinates: Floats) -> Floats:
        """Return the coordinate itself."""
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

    def encode(self, value: Value) -> float:
        """Return the middle of the choice's cell."""
        return (self.distribution.to_internal_repr(value) + 0.5) / self.count

    def decode(self, coordinate: float) -> Value:
        """Return the choice whose cell holds a coordinate."""
        return self.distribution.choices[int(self._indices(np.array([coordinate]))[0])]

    def snap(self, coordinates: Floats) -> Floats:
        """Return the middles of the cells that hold these."""
        return (self._indices(coordinates) + 0.5) / self.count

    def columns(self, coordinates: Floats) -> Floats:
        """Return one column per choice, such that any two choices have distance 1."""
        return np.asarray(np.sqrt(0.5) * np.eye(self.count)[self._indices(coordinates).astype(int)])

    def _indices(self, coordinates: Floats) -> Floats:
        return np.asarray(np.clip(np.floor(coordinates * self.count), 0, self.count - 1))


def axis_of(distribution: BaseDistribution) -> Axis:
    """Return the axis of a parameter."""
    if isinstance(distribution, CategoricalDistribution):
        return CategoricalAxis(distribution)
    if isinstance(distribution, FloatDistribution) and distribution.step is None:
        return ContinuousAxis(distribution)
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return SteppedAxis(distribution)


class UnitCube:
    """The axes of all parameters of a space, in its order.

    Example:
        >>> cube = UnitCube({"width": IntDistribution(1, 4), "rate": FloatDistribution(1e-4, 1, log=True)})
        >>> cube.encode([{"width": 1, "rate": 0.01}])
        array([[0.125, 0.5  ]])
        >>> cube.decode(np.array([0.3, 1.0]))
        {'width': 2, 'rate': 1.0}
    """

    def __init__(self, space: Mapping[str, BaseDistribution]) -> None:
        self.axes = {name: axis_of(distribution) for name, distribution in space.items()}

    def encode(self, configurations: Sequence[Point]) -> Floats:
        """Return configurations as points, (point, parameter)."""
        rows = [[axis.encode(params[name]) for name, axis in self.axes.items()] for params in configurations]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.axes))

    def decode(self, point: Floats) -> dict[str, Value]:
        """Return the configuration at a point, (parameter,)."""
        return {name: axis.decode(at) for (name, axis), at in zip(self.axes.items(), point, strict=True)}

    def snap(self, points: Floats) -> Floats:
        """Return the nearest valid points, (point, parameter)."""
        return np.stack([axis.snap(at) for axis, at in zip(self.axes.values(), points.T, strict=True)], axis=1)

    def columns(self, points: Floats) -> Floats:
        """Return the features of snapped points for a model, (point, column)."""
        parts = [axis.columns(at) for axis, at in zip(self.axes.values(), points.T, strict=True)]
        return np.concatenate(parts, axis=1)

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw random valid points, (point, parameter)."""
        return self.snap(rng.random((count, len(self.axes))))

    def vary(self, points: Floats, count: int, radius: float, rng: np.random.Generator) -> Floats:
        """Draw valid points near given ones: some coordinates are moved a little, or drawn again.

        Args:
            points: The given points, (point, parameter).
            count: Number of points to draw near each.
            radius: Standard deviation of the moves.
            rng: The source of randomness.
        """
        around = np.repeat(points, count, axis=0)
        moved = np.clip(around + rng.normal(0, radius, around.shape), 0, 1)
        is_moved = rng.random(around.shape) < max(0.3, 1 / around.shape[1])
        is_new = rng.random(around.shape) < 0.1
        return self.snap(np.where(is_new, rng.random(around.shape), np.where(is_moved, moved, around)))
