from dataclasses import replace

from sae.analysis.comparison import MeanRank
from sae.analysis.results import Result
from sae.analysis.statistics import Spread
from sae.config.methods import all_kinds
from sae.core.objectives import ALL_COSTS, METRICS, metric_label
from sae.core.table import Cell, Table, show
from sae.report.tables import best_table, confirmed_table, interval_table, rank_table, spread_cell
from tests.results import result, run_of, small_config

TASK = "classification"
EE = {"name": "sae", "inputs": 1, "exits": 2}


def results() -> list[Result]:
    return [
        result("sae/1", {"f1": 0.8, "nll": Spread(0.5, None)}, method=EE, flops=2e6, eval_exits=1),
        result("standard/0", {"f1": 0.7, "nll": 0.6}, flops=5e5),
        result("sae/2", {"f1": 0.9, "nll": 0.7}, method=EE, flops=3e6),
    ]


def column(table: Table, title: str) -> list[Cell]:
    index = [item.title for item in table.columns].index(title)
    return [row[index] for row in table.rows]


def shown(table: Table, title: str) -> list[str]:
    index = [item.title for item in table.columns].index(title)
    return [show(row[index], table.columns[index]) for row in table.rows]


def is_whole(table: Table) -> bool:
    return all(len(row) == len(table.columns) for row in table.rows)


def test_a_row_for_every_configuration_with_its_deviation_and_cost() -> None:
    table = confirmed_table(results(), ["f1", "nll"], TASK)
    assert is_whole(table)
    titles = ["Configuration", "Method", "Settings", "K′", "Exits used", "F1", "NLL", "MFLOPs", "M params", "Seeds"]
    assert [item.title for item in table.columns] == titles
    assert [item.better for item in table.columns[5:9]] == ["↑", "↓", "↓", "↓"]
    assert shown(table, "Method") == ["SAE: EE", "Standard", "SAE: EE"]
    assert shown(table, "K′") == ["1", "–", "2"]
    assert shown(table, "Exits used") == ["1 of 1", "–", "1 of 1"]
    assert shown(table, "NLL") == ["0.500", "0.600 ± 0.010", "0.700 ± 0.010"]
    assert shown(table, "MFLOPs") == ["2.000", "0.500", "3.000"]


def test_shift_and_failures_have_columns_where_there_are_any() -> None:
    runs = [run_of(small_config(seed), {"nll": 1.0}) for seed in (0, 1)]
    shifted = result("a", {"nll": 1.0}, shift={"nll": 2.0}, runs=runs[:1], failed=1)
    table = confirmed_table([shifted, *results()], ["nll"], TASK)
    assert is_whole(table)
    assert shown(table, "NLL (shift)") == ["2.00 ± 0.02", "–", "–", "–"]
    assert shown(table, "Failed") == ["1", "0", "0", "0"]
    assert not any(item.title == "MFLOPs (shift)" for item in table.columns)


def test_what_a_mean_does_not_tell_is_in_the_caption() -> None:
    runs = [run_of(small_config(seed), {"nll": 1.0}) for seed in (0, 1)]
    whole = result("a", {"nll": 1.0}, shift={"nll": 2.0}, runs=runs)
    assert "fewer seeds" not in confirmed_table([whole], ["nll"], TASK).caption
    partial = replace(whole, shifted=whole.shifted[:1], test={"nll": Spread(1.0, None, 1)})
    caption = confirmed_table([partial], ["nll"], TASK).caption
    assert "Measured under shift on fewer seeds: a (1)." in caption
    assert "Left out because not finite: 1 number." in caption


def test_the_best_table_has_a_row_for_each_class_and_metric_in_the_papers_order() -> None:
    table = best_table(results(), ["f1", "nll"], TASK)
    assert is_whole(table)
    rows = list(zip(shown(table, "Method"), shown(table, "Best in"), shown(table, "Configuration"), strict=True))
    assert rows == [
        ("Standard", "F1", "standard/0"),
        ("Standard", "NLL", "standard/0"),
        ("SAE: EE", "F1", "sae/2"),
        ("SAE: EE", "NLL", "sae/1"),
    ]
    assert shown(table, "Confirmed") == ["1", "1", "2", "2"]
    assert [cell.strong for cell in column(table, "F1")] == [False, False, True, False]


