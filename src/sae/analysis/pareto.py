"""Pareto fronts, hypervolumes and knees of points in several losses.

All functions take losses (point, objective), where less is better.
"""

import numpy as np
from numpy.typing import NDArray

Losses = NDArray[np.float64]

BLOCK = 256
"""Points that are compared with a front at once."""
FAR_OUT = 3.0
"""A loss more than this many interquartile ranges above the third quartile is an outlier."""


def non_dominated(losses: Losses) -> NDArray[np.bool_]:
    """Return which points are Pareto-optimal: no other is at least as good in all objectives and better in one.

    Equal points do not dominate each other. A point with a number that is not finite is never optimal.

    Example:
        >>> non_dominated(np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 3.0], [np.nan, 0.0]])).tolist()
        [True, True, False, False]
    """
    kept = np.zeros(len(losses), dtype=bool)
    left = np.flatnonzero(np.isfinite(losses).all(axis=1))
    left = left[np.lexsort(losses[left].T[::-1])]  # sorted, a later point never dominates an earlier one
    while len(left):
        best = losses[left[0]]
        others = losses[left]
        kept[left[(others == best).all(axis=1)]] = True
        left = left[(others < best).any(axis=1)]
    return kept


def may_be_news(losses: Losses) -> NDArray[np.bool_]:
    """Return which points, in the order given, may enlarge the front of those before them.

    Most points of a long search do not: an earlier one is as good in every objective. They are found in blocks, so some
    that are covered by a point of their own block count as news, too.

    Example:
        >>> may_be_news(np.array([[1.0, 1.0]] * (BLOCK + 1))).tolist().count(True)
        256
    """
    news = np.ones(len(losses), dtype=bool)
    front = np.zeros((0, losses.shape[1]))
    for start in range(0, len(losses), BLOCK):
        block = losses[start : start + BLOCK]
        is_new = ~_are_covered(block, front)
        news[start : start + BLOCK] = is_new
        if is_new.any():
            front = np.vstack([front, block[is_new]])
            front = front[non_dominated(front)]
    return news


def _are_covered(points: Losses, front: Losses) -> NDArray[np.bool_]:
    """Return for each point whether one of a front is at least as good in every objective."""
    covered = np.ones((len(front), len(points)), dtype=bool)
    for objective in range(points.shape[1]):  # one at a time: reducing a short axis is slow
        covered &= front[:, objective, None] <= points[:, objective]
    return np.asarray(covered.any(axis=0))


def ranks(losses: Losses) -> NDArray[np.int64]:
    """Return non-dominated ranks: 0 for the Pareto front, 1 for the front of the rest, and so on.

    Points with a number that is not finite come last.

    Example:
        >>> ranks(np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 3.0]])).tolist()
        [0, 1, 1]
    """
    result = np.full(len(losses), len(losses), dtype=np.int64)
    left = np.flatnonzero(np.isfinite(losses).all(axis=1))
    rank = 0
    while len(left):
        front = non_dominated(losses[left])
        result[left[front]] = rank
        left, rank = left[~front], rank + 1
    return result


def spread_order(losses: Losses) -> NDArray[np.int64]:
    """Return indices of the points by rank; within a rank, each is the farthest from those before it.

    So the first few points always cover the front evenly. The first point of a rank is the nearest to the
    ideal. Points with a number that is not finite come last, in their own order.

    Example:
        >>> spread_order(np.array([[0.0, 1.0], [0.1, 0.8], [0.4, 0.4], [1.0, 0.0], [1.0, 1.0]])).tolist()
        [2, 0, 3, 1, 4]
    """
    rank = ranks(losses)
    usable = np.isfinite(losses).all(axis=1)
    scaled = normalised(losses)
    order = [_spread(np.flatnonzero(rank == value), scaled) for value in np.unique(rank[usable])]
    return np.concatenate([*order, np.flatnonzero(~usable)]).astype(np.int64)


def _spread(members: NDArray[np.int64], scaled: Losses) -> NDArray[np.int64]:
    """Order the members of one rank: the nearest to the ideal first, then always the farthest from those taken."""
    points = scaled[members]
    order = [int(np.argmin(np.linalg.norm(points, axis=1)))]
    gaps = np.full(len(points), np.inf)
    while len(order) < len(points):
        gaps = np.minimum(gaps, np.linalg.norm(points - points[order[-1]], axis=1))
        gaps[order] = -np.inf  # taken, even if another point lies at the same place
        order.append(int(np.argmax(gaps)))
    return members[order]


