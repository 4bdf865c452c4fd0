"""Tables of the docs that are made from stored results."""

import json

import pytest
from benchmarks import ablations, cost_term, fronts, independence, large_study, own_data, presets, trim
from benchmarks.signals import STORED, table

from tests.docs.pages import ROOT


def test_the_table_of_signals_shows_the_stored_results() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    assert table(json.loads(STORED.read_text(encoding="utf-8"))) in page


@pytest.mark.parametrize("data", ablations.ROWS)
def test_the_tables_of_ablations_show_the_stored_results(data: str) -> None:
    results = ablations.read_results(ablations.STORED)
    assert all(len(results[f"{data}/{name}"]) == len(ablations.SEEDS) for name in ablations.ROWS[data])
    assert ablations.table(data, results) in (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")


def test_the_table_of_priced_exits_shows_the_stored_results() -> None:
    results = ablations.read_results(cost_term.STORED)
    assert list(results) == [cost_term.name_of(*each) for each in cost_term.CONFIGURATIONS]
    assert cost_term.table(results) in (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")


def test_the_table_of_own_data_shows_the_stored_results() -> None:
    results = json.loads(own_data.STORED.read_text(encoding="utf-8"))
    assert list(results) == list(own_data.OWN)
    assert own_data.table(results) in (ROOT / "docs" / "data.md").read_text(encoding="utf-8")


def test_the_table_of_chosen_members_shows_the_stored_results() -> None:
    results = trim.read_results(trim.STORED)
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert set(results) == set(trim.TITLES)
    assert trim.table(results) in page
    for cost in trim.COSTS:
        assert trim.wins(results, cost) in page


def test_the_table_of_the_small_preset_shows_the_stored_results() -> None:
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    results = presets.read_results(presets.STORED)
    assert results
    for name, result in results.items():
        assert presets.table(name, result) in page
        assert presets.effort(name, result) in page
        assert sum(item.is_pick for item in result.networks) == 1


def test_the_table_of_error_correlations_shows_the_stored_results() -> None:
    results = json.loads(independence.STORED.read_text(encoding="utf-8"))
    assert independence.table(results) in (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")


def test_the_tables_of_two_fronts_show_the_stored_results() -> None:
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    results = fronts.read_results(fronts.STORED)
    assert list(results) == list(fronts.TITLES)
    for name, members in results.items():
        assert fronts.table(name, members) in page
        assert sum(item.is_pick for item in members) == 1


def test_the_table_of_large_studies_shows_the_stored_results() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert large_study.table(large_study.FILE.validate_json(large_study.STORED.read_bytes())) in page
