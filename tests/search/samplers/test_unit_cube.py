from collections import Counter

import numpy as np
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from sae.search.samplers.unit_cube import UnitCube

SPACE: dict[str, BaseDistribution] = {
    "float": FloatDistribution(-2, 3),
    "log float": FloatDistribution(1e-5, 1, log=True),
    "stepped": FloatDistribution(0, 1, step=0.1),
    "int": IntDistribution(1, 4),
    "log int": IntDistribution(1, 1000, log=True),
    "choice": CategoricalDistribution(["a", None, 3]),
}
CUBE = UnitCube(SPACE)


def test_a_decoded_point_encodes_to_itself() -> None:
    points = CUBE.draw(200, np.random.default_rng(0))
    np.testing.assert_allclose(CUBE.encode([CUBE.decode(point) for point in points]), points, atol=1e-9)


def test_snapping_twice_is_snapping_once() -> None:
    points = CUBE.draw(200, np.random.default_rng(0))
    np.testing.assert_allclose(CUBE.snap(points), points, atol=1e-12)


@pytest.mark.parametrize("corner", [0.0, 1.0])
def test_corners_are_the_bounds(corner: float) -> None:
    found = CUBE.decode(np.full(len(SPACE), corner))
    expected = {
        "float": (-2.0, 3.0),
        "log float": (1e-5, 1.0),
        "stepped": (0.0, 1.0),
        "int": (1, 4),
        "log int": (1, 1000),
        "choice": ("a", 3),
    }
    for name, bounds in expected.items():
        value = bounds[int(corner)]
        assert found[name] == (pytest.approx(value) if isinstance(value, float) else value)


def test_the_middle_of_a_log_float_is_the_geometric_mean() -> None:
    assert UnitCube({"x": SPACE["log float"]}).decode(np.array([0.5]))["x"] == pytest.approx(10**-2.5)


def test_all_ints_and_choices_are_drawn_equally_often() -> None:
    drawn = [CUBE.decode(point) for point in CUBE.draw(6000, np.random.default_rng(0))]
    for name, count in (("int", 4), ("choice", 3)):
        shares = np.array(list(Counter(params[name] for params in drawn).values())) / len(drawn)
        np.testing.assert_allclose(shares, np.full(count, 1 / count), atol=0.03)


def test_any_two_choices_are_one_apart_in_columns() -> None:
    columns = UnitCube({"x": SPACE["choice"]}).columns(np.array([[1 / 6], [3 / 6], [5 / 6]]))
    distances = np.linalg.norm(columns[:, None] - columns, axis=-1)
    np.testing.assert_allclose(distances, 1 - np.eye(3))


def test_variations_of_a_small_radius_mostly_stay_near() -> None:
    point = CUBE.draw(1, np.random.default_rng(0))
    around = CUBE.vary(point, 500, 0.01, np.random.default_rng(1))
    assert np.median(np.abs(around - point)[:, 0]) < 0.02
    assert np.abs(around - point)[:, 0].max() > 0.2  # some coordinates are drawn anew
