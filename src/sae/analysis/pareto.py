"""Points of several losses: which are worth having, how much they cover, and the one to pick.

All functions take losses (point, objective), where less is better.
"""

import numpy as np
from numpy.typing import NDArray

Losses = NDArray[np.float64]


def non_dominated(losses: Losses) -> NDArray[np.bool_]:
    """Which points no other beats: none is at least as good in all objectives and better in one.

    Equal points do not beat each other. A point with a number that is not finite is never among them.

    Example:
        >>> non_dominated(np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 3.0], [np.nan, 0.0]])).tolist()
        [True, True, False, False]
    """
    usable = np.isfinite(losses).all(axis=1)
    kept = np.zeros(len(losses), dtype=bool)
    points = losses[usable]
    no_worse = (points[:, None] <= points[None]).all(axis=2)  # (one, other): one is no worse than the other
    better = (points[:, None] < points[None]).any(axis=2)
    kept[usable] = ~(no_worse & better).any(axis=0)
    return kept


def ranks(losses: Losses) -> NDArray[np.int64]:
    """0 for the points that none beats, 1 for those that none beats once these are gone, and so on.

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
    """Indices of the points from the best rank to the worst; within a rank, each as far as can be from those before.

    So every beginning of the order covers the front as evenly as so few points can.
    """
    rank, scaled = ranks(losses), normalised(losses)
    order: list[int] = []
    for value in np.unique(rank):
        members = np.flatnonzero(rank == value).tolist()
        if not np.isfinite(scaled[members]).all():  # the last rank, if some are not finite: nothing to spread over
            order += members
            continue
        chosen = [members.pop(int(np.argmin(np.linalg.norm(scaled[members], axis=1))))]
        while members:
            gaps = np.linalg.norm(scaled[members][:, None] - scaled[chosen][None], axis=2).min(axis=1)
            chosen.append(members.pop(int(np.argmax(gaps))))
        order += chosen
    return np.array(order, dtype=np.int64)


def normalised(losses: Losses, among: Losses | None = None) -> Losses:
    """Losses from 0, the best of finite `among`, to 1, the worst; an objective that does not vary is 0."""
    among = losses if among is None else among
    finite = among[np.isfinite(among).all(axis=1)]
    if not len(finite):
        return np.ones_like(losses)
    low, high = finite.min(axis=0), finite.max(axis=0)
    spread = np.where(high > low, high - low, 1.0)
    scaled: Losses = (losses - low) / spread
    return np.where(np.isfinite(scaled), scaled, np.inf)


def hypervolume(losses: Losses, reference: NDArray[np.float64]) -> float:
    """The volume of what the points beat, up to a reference point.

    Exact, by slices along the last objective; meant for fronts of up to some hundred points.

    Example:
        >>> hypervolume(np.array([[0.0, 0.5], [0.5, 0.0]]), np.ones(2))
        0.75
    """
    inside = losses[(losses < reference).all(axis=1)]
    if not len(inside):
        return 0.0
    if inside.shape[1] == 1:
        return float(reference[0] - inside.min())
    front = np.unique(inside[non_dominated(inside)], axis=0)
    return _sliced_volume(front, reference)


def _sliced_volume(front: Losses, reference: NDArray[np.float64]) -> float:
    if front.shape[1] == 2:
        by_first = front[np.argsort(front[:, 0])]
        heights = np.concatenate([reference[1:], np.minimum.accumulate(by_first[:, 1])])
        return float(((reference[0] - by_first[:, 0]) * np.maximum(heights[:-1] - by_first[:, 1], 0)).sum())
    by_last = front[np.argsort(front[:, -1], kind="stable")]
    edges = np.append(by_last[:, -1], reference[-1])
    volume = 0.0
    for index in np.flatnonzero(np.diff(edges) > 0):
        below = by_last[: index + 1, :-1]
        slice_area = _sliced_volume(below[non_dominated(below)], reference[:-1])
        volume += slice_area * float(edges[index + 1] - edges[index])
    return volume


def knee(losses: Losses) -> int:
    """The index of the point nearest to the ideal one, all objectives scaled to the range of the points.

    The ideal is the best of every objective at once, which no point reaches: the nearest
    gives up least. Of points that are equally near the first is taken.

    Example:
        >>> knee(np.array([[0.0, 1.0], [0.2, 0.2], [1.0, 0.0]]))
        1
    """
    return int(np.argmin(np.linalg.norm(normalised(losses), axis=1)))
