"""The tables of docs/reproduction.md on one network and an ensemble are those of the stored results."""

from statistics import mean

import pytest
from benchmarks.docs_tables import marked
from benchmarks.one_network import page, regimes, results
from benchmarks.one_network.rows import ROWS, SETS

from tests.docs.pages import ROOT

RESULTS = results.read_results()
TABLES = page.tables()


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_the_stored_results(name: str) -> None:
    assert marked(name, TABLES[name]) in (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")


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


def test_readme_claims_the_matches_of_the_first_table_and_no_more() -> None:
    claimed = {"fashion-fc": 0.25, "blood-vgg": 0.31, "fashion-2000": 0.25}  # shares of the ensemble's FLOPs
    found = {name: rows[results.best_single(rows)] for name, rows in RESULTS.items()}
    assert {name for name, item in found.items() if results.matches(item) == "yes"} == set(claimed)
    for name, share in claimed.items():
        _, low, high = found[name].differences["cc_ece_scaled"]
        assert low < 0 < high
        assert found[name].shipped_flops / RESULTS[name]["ensemble"].shipped_flops == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize(
    "item",
    [
        RESULTS["fashion-fc"][results.best_sae(RESULTS["fashion-fc"])],
        RESULTS["blood-vgg"][results.best_single(RESULTS["blood-vgg"])],
        RESULTS["fashion-vgg"][results.best_single(RESULTS["fashion-vgg"])],
    ],
    ids=("fashion-fc", "blood-vgg", "fashion-vgg"),
)
def test_readme_quotes_stored_differences(item: results.Found) -> None:
    assert results.behind(item.differences["nll_scaled"]) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_differences_of_the_map_are_those_of_its_means() -> None:
    cells = regimes.read_map()
    for (size, width, _), cell in cells.items():
        for other, differences in (("standard", cell.from_standard), ("ensemble", cell.from_ensemble)):
            for metric, (value, low, high) in differences.items():
                rival = cells[size, width, other]
                assert value == pytest.approx(mean(cell.test[metric]) - mean(rival.test[metric]), abs=1e-5)
                assert low <= value <= high
