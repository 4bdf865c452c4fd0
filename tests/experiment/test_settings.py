"""The settings of shipped experiments and of the user's own."""

import itertools
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sae.search.run
from sae.core.errors import ConfigError, DataError
from sae.core.task import Classification, DataSpec, Regression
from sae.data import catalogue
from sae.experiment import BUDGETS, experiment_layers, presets, read_preset
from sae.methods.costing import cost_bounds
from sae.search.run import SearchPlan, resolve_search
from sae.search.space import read_space

METHODS = ("sae", "ensemble", "standard", "mc_dropout", "batch_ensemble")
SPECS = {
    "pneumoniamnist": DataSpec((1, 32, 32), Classification(2)),
    "bloodmnist": DataSpec((3, 32, 32), Classification(8)),
    "retinamnist": DataSpec((3, 32, 32), Regression(mean=0.5, std=0.3)),
    "tinyimagenet": DataSpec((3, 64, 64), Classification(200)),
}
"""Shapes of data sets whose files may be missing."""


@pytest.fixture
def without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace data sets that would have to be downloaded by their shapes."""

    def load_shape(config: Any, seed: int) -> Any:
        if config.name not in SPECS:
            return catalogue.load(config, seed)
        catalogue.find_entry(config.name).check_settings(config)
        return SimpleNamespace(name=config.name, spec=SPECS[config.name], depth=8)

    monkeypatch.setattr(sae.search.run, "load", load_shape)


def resolve(what: str | Path, budget: str = "small", *over: dict[str, Any]) -> SearchPlan:
    return resolve_search(experiment_layers(str(what), budget, over))


def test_the_paper_s_sets_and_the_embedded_ones_are_shipped() -> None:
    assert presets() == ["bloodmnist", "demo", "diabetes", "digits", "pneumoniamnist", "retinamnist", "tinyimagenet"]


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", presets())
def test_every_experiment_searches_all_methods_in_networks_that_fit_its_data(name: str, budget: str) -> None:
    plan = resolve(name, budget)
    assert tuple(plan.study.spaces) == METHODS
    is_short = name == "demo" or (budget == "small" and name in ("bloodmnist", "retinamnist", "tinyimagenet"))
    assert plan.confirm.seeds == (2 if is_short else 4)
    assert plan.study.shift is (name != "diabetes" and (name, budget) != ("tinyimagenet", "small"))
    for method, template in plan.study.spaces.items():
        space = read_space(method, template)
        for point in itertools.islice(space.structures(), 3):
            assert cost_bounds(space.fill(point), plan.spec, shipped=False).flops > 0


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize(
    ("name", "backbone", "epochs", "batch"),
    [
        ("pneumoniamnist", "fc", 50, 64),
        ("bloodmnist", "vgg", 50, 128),
        ("retinamnist", "vit", 50, 64),
        ("tinyimagenet", "resnet", 100, 128),
    ],
)
def test_the_paper_s_budget_has_the_paper_s_settings(name: str, backbone: str, epochs: int, batch: int) -> None:
    plan = resolve(name, "paper")
    template = plan.study.spaces["sae"]
    assert template["backbone"]["name"] == backbone
    assert (template["train"]["epochs"], template["train"]["batch_size"]) == (epochs, batch)
    assert plan.settings.hours == (192 if name == "tinyimagenet" else 8)
    assert (plan.study.startup, plan.settings.budget) == (50, None)
    expected = ("nll", "mse") if name == "retinamnist" else ("nll", "f1", "accuracy", "ece", "cc_ece_uniform")
    assert plan.study.objectives == (*expected, "flops", "params")


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize(
    ("name", "clean", "shifted"),
    [("tinyimagenet", 49, 56), ("bloodmnist", 31, 63), ("pneumoniamnist", 50, 29), ("retinamnist", 32, 30)],
)
def test_the_paper_s_budget_confirms_as_many_as_the_paper(name: str, clean: int, shifted: int) -> None:
    confirm = resolve(name, "paper").confirm
    assert (confirm.total, confirm.most, confirm.under_shift.total, confirm.under_shift.most) == (
        clean,
        None,
        shifted,
        None,
    )
    assert confirm.each == confirm.under_shift.each == 1  # of every class there is one


@pytest.mark.usefixtures("without_files")
def test_workers_are_those_of_the_budget() -> None:
    assert resolve("pneumoniamnist", "paper").settings.workers == 4
    assert resolve("pneumoniamnist", "small").settings.workers is None


def baseline_sizes(plan: SearchPlan) -> dict[str, float]:
    return {method: read_space(method, plan.study.spaces[method]).size for method in METHODS[1:]}


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("name", presets())
def test_the_small_budget_is_of_so_many_trials_and_small_baselines(name: str) -> None:
    plan = resolve_search(experiment_layers(name, "small", recipe="paper"))
    assert plan.settings.budget is not None
    assert plan.settings.budget <= 40
    assert max(baseline_sizes(plan).values()) <= 8


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("name", presets())
def test_the_tuned_recipe_tries_the_same_three_learning_rates_for_every_method(name: str) -> None:
    paper, tuned = (resolve_search(experiment_layers(name, "small", recipe=recipe)) for recipe in ("paper", "tuned"))
    assert tuned.settings.budget == paper.settings.budget
    assert baseline_sizes(tuned) == {method: 3 * size for method, size in baseline_sizes(paper).items()}
    rates = [tuned.study.spaces[method]["train"]["lr"] for method in METHODS]
    assert rates == [{"choice": [3e-4, 1e-3, 3e-3]}] * len(METHODS)


@pytest.mark.usefixtures("without_files")
def test_the_recipe_follows_the_budget_and_a_setting_overrides_it() -> None:
    tuned = resolve("digits", "small").study.spaces["sae"]["train"]["lr"]
    assert (
        tuned == resolve_search(experiment_layers("digits", "paper", recipe="tuned")).study.spaces["sae"]["train"]["lr"]
    )
    assert resolve("digits", "paper").study.spaces["sae"]["train"]["lr"] == 1e-3  # what the data set suggests
    assert resolve("digits", "small", {"train": {"lr": 0.002}}).study.spaces["sae"]["train"]["lr"] == 0.002


def test_the_tuned_recipe_begins_with_one_and_three_inputs_at_all_exits_where_they_are_searched() -> None:
    first = resolve_search(experiment_layers("digits", "small")).study.first
    assert [(point["method.inputs"], point["method.exits"], point["train.lr"]) for point in first["sae"]] == [
        (inputs, 5, rate) for inputs in (1, 3) for rate in (3e-4, 1e-3, 3e-3)
    ]
    assert list(first) == ["sae"]
    fixed = resolve_search(experiment_layers("digits", "small", [{"method": {"inputs": 2}}])).study.first
    assert fixed == {}
    assert resolve_search(experiment_layers("digits", "small", recipe="paper")).study.first == {}


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="recipe must be one of tuned, paper; got 'papr'"):
        experiment_layers("digits", "small", recipe="papr")


@pytest.mark.parametrize("budget", ["large", "papr", ""])
def test_an_unknown_budget_is_refused_with_the_known_ones(budget: str) -> None:
    with pytest.raises(ConfigError, match="budget must be one of small, paper") as caught:
        experiment_layers("digits", budget)
    assert ("did you mean paper?" in str(caught.value)) == (budget == "papr")


@pytest.mark.parametrize("what", ["digit", "small", "chestmnist"])
def test_data_that_nobody_knows_is_refused(what: str) -> None:
    with pytest.raises(DataError):
        experiment_layers(what, "small")


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_of_the_user_s_says_what_it_likes_of_each_budget(tmp_path: Path) -> None:
    own = write(
        tmp_path / "own.yaml",
        "data: digits\ntrain: {epochs: 3}\nconfirm: {seeds: 2}\n"
        "small: {search: {trials: 5}, train: {epochs: 1}}\npaper: {search: {hours: 1}}\n",
    )
    small, paper = resolve(own, "small"), resolve(own, "paper")
    assert (small.settings.trials, paper.settings.trials, paper.settings.hours) == (5, None, 1)
    assert [plan.study.spaces["sae"]["train"]["epochs"] for plan in (small, paper)] == [1, 3]
    assert (small.confirm.seeds, small.confirm.most, small.confirm.each) == (2, 6, 2)
    assert (paper.confirm.seeds, paper.confirm.total, paper.confirm.each) == (2, 40, 1)


@pytest.mark.parametrize("budget", BUDGETS)
def test_fewer_methods_may_be_searched_by_file_or_by_flag(budget: str, tmp_path: Path) -> None:
    own = write(tmp_path / "own.yaml", "data: digits\nsearch: {methods: [sae, standard]}\n")
    assert tuple(resolve(own, budget).study.spaces) == ("sae", "standard")
    by_flag = resolve("digits", budget, {"search": {"methods": ["ensemble"]}})
    assert tuple(by_flag.study.spaces) == ("ensemble",)


def test_spaces_of_the_user_s_for_what_is_not_searched_are_refused(tmp_path: Path) -> None:
    own = write(tmp_path / "own.yaml", "data: digits\nsearch: {methods: [sae]}\nspaces: {standard: {seed: 1}}\n")
    with pytest.raises(ConfigError, match="spaces must name methods that are searched"):
        resolve(own)


@pytest.mark.parametrize("text", ["data: digits\nsmall: 3\n", "data: digits\nsmall: [1]\n", "data: digits\nsmall: 0\n"])
def test_a_budget_that_is_no_section_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="small must be a section of settings"):
        experiment_layers(str(write(tmp_path / "own.yaml", text)), "small")


def test_a_budget_of_which_nothing_is_said_is_the_shipped_one(tmp_path: Path) -> None:
    own = write(tmp_path / "own.yaml", "data: digits\nsmall:\npaper:\n")
    assert resolve(own).settings.trials == resolve("digits").settings.trials


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}\n"])
def test_an_empty_file_is_no_experiment(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must hold at least `data: NAME`, but .*own.yaml is empty"):
        experiment_layers(str(write(tmp_path / "own.yaml", text)), "small")


@pytest.mark.parametrize("value", [None, 5, True, "sae", [], [1], [["sae"]], {"sae": 1}])
@pytest.mark.parametrize(
    "setting",
    [
        *("data", "data.name", "data.task", "search", "search.methods", "search.objectives"),
        *("spaces", "spaces.sae", "confirm", "confirm.seeds"),
    ],
)
def test_whatever_stands_in_a_setting_is_used_or_refused_in_a_sentence(setting: str, value: Any) -> None:
    layer: Any = value
    for key in reversed(setting.split(".")):
        layer = {key: layer}
    with suppress(ConfigError, DataError):
        assert resolve("digits", "small", layer).study.spaces


@pytest.mark.parametrize("methods", [5, "sae", [1]])
def test_methods_that_are_no_list_of_names_are_refused(methods: Any) -> None:
    with pytest.raises(ConfigError, match="methods"):
        resolve("digits", "small", {"search": {"methods": methods}})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [f"{index * 7 % 61},{index % 7},{index * 0.5}" for index in range(60)]
    return write(tmp_path / "own.csv", "\n".join(["a,b,y", *rows]))


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_table_of_the_user_s_is_neither_corrupted_nor_judged_as_classes_are(budget: str, table: Path) -> None:
    plan = resolve(table, budget, {"data": {"task": "regression", "target": "y"}})
    assert plan.study.task == "regression"
    assert plan.study.shift is False
    assert plan.study.objectives == ("nll", "mse", "flops", *(["params"] if budget == "paper" else []))


def test_a_table_of_classes_keeps_the_objectives_of_the_budget(table: Path) -> None:
    plan = resolve(table, "paper", {"data": {"task": "classification", "target": "b"}})
    assert plan.study.objectives == tuple(read_preset("paper")["search"]["objectives"]["classification"])
    assert plan.study.shift is False


def test_what_the_user_says_goes_over_what_is_shipped() -> None:
    plan = resolve("digits", "small", {"confirm": {"most": 1}}, {"search": {"trials": 2}, "seed": 7})
    assert (plan.settings.trials, plan.confirm.most, plan.confirm.seeds, plan.study.seed) == (2, 1, 4, 7)


@pytest.mark.parametrize("text", ["train: {epochs: 1}\n", "data: 3\n"])
def test_an_experiment_without_data_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.name must be set"):
        resolve(write(tmp_path / "own.yaml", text))
