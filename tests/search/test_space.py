import itertools
from typing import Any

import optuna
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from sae.config.methods import METHODS, EnsembleConfig, SaeConfig
from sae.core.errors import ConfigError
from sae.search.run import _listed
from sae.search.space import Space, build_space, read_space
from tests.builders import BACKBONE_NAMES, SMALL_BACKBONES, skip_refused

DIGITS: dict[str, Any] = {"data": {"name": "digits"}, "backbone": {"name": "fc"}}


def space(method: str = "sae", own: dict[str, Any] | None = None, /, **given: Any) -> Space:
    return build_space(method, DIGITS, given, own or {})


@pytest.mark.parametrize(("method", "backbone"), list(itertools.product(METHODS.names(), SMALL_BACKBONES)))
def test_a_space_ships_for_every_method_and_backbone(method: str, backbone: str) -> None:
    skip_refused(method, backbone)
    shipped = space(method, backbone=backbone)
    assert shipped.holes
    for corner in shipped.corners():
        config = shipped.fill(corner)
        assert (config.method.name, config.backbone.name) == (method, backbone)


def test_the_space_of_sae_is_the_papers() -> None:
    holes = space().holes
    assert {path: hole.as_setting() for path, hole in holes.items()} == {
        "backbone.width": {"int": [1, 4]},
        "method.inputs": {"int": [1, 4]},
        "method.exits": {"int": [1, 5]},
        "method.repeat_fraction.start": {"float": [0, 1]},
        "method.repeat_fraction.end": {"float": [0, 1]},
        "method.kl_weight.start": {"log": [1e-5, 1]},
        "method.kl_weight.end": {"log": [1e-5, 1]},
        "method.temperature.start": {"log": [1e-3, 1]},
        "method.temperature.end": {"log": [1e-3, 1]},
    }


@pytest.mark.parametrize(("backbone", "depth"), [("fc", 5), ("vgg", 5), ("resnet", 4), ("vit", 5), ("conv1d", 5)])
def test_the_largest_number_of_exits_follows_the_backbone(backbone: str, depth: int) -> None:
    assert space(backbone=backbone).holes["method.exits"].values == (1, depth)
    assert space(backbone={"name": backbone, "depth": 2}).holes["method.exits"].values == (1, 2)


def test_exits_cannot_follow_a_depth_that_is_searched() -> None:
    with pytest.raises(ConfigError, match=r"method\.exits ends at the depth of the backbone, which must then be one"):
        space(backbone={"depth": {"int": [2, 5]}})


@pytest.mark.parametrize(
    ("written", "read"),
    [([1, 2, "depth"], (1, 2, 5)), (["depth", 1], (5, 1)), (["depth"], (5,)), ([1, 5, "depth"], (1, 5))],
)
def test_the_depth_may_stand_anywhere_among_choices(written: list[object], read: tuple[int, ...]) -> None:
    assert space(method={"exits": {"choice": written}}).holes["method.exits"].values == read


def test_a_range_to_the_depth_cannot_start_above_it() -> None:
    with pytest.raises(
        ConfigError, match=r"method\.inputs: a range up to the depth of the backbone, 5, cannot start at 9"
    ):
        space(method={"inputs": {"int": [9, "depth"]}})


def test_the_users_settings_go_over_the_shipped_ones() -> None:
    mine = space(method={"inputs": 2, "exits": {"choice": [1, 3]}}, train={"lr": {"log": [1e-4, 1e-2]}})
    assert "method.inputs" not in mine.holes
    assert mine.holes["method.exits"].as_setting() == {"choice": [1, 3]}
    assert "train.lr" in mine.holes
    assert mine.holes["backbone.width"].values == (1, 4)


def test_a_method_section_counts_for_the_method_that_it_names() -> None:
    given = {"method": {"name": "ensemble", "members": 3}}
    assert "method.members" not in space("ensemble", **given).holes
    assert space("batch_ensemble", **given).holes["method.members"].values == (1, 4)
    assert space("sae", **given).holes == space("sae").holes


def test_a_method_section_without_a_name_is_about_sae() -> None:
    assert "method.inputs" not in space("sae", method={"inputs": 2}).holes
    assert space("ensemble", method={"inputs": 2}).holes == space("ensemble").holes


def test_settings_of_one_method_go_over_those_of_all() -> None:
    mine = space("ensemble", {"backbone": {"width": {"choice": [1, 4]}}}, backbone={"name": "fc", "width": 2})
    assert mine.holes["backbone.width"].as_setting() == {"choice": [1, 4]}
    assert "backbone.width" not in space("standard", backbone={"name": "fc", "width": 2}).holes