def normalised(losses: Losses, among: Losses | None = None) -> Losses:
    """Scale losses to 0 for the best and 1 for the worst of `among`; an objective that does not vary is 0."""
    among = losses if among is None else among
    finite = among[np.isfinite(among).all(axis=1)]
    if not len(finite):
        return np.ones_like(losses)
    low, high = finite.min(axis=0), finite.max(axis=0)
    spread = np.where(high > low, high - low, 1.0)
    scaled: Losses = (losses - low) / spread
    return np.where(np.isfinite(scaled), scaled, np.inf)


def hypervolume(losses: Losses, reference: NDArray[np.float64]) -> float:
    """Return the volume that the points dominate, up to a reference point.

    The volume is exact: the sum of the volumes that each point adds to those after it (While et al., A fast
    way of calculating exact hypervolumes, 2012). Points that are not below the reference in every objective,
    or not finite, add nothing.

    Example:
        >>> hypervolume(np.array([[0.0, 0.5], [0.5, 0.0]]), np.ones(2))
        0.75
    """
    inside = losses[((losses < reference) & np.isfinite(losses)).all(axis=1)]
    return _volume(_worth_keeping(inside), reference)


def added_volume(point: Losses, losses: Losses, reference: NDArray[np.float64]) -> float:
    """Return how much a point (objective,) enlarges the hypervolume of others.

    Example:
        >>> added_volume(np.array([0.5, 0.0]), np.array([[0.0, 0.5]]), np.ones(2))
        0.25
    """
    if not (np.isfinite(point) & (point < reference)).all():
        return 0.0
    others = losses[np.isfinite(losses).all(axis=1)]
    return float(np.prod(reference - point)) - hypervolume(np.maximum(others, point), reference)


def _volume(front: Losses, reference: NDArray[np.float64]) -> float:
    """Return the hypervolume of a front without duplicates, sorted from the worst in the first objective."""
    if not len(front):
        return 0.0
    if front.shape[1] == 2:
        widths = reference[0] - front[:, 0]
        floors = np.append(front[1:, 1], reference[1])  # the second objective gets better along the front
        return float((widths * (floors - front[:, 1])).sum())
    alone = np.prod(reference - front, axis=1)
    shared = (_volume(_worth_keeping(np.maximum(front[i + 1 :], front[i])), reference) for i in range(len(front)))
    return float(alone.sum()) - sum(shared)


def _worth_keeping(points: Losses) -> Losses:
    """Return the Pareto front without duplicates, sorted from the worst in the first objective."""
    if len(points) <= 1:
        return points
    left = points[np.lexsort(points.T[::-1])]
    kept = []
    while len(left):
        kept.append(left[0])
        left = left[(left < left[0]).any(axis=1)]
    return np.array(kept[::-1])


def usual_worst(losses: Losses) -> NDArray[np.float64]:
    """Return, per objective, the worst finite loss that is not an outlier.

    An outlier is more than 3 interquartile ranges above the third quartile (Tukey's "far out"); the ends
    of an ordinary front are not. If only points equal to the best would be left, the worst of all is
    taken. There must be a finite point.

    Example:
        >>> usual_worst(np.array([[1.0], [2.0], [3.0], [4.0], [90.0]])).tolist()
        [4.0]
    """
    finite = losses[np.isfinite(losses).all(axis=1)]
    first, third = np.quantile(finite, (0.25, 0.75), axis=0)
    usual = np.where(finite <= third + FAR_OUT * (third - first), finite, -np.inf).max(axis=0)
    worst: NDArray[np.float64] = np.where(usual > finite.min(axis=0), usual, finite.max(axis=0))
    return worst


def knee(losses: Losses, weights: NDArray[np.float64] | None = None) -> int:
    """Return the index of the best compromise: the point nearest to the ideal, with all objectives scaled.

    The ideal is the best of every objective at once, which no point reaches. Outliers do not stretch the
    scale: one point that is far worse in an objective, such as a network read at a K it was not trained
    for, would make all others look alike in it. Among equally near points the first is taken. There must be
    a point.

    Args:
        losses: (point, objective).
        weights: How much the distance in each objective counts, (objective,); by default all count the same.

    Example:
        >>> points = np.array([[0.0, 1.0], [0.2, 0.2], [1.0, 0.0]])
        >>> knee(points), knee(points, np.array([9.0, 1.0]))
        (1, 0)
    """
    assert len(losses), "a knee needs a point"
    usable = np.isfinite(losses).all(axis=1)
    if not usable.any():
        return 0
    usual = np.minimum(losses[usable], usual_worst(losses))
    scaled = normalised(losses, among=usual)[usable] * (1.0 if weights is None else weights)
    return int(np.flatnonzero(usable)[np.argmin(np.linalg.norm(scaled, axis=1))])
