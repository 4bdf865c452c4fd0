import dataclasses

import numpy as np
import pytest

from sae.analysis.bootstrap import draw_metrics
from sae.analysis.contestants import Contestant
from sae.analysis.gap import gap_shares
from sae.analysis.intervals import combine
from sae.config.run import RunConfig
from sae.core.errors import ConfigError
from tests.analysis.test_bootstrap import contestant


def shares(single: Contestant, ours: Contestant, ensemble: Contestant) -> list[float]:
    found = gap_shares(single, ours, ensemble, ("nll",))["nll"]
    assert found is not None
    return [found.low, found.share, found.high]


SINGLE, ENSEMBLE = contestant("single", 1.0), contestant("ensemble", 3.0)


def test_the_single_network_closes_nothing_and_the_ensemble_everything() -> None:
    low, share, high = shares(SINGLE, SINGLE, ENSEMBLE)
    assert share == pytest.approx(0)
    assert low < 0 < high
    low, share, high = shares(SINGLE, ENSEMBLE, ENSEMBLE)
    assert share == pytest.approx(1)
    assert low < 1 < high


def test_a_network_between_them_closes_the_share_of_the_means() -> None:
    ours = contestant("ours", 2.0)
    means = [draw_metrics(item, ["nll"])["nll"].mean for item in (SINGLE, ours, ENSEMBLE)]
    low, share, high = shares(SINGLE, ours, ENSEMBLE)
    assert share == pytest.approx((means[0] - means[1]) / (means[0] - means[2]))
    assert low < share < high < 1


def test_a_better_network_closes_more_than_everything() -> None:
    low, share, _ = shares(SINGLE, contestant("ours", 4.0), ENSEMBLE)
    assert 1 < low < share


def test_at_the_ends_of_the_interval_the_difference_may_just_be_zero() -> None:
    ours = contestant("ours", 2.0)
    sides = [draw_metrics(item, ["nll"])["nll"] for item in (SINGLE, ours, ENSEMBLE)]
    low, _, high = shares(SINGLE, ours, ENSEMBLE)
    for share in (low, high):
        left = combine(sides, (1 - share, -1, share))
        assert abs(left.value) == pytest.approx(left.reach(), rel=1e-3)


def test_the_interval_holds_the_truth_about_95_times_in_100() -> None:
    rng, held, draws = np.random.default_rng(0), 0, 400
    from sae.analysis.gap import _share
    from sae.analysis.intervals import Side

    for _ in range(draws):
        common = 0.004 * rng.standard_normal((500, 1))  # what the samples do to all
        sides = []
        for truth in (0.5, 0.43, 0.4):
            points = truth + 0.01 * rng.standard_normal(4) + 0.004 * rng.standard_normal()
            sides.append(Side(points, points + common + 0.004 * rng.standard_normal((500, 1))))
        found = _share("nll", *sides)
        held += found is not None and found.low <= 0.7 <= found.high
    assert 0.92 <= held / draws <= 0.99


def test_no_share_of_a_gap_that_may_be_nothing() -> None:
    assert gap_shares(SINGLE, ENSEMBLE, contestant("same", 1.0, seeds=[7, 8, 9]), ("nll",)) == {"nll": None}


def test_a_single_network_of_another_architecture_is_refused() -> None:
    configs = [
        RunConfig.model_validate({"data": {"name": "digits"}, "backbone": {"name": "fc", "width": width}})
        for width in (1, 2)
    ]
    single, ensemble = (
        dataclasses.replace(item, config=config) for item, config in zip((SINGLE, ENSEMBLE), configs, strict=True)
    )
    with pytest.raises(ConfigError, match=r"must have the architecture of the ensemble's members.*width"):
        gap_shares(single, SINGLE, ensemble)