def test_the_best_table_under_shift_needs_shift() -> None:
    assert best_table(results(), ["nll"], TASK, "shift").rows == ()
    shifted = result("a", {"nll": 1.0}, shift={"nll": 2.0})
    table = best_table([*results(), shifted], ["nll"], TASK, "shift")
    assert shown(table, "NLL (shift)") == ["2.00 ± 0.02"]


def test_ranks_are_in_the_papers_order_with_the_least_strong() -> None:
    ranks = [
        MeanRank("EE", "f1", 1.0, None, 1),
        MeanRank("standard", "f1", 1.5, 0.7, 2),
        MeanRank("standard", "flops", 1.0, 0.0, 2),
    ]
    table = rank_table(ranks)
    assert is_whole(table)
    assert shown(table, "Method") == ["Standard", "SAE: EE"]
    assert shown(table, "rank in F1") == ["1.50 ± 0.70", "1.00"]
    assert shown(table, "rank in FLOPs") == ["1.00 ± 0.00", "–"]
    assert shown(table, "Data sets") == ["2", "1"]
    assert [cell.strong for cell in column(table, "rank in F1")] == [False, True]
    assert not any(cell.strong for cell in column(table, "rank in FLOPs"))  # one number is no best


def test_the_title_of_a_table_is_the_caller_s() -> None:
    assert confirmed_table(results(), ["f1"], TASK).title == "Results on new seeds"
    assert confirmed_table(results(), ["f1"], TASK, title="The runs").title == "The runs"


def test_intervals_are_told_where_both_their_coverage_and_their_width_are_known() -> None:
    whole = {f"{key}_{level}": 0.5 for key in ("coverage", "width") for level in (50, 90)}
    table = interval_table([("a", result("a", whole))])
    assert table is not None
    assert [item.title for item in table.columns[1:]] == [
        *("in 50 % intervals", "width of 50 %"),
        *("in 90 % intervals", "width of 90 %"),
    ]
    del whole["width_90"]  # it was finite in no run
    table = interval_table([("a", result("a", whole))])
    assert table is not None
    assert [item.title for item in table.columns[1:]] == ["in 50 % intervals", "width of 50 %"]
    del whole["width_50"]
    assert interval_table([("a", result("a", whole))]) is None
    assert interval_table([]) is None


def test_everything_that_is_measured_has_a_name() -> None:
    labels = {key: metric_label(key) for key in (*(entry.key for entry in METRICS), *ALL_COSTS)}
    assert labels == {
        **{entry.key: entry.label for entry in METRICS},
        **{key: ALL_COSTS[key].label for key in ALL_COSTS},
    }
    assert len(set(labels.values())) == len(labels)  # no two are called the same
    assert not any("_" in label for label in labels.values())


def test_every_class_of_methods_can_be_placed() -> None:
    ranks = [MeanRank(kind, "nll", 1.0, None, 1) for kind in reversed(all_kinds())]
    assert shown(rank_table(ranks), "Method") == [kind.label for kind in all_kinds().values()]


def test_a_mean_is_in_its_unit_and_a_spread_of_nothing_is_not_shown() -> None:
    assert spread_cell(None, "nll") == Cell(None)
    assert spread_cell(Spread(2e6, 1e5), "flops") == Cell(2.0, 0.1)
    assert spread_cell(Spread(2e6, 0.0), "flops") == Cell(2.0)
    assert spread_cell(Spread(0.5, None), "nll") == Cell(0.5)


def test_bold_is_explained_only_where_a_number_is_bold() -> None:
    one, two = result("a", {"nll": 0.5, "f1": 0.9}), result("b", {"nll": 0.4, "f1": 0.8})
    assert "Bold" not in confirmed_table([one], ["nll"], "classification").caption
    assert "Bold: the best of a column." in confirmed_table([one, two], ["nll"], "classification").caption
