import string
from pathlib import Path

import pytest

from sae.core.table import Cell, Column, Table
from sae.report.build import report_of
from sae.report.content import Lead, Note, Report, Section
from sae.report.glossary import ENTRIES, glossary_of
from tests.report.test_build import regression_study
from tests.study_stages import whole_study

OF_CLASSES = {"F1", "ECE", "CC-ECE", "accuracy", "Brier score"}


def terms_in(*texts: str) -> list[str]:
    """Return the glossary of a page with these notes."""
    section = Section("s", "", "", tuple(Note(text) for text in texts))
    return [term.name for term in glossary_of(Report("", (), Lead(""), (section,)))]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("ship it", []),
        ("sae/3: N=2 K=3 W=4 D=5", ["N", "K", "W", "D"]),
        ("M=4, K′=2", ["K′", "M"]),
        ("CC-ECE ↓", ["CC-ECE"]),
        ("ECE and NLL", ["NLL", "ECE"]),
        ("objectives nll, cc_ece, flops", ["NLL", "CC-ECE", "FLOPs"]),
        ("SAE: I/B", ["SAE", "I/B"]),
        ("SAE: MIMMO", ["SAE", "MIMMO"]),
        ("SE (one input)", ["SE"]),
        ("on other seeds", ["seed"]),
        ("0.1 ± 0.2", ["±"]),
        ("NLL, scaled ↓", ["NLL", "scaled"]),
        ("T start", ["i, α and T"]),
        ("KNN on Monday, in front of WIDTH", ["Pareto front"]),
    ],
)
def test_a_term_is_listed_where_it_is_used_and_not_where_it_is_part_of_another(text: str, terms: list[str]) -> None:
    assert terms_in(text) == terms


def test_terms_in_tables_and_in_the_lead_count() -> None:
    table = Table("t", "", "", (Column("MFLOPs"), Column("x")), ((Cell("BatchEnsemble"), Cell(1.0, 0.1)),))
    report = Report("", (), Lead("Take it.", ("best in F1",), table), ())
    assert [term.name for term in glossary_of(report)] == ["BatchEnsemble", "±", "F1", "FLOPs"]


def test_every_term_has_a_short_meaning_of_whole_sentences_and_is_listed_once() -> None:
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)
    for entry in ENTRIES:
        assert len(entry.meaning) < 220, entry.name
        assert entry.meaning[0] in string.ascii_uppercase, entry.name
        assert entry.meaning.endswith("."), entry.name


def test_a_report_lists_the_terms_of_its_own_task(tmp_path: Path) -> None:
    of_classes = {term.name for term in report_of([whole_study(tmp_path / "a").record]).glossary}
    of_numbers = {term.name for term in report_of([regression_study(tmp_path / "b").record]).glossary}
    assert {
        "N",
        "K",
        "K′",
        "W",
        "Pareto front",
        "seed",
        "F1",
        "CC-ECE",
        "NLL",
        "ECE",
        "SE",
        "EE",
        "MIMO",
        "MIMMO",
    } <= of_classes
    assert "MSE" in of_numbers - of_classes
    assert not of_numbers & OF_CLASSES
