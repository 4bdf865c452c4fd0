import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from optuna._hypervolume import compute_hypervolume

from sae.analysis.pareto import (
    BLOCK,
    Losses,
    added_volume,
    hypervolume,
    knee,
    may_be_news,
    non_dominated,
    normalised,
    ranks,
    spread_order,
    usual_worst,
)

NAN, INF = np.nan, np.inf
COARSE = st.integers(0, 5).map(float)
"""So few values that ties and duplicates are common."""
ANY = COARSE | st.sampled_from([NAN, INF, -INF])


def losses(elements: st.SearchStrategy[float], most: int = 12) -> st.SearchStrategy[Losses]:
    shapes = st.tuples(st.integers(0, most), st.integers(1, 5))
    return shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=elements))


def beats(one: Losses, other: Losses) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and any(a < b for a, b in zip(one, other, strict=True))


def naive_front(points: Losses) -> list[bool]:
    usable = [bool(np.isfinite(point).all()) for point in points]
    return [
        good and not any(fit and beats(other, point) for other, fit in zip(points, usable, strict=True))
        for point, good in zip(points, usable, strict=True)
    ]


def counted_volume(points: Losses, reference: int) -> float:
    """Of whole-numbered points: how many unit cells below the reference some point beats."""
    cells = np.stack(np.meshgrid(*[np.arange(reference)] * points.shape[1], indexing="ij"), axis=-1)
    return float((points[:, *[None] * points.shape[1]] <= cells).all(axis=-1).any(axis=0).sum())


@given(losses(ANY))
def test_the_front_is_what_a_double_loop_finds(points: Losses) -> None:
    assert non_dominated(points).tolist() == naive_front(points)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([[1, 1], [1, 1]], [True, True]),  # equals do not beat each other
        ([[1, 2], [1, 3]], [True, False]),  # a tie in one is decided by the other
        ([[0, 2], [2, 0], [1, 1], [2, 2]], [True, True, True, False]),
        ([[-INF, 0], [1, 1]], [False, True]),
        ([[NAN, NAN]], [False]),
        ([[0.0], [-0.0], [1.0]], [True, True, False]),
    ],
)
def test_known_fronts(points: list[list[float]], expected: list[bool]) -> None:
    assert non_dominated(np.array(points, dtype=np.float64)).tolist() == expected


@pytest.mark.parametrize("num_objectives", [1, 2, 5])
def test_no_points_have_no_front_and_no_volume(num_objectives: int) -> None:
    none = np.empty((0, num_objectives))
    assert non_dominated(none).shape == ranks(none).shape == spread_order(none).shape == (0,)
    assert normalised(none).shape == none.shape
    assert hypervolume(none, np.ones(num_objectives)) == 0.0
    with pytest.raises(AssertionError, match="a knee needs a point"):
        knee(none)


