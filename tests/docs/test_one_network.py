"""The tables of docs/reproduction.md on one network and an ensemble are those of the stored results."""

import pytest
from benchmarks import one_network

from tests.docs.pages import ROOT

RESULTS = one_network.read_results()


@pytest.mark.parametrize("name", RESULTS)
def test_the_table_of_one_network_shows_the_stored_results(name: str) -> None:
    assert one_network.table(name, RESULTS) in (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RESULTS)
def test_the_rate_of_every_row_is_the_best_on_validation(name: str) -> None:
    for row, found in RESULTS[name].items():
        assert len(found.rates) == (0 if one_network.ROWS[row].rate_of else 3)
        if found.rates:
            assert min(found.rates, key=lambda rate: found.rates[rate]) == f"{found.rate:g}"