@pytest.mark.parametrize("method", ["ensemble", "batch_ensemble"])
def test_ensembles_are_enumerated_from_one_member_as_in_the_paper(method: str) -> None:
    assert {point["method.members"] for point in space(method).points()} == {1, 2, 3, 4}


def test_batch_ensemble_keeps_the_batches_that_suit_it() -> None:
    assert space("batch_ensemble").fill(next(space("batch_ensemble").corners())).train.batch_size == 72
    assert space("sae").fill(next(space("sae").corners())).train.batch_size == 64


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": {"exits": {"int": [1, 6]}}}, r"the space of sae must hold valid settings only.*\[1, 5\], got 6"),
        ({"method": {"input": {"int": [1, 2]}}}, "did you mean method.inputs"),
        ({"backbone": {"width": {"int": [0, 4]}}}, "backbone.width must be greater than or equal to 0.25, got 0"),
        ({"train": {"lr": {"choice": [1e-3, "fast"]}}}, "train.lr must be a valid number"),
        ({"backbone": "fcc"}, f"backbone.name must be one of {BACKBONE_NAMES}; got 'fcc'"),
        ({"backbone": {"name": {"choice": ["fc", "vgg"]}}}, "backbone.name must be one value, not a hole"),
        ({"data": {"name": {"choice": ["digits", "diabetes"]}}}, "data.name must be one value, not a hole"),
    ],
)
def test_a_space_with_settings_that_a_run_refuses_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        space(**given)


@pytest.mark.parametrize("depths", [[5, 2], [2, 5]])
def test_settings_that_do_not_fit_each_other_are_found(depths: list[int]) -> None:
    with pytest.raises(ConfigError, match=r"method.exits must be in \[1, 2\]"):
        space(backbone={"depth": {"choice": depths}}, method={"exits": {"int": [1, 5]}})


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ConfigError, match=r"method must be one of .*; got 'ensembles', did you mean ensemble\?"):
        space("ensembles")


def test_a_space_is_kept_and_read_back() -> None:
    mine = space(backbone="vgg", train={"epochs": 3})
    kept = yaml.safe_load(yaml.safe_dump(mine.to_yaml()))
    again = read_space("sae", kept)
    assert again.distributions == mine.distributions
    corner = next(mine.corners())
    assert again.fill(corner) == mine.fill(corner)


def test_all_points_of_a_finite_space_are_enumerated_once_those_of_most_members_first() -> None:
    mine = space("ensemble", backbone={"name": "fc", "width": {"choice": [1, 4]}, "depth": {"int": [2, 4]}})
    configs = [mine.fill(point) for point in mine.points()]
    assert len(configs) == mine.size == 4 * 2 * 3
    assert len({config.model_dump_json() for config in configs}) == len(configs)
    members = [config.method.members for config in configs if isinstance(config.method, EnsembleConfig)]
    assert members == sorted(members, reverse=True)


def test_a_space_with_a_continuous_hole_has_no_end() -> None:
    assert space("mc_dropout").size == float("inf")
    assert space("standard").size == 20


def test_a_grid_holds_every_n_and_k_and_defaults_elsewhere() -> None:
    grid = space(backbone={"name": "fc", "depth": 3}).restricted_to_grid(k_free=False)
    configs = [grid.fill(point) for point in grid.points()]
    methods = [config.method for config in configs if isinstance(config.method, SaeConfig)]
    assert {(m.inputs, m.exits) for m in methods} == set(itertools.product(range(1, 5), range(1, 4)))
    assert {m.temperature for m in methods} == {SaeConfig().temperature}
    assert {config.backbone.width for config in configs} == {1}


def test_a_grid_without_k_trains_the_largest_only() -> None:
    grid = space().restricted_to_grid(k_free=True)
    assert [grid.fill(point).method.trained_exits for point in grid.points()] == [5] * 4


RATES = [3e-4, 1e-3, 3e-3]


