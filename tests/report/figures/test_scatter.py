import pytest

from sae.core.objectives import objectives
from sae.report.figures.axes import axis_domain
from sae.report.figures.scatter import label_side, panel_key, share_in, under_shift, usual_pairs

TASK = "classification"
NLL, ECE, FLOPS, PARAMS = objectives(["nll", "cc_ece", "flops", "params"], TASK)


def test_pairs_under_shift_keep_their_costs_and_lose_those_of_costs_alone() -> None:
    pairs = under_shift(usual_pairs(("f1", "cc_ece"), TASK))
    assert [(x.name, y.name) for x, y in pairs] == [("cc_ece@shift", "f1@shift"), ("flops", "nll@shift")]
    assert under_shift(pairs) == pairs
    assert all(panel_key(*pair).isidentifier() for pair in pairs)


@pytest.mark.parametrize("place", [(0.05, 0.05), (0.05, 0.95), (0.95, 0.05), (0.95, 0.95)])
def test_a_label_in_a_corner_stays_within_the_panel(place: tuple[float, float]) -> None:
    assert label_side([(*place, 1)], 0, "sae/17, K′=1") == (place[0] < 0.5, place[1] < 0.5)


def test_a_label_covers_as_little_as_it_can() -> None:
    crowd = [(0.55 + 0.02 * step, 0.5 + up, 1) for step in range(5) for up in (-0.07, 0.07)]
    left_above = [(0.4, 0.57, 1)]
    assert label_side([(0.5, 0.5, 5), *crowd, *left_above], 0, "sae/1") == (False, False)


def test_shares_of_costs_are_by_their_ratio() -> None:
    assert share_in(axis_domain(FLOPS, [100, 10_000]), 1000, FLOPS) == pytest.approx(0.5)
    assert share_in(axis_domain(NLL, [0.0, 10.0]), 5.0, NLL) == pytest.approx(0.5)
    assert share_in(axis_domain(PARAMS, [7.0]), 7.0, PARAMS) == pytest.approx(0.5)