def test_the_front_of_thousands_takes_little_memory() -> None:
    points = np.random.default_rng(0).random((2000, 5))
    tracemalloc.start()
    non_dominated(points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


@given(losses(ANY))
def test_a_rank_is_the_front_of_what_is_left(points: Losses) -> None:
    rank = ranks(points)
    usable = np.isfinite(points).all(axis=1)
    assert (rank[~usable] == len(points)).all()
    for value in range(len(points)):
        left = usable & (rank >= value)
        assert (left & (rank == value))[left].tolist() == naive_front(points[left])


@given(losses(ANY))
def test_the_spread_order_holds_every_point_once_and_the_better_rank_first(points: Losses) -> None:
    order = spread_order(points)
    assert sorted(order.tolist()) == list(range(len(points)))
    assert (np.diff(ranks(points)[order]) >= 0).all()


@given(losses(COARSE))
def test_the_spread_order_begins_nearest_to_the_ideal_of_the_best_rank(points: Losses) -> None:
    order, rank = spread_order(points), ranks(points)
    if len(points):
        distances = np.linalg.norm(normalised(points), axis=1)
        assert distances[order[0]] == pytest.approx(distances[rank == 0].min())


def test_the_spread_order_goes_to_the_ends_before_the_middle() -> None:
    along = np.linspace(0, 1, 11)
    order = spread_order(np.stack([along, 1 - along], axis=1))
    assert order[0] == 5
    assert set(order[1:3].tolist()) == {0, 10}
    assert set(order[3:5].tolist()) <= {2, 3, 7, 8}


@given(losses(COARSE, most=8))
def test_each_point_of_a_spread_is_as_far_as_can_be_from_those_before(points: Losses) -> None:
    order, rank, scaled = spread_order(points), ranks(points), normalised(points)
    for value in np.unique(rank):
        members = [index for index in order.tolist() if rank[index] == value]
        for place in range(1, len(members)):
            gaps = [min(np.linalg.norm(scaled[i] - scaled[j]) for j in members[:place]) for i in members[place:]]
            assert gaps[0] == pytest.approx(max(gaps))


@given(losses(COARSE, most=6).filter(lambda points: points.shape[1] <= 4))
def test_the_hypervolume_counts_the_cells_that_are_beaten(points: Losses) -> None:
    reference = np.full(points.shape[1], 4.0)
    assert hypervolume(points, reference) == pytest.approx(counted_volume(points, 4), abs=1e-9)


@pytest.mark.parametrize("num_objectives", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(4))
def test_the_hypervolume_is_that_of_optuna(num_objectives: int, seed: int) -> None:
    points = np.random.default_rng(seed).random((30, num_objectives)).round(seed or 6)  # ties and duplicates
    reference = np.full(num_objectives, 0.9)
    inside = points[(points < reference).all(axis=1)]
    expected = compute_hypervolume(inside, reference)
    assert hypervolume(points, reference) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("num_objectives", [3, 5])
def test_the_hypervolume_is_the_share_of_random_places_that_are_beaten(num_objectives: int) -> None:
    rng = np.random.default_rng(1)
    points = rng.random((12, num_objectives)) * 0.8
    places = rng.random((20_000, num_objectives))
    share = (points[:, None] <= places[None]).all(axis=2).any(axis=0).mean()
    assert hypervolume(points, np.ones(num_objectives)) == pytest.approx(share, abs=0.015)


def test_points_that_are_not_finite_or_not_below_the_reference_add_no_volume() -> None:
    useless = np.array([[1.0, 0.0], [0.0, 2.0], [NAN, 0.0], [-INF, 0.0], [INF, 0.0]])
    assert hypervolume(useless, np.ones(2)) == 0.0
    assert hypervolume(np.vstack([useless, [[0.5, 0.5]]]), np.ones(2)) == 0.25
    assert hypervolume(np.array([[-INF], [0.25]]), np.ones(1)) == 0.75
    for point in useless:
        assert added_volume(point, np.empty((0, 2)), np.ones(2)) == 0.0


@given(losses(ANY, most=8))
def test_what_points_add_one_after_the_other_is_the_hypervolume(points: Losses) -> None:
    reference = np.full(points.shape[1], 4.0)
    added = [added_volume(point, points[:index], reference) for index, point in enumerate(points)]
    assert min(added, default=0.0) >= -1e-9
    assert sum(added) == pytest.approx(hypervolume(points, reference), abs=1e-6)


def test_losses_are_scaled_from_the_best_to_the_worst() -> None:
    points = np.array([[1.0, 7.0], [3.0, 7.0], [2.0, 7.0], [NAN, 7.0], [INF, 7.0]])
    expected = [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [INF, 0.0], [INF, 0.0]]
    assert normalised(points).tolist() == expected
    assert normalised(np.array([[5.0, 7.0]]), among=points).tolist() == [[2.0, 0.0]]


def test_the_knee_does_not_depend_on_units() -> None:
    points = np.array([[0.0, 1.0], [0.3, 0.3], [1.0, 0.0], [0.9, 0.05]])
    assert knee(points) == 1
    assert knee(points * [1e6, 1e-6] + [5.0, -3.0]) == 1


def test_an_outlier_does_not_hide_the_differences_of_the_others() -> None:
    points = np.array([[0.10, 0.5], [0.12, 0.2], [0.20, 0.15], [0.30, 0.10], [0.40, 0.05]])
    with_outlier = np.vstack([points, [50.0, 0.049]])
    assert knee(points) == knee(with_outlier) == 1
    assert np.argmin(np.linalg.norm(normalised(with_outlier), axis=1)) == 4  # what it would be by the whole range


@given(losses(ANY, most=9))
def test_the_knee_of_any_points_is_one_of_them(points: Losses) -> None:
    if len(points):
        usable = [bool(np.isfinite(point).all()) for point in points]
        assert usable[knee(points)] or not any(usable)


def test_the_usual_worst_leaves_out_what_is_far_off() -> None:
    points = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0], [99.0, 7.0], [NAN, 1.0]])
    assert usual_worst(points).tolist() == [4.0, 7.0]
    assert usual_worst(points[:1]).tolist() == [1.0, 0.0]


def test_of_equally_near_points_the_first_is_the_knee() -> None:
    assert knee(np.array([[0.0, 1.0], [1.0, 0.0]])) == 0
    assert knee(np.array([[1.0, 1.0], [1.0, 1.0]])) == 0


def test_a_point_that_is_not_finite_is_no_knee() -> None:
    assert knee(np.array([[NAN, 0.0], [-INF, 0.0], [1.0, 1.0], [0.5, 3.0]])) in (2, 3)


def test_what_is_no_news_is_covered_by_an_earlier_point_and_nothing_else_is_left_out() -> None:
    losses = np.random.default_rng(0).random((3 * BLOCK + 7, 3))
    losses[5] = np.nan
    news = may_be_news(losses)
    for index, point in enumerate(losses):
        earlier = losses[: index - index % BLOCK]
        assert news[index] == (not (earlier <= point).all(axis=1).any())
    assert 0 < news.sum() < len(losses)
