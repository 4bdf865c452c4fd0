"""The tables of docs/reproduction.md on the paper's claims are those of the stored results."""

import pytest
from benchmarks.claims import results
from benchmarks.claims.rows import SETS
from benchmarks.docs_tables import marked

from sae.config.settings import merge
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "reproduction.md"
TABLES = results.tables()


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_the_stored_results(name: str) -> None:
    assert marked(name, TABLES[name]) in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SETS)
def test_every_claim_is_about_rows_that_are_trained_with_the_papers_settings(name: str) -> None:
    setting = SETS[name]
    for claim in results.CLAIMS[name]:
        assert {claim.ours, claim.rival} <= set(setting.rows)
    for row in setting.rows.values():
        train = merge(setting.settings, row.settings)["train"]
        assert {"epochs": 50, "lr": 3e-4, "weight_decay": 1e-5}.items() <= train.items()
        assert row.members_of is None or row.members_of in setting.rows


@pytest.mark.parametrize(
    ("metric", "margin", "low", "high", "expected"),
    [
        ("nll", None, -0.02, -0.01, "holds"),
        ("nll", None, -0.02, 0.01, "cannot tell"),
        ("nll", None, 0.01, 0.02, "does not hold"),
        ("nll", 0.01, -0.02, 0.009, "holds"),
        ("nll", 0.01, 0.005, 0.015, "cannot tell"),
        ("nll", 0.01, 0.011, 0.015, "does not hold"),
        ("f1", None, 0.01, 0.02, "holds"),
        ("f1", 0.01, -0.009, 0.02, "holds"),
        ("f1", 0.01, -0.03, -0.011, "does not hold"),
    ],
)
def test_a_claim_holds_only_at_every_value_of_the_interval(
    metric: str, margin: float | None, low: float, high: float, expected: str
) -> None:
    claim = results.Claim("", "ours", "rival", (metric,), margin)
    found = results.Difference(
        ours="ours", rival="rival", metric=metric, value=(low + high) / 2, low=low, high=high, seeds=4, samples=100
    )
    assert results.verdict(claim, found, "classification") == expected