@pytest.mark.parametrize("method", METHODS.names())
def test_every_method_gets_the_same_learning_rates(method: str) -> None:
    mine = space(method, train={"lr": {"choice": RATES}})
    assert mine.holes["train.lr"].values == tuple(RATES)
    grid = mine.restricted_to_grid(k_free=False)
    rates = [grid.fill(point).train.lr for point in grid.points()]
    assert {rate: rates.count(rate) for rate in RATES} == dict.fromkeys(RATES, len(rates) // 3)


def test_learning_rates_multiply_a_finite_space_with_the_largest_ensembles_first() -> None:
    mine = space("ensemble", train={"lr": {"choice": RATES}})
    assert mine.size == 3 * space("ensemble").size
    first = [mine.fill(point) for point in itertools.islice(mine.points(), int(mine.size) // 4)]
    assert {config.method.num_members for config in first} == {4}
    assert len({(c.backbone.depth, getattr(c.backbone, "width", 0), c.train.lr) for c in first}) == len(first)


def test_learning_rates_do_not_multiply_the_networks_whose_cost_is_checked() -> None:
    plain, varied = space("ensemble"), space("ensemble", train={"lr": {"choice": RATES}})
    assert len(list(varied.structures())) == len(list(plain.structures()))


def test_a_continuous_learning_rate_makes_a_finite_space_infinite() -> None:
    assert space("standard", train={"lr": {"log": [1e-4, 1e-2]}}).size == float("inf")


def test_batch_repetition_is_searched_where_a_method_has_it() -> None:
    varied = {"method": {"batch_repetition": {"int": [1, 4]}}}
    assert space("sae", **varied).holes["method.batch_repetition"].values == (1, 4)
    assert "method.batch_repetition" not in space("standard", **varied).holes


def drawn(distribution: BaseDistribution) -> st.SearchStrategy[Any]:
    if isinstance(distribution, IntDistribution):
        return st.integers(distribution.low, distribution.high)
    if isinstance(distribution, FloatDistribution):
        return st.floats(distribution.low, distribution.high)
    assert isinstance(distribution, CategoricalDistribution)
    return st.sampled_from(distribution.choices)


@pytest.mark.parametrize("method", METHODS.names())
@settings(max_examples=25)
@given(data=st.data())
def test_whatever_is_suggested_is_a_valid_config(method: str, data: st.DataObject) -> None:
    mine = space(method, backbone="vgg")
    suggested = {path: data.draw(drawn(d)) for path, d in mine.distributions.items()}
    assert mine.fill(suggested).method.name == method


def test_what_a_random_sampler_says_is_accepted() -> None:
    mine = space()
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(20):
        mine.fill(study.ask(mine.distributions).params)


def test_holes_lie_over_values() -> None:
    given = {"backbone": {"name": "fc", "width": 2}}
    assert "backbone.width" in space("standard", {"backbone": {"width": {"int": [1, 2]}}}, **given).holes


def test_values_to_begin_with_are_those_that_the_space_has() -> None:
    first = (
        {"method.inputs": 1, "method.exits": "depth"},
        {"method.inputs": 9},
        {"method.members": 4},
        {"method.repeat_fraction.start": 0, "backbone.width": 4},
    )
    assert list(space(backbone={"width": {"choice": [1, 4]}}).starts(first)) == [
        {"method.inputs": 1, "method.exits": 5},
        {"method.repeat_fraction.start": 0, "backbone.width": 4},
    ]
    assert list(space(method={"inputs": 2}, backbone={"width": 1}).starts(first)) == []
    assert list(space("ensemble").starts(first)) == [{"method.members": 4}]


def test_values_to_begin_with_are_tried_at_every_learning_rate_unless_they_name_one() -> None:
    searched = space(train={"lr": {"choice": [3e-4, 3e-3]}})
    assert list(searched.starts([{"method.inputs": 1}, {"method.inputs": 3, "train.lr": 3e-3}])) == [
        {"method.inputs": 1, "train.lr": 3e-4},
        {"method.inputs": 1, "train.lr": 3e-3},
        {"method.inputs": 3, "train.lr": 3e-3},
    ]
    continuous = space(train={"lr": {"log": [1e-4, 1e-2]}})
    assert list(continuous.starts([{"method.inputs": 1}])) == [{"method.inputs": 1}]


def test_first_configurations_are_named_with_their_learning_rates_unless_all_have_as_many() -> None:
    one, three = {"method.inputs": 1}, {"method.inputs": 3}
    rates = [{"train.lr": 0.001}, {"train.lr": 0.003}]
    assert _listed([{**point, **rate} for point in (one, three) for rate in rates]) == (
        "inputs=1 and inputs=3, each at 2 learning rates"
    )
    assert _listed([{**one, **rates[0]}, *({**three, **rate} for rate in rates)]) == (
        "inputs=1 lr=0.001 and inputs=3 lr=0.001 and inputs=3 lr=0.003"
    )
    assert _listed([one, three]) == "inputs=1 and inputs=3"


def test_a_nested_setting_of_a_first_configuration_is_named_with_what_it_belongs_to() -> None:
    point = {"method.inputs": 1, "method.repeat_fraction.start": 0.0, "method.repeat_fraction.end": 0.5}
    assert _listed([point]) == "inputs=1 repeat_fraction.start=0.0 repeat_fraction.end=0.5"
