"""The tables of docs/reproduction.md on one network and an ensemble are those of the stored results."""

import pytest
from benchmarks.one_network import page, results
from benchmarks.one_network.rows import ROWS, SETS

RESULTS = results.read_results()
TABLES = page.tables()


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_the_stored_results(name: str) -> None:
    assert page.marked(name, TABLES[name]) in page.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RESULTS)
def test_the_rate_of_every_row_is_the_best_on_validation(name: str) -> None:
    for row, found in RESULTS[name].items():
        assert bool(found.rates) == (ROWS[row].rate_of is None)
        assert len(found.rates) <= SETS[name].most_rates
        if found.rates:
            assert min(found.rates, key=lambda rate: found.rates[rate]) == f"{found.rate:g}"


@pytest.mark.parametrize("name", RESULTS)
def test_the_network_of_the_first_table_keeps_to_a_third_of_the_flops(name: str) -> None:
    found = RESULTS[name]
    single = found[results.best_single(found)]
    assert 3 * single.shipped_flops <= found["ensemble"].shipped_flops
    assert single.choice == min(
        each.choice for each in found.values() if 3 * each.shipped_flops <= found["ensemble"].shipped_flops
    )
