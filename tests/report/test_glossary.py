import string
from pathlib import Path

import pytest

from sae.core.table import Cell, Column, Table
from sae.report.build import report_of
from sae.report.content import Lead, Note, Report, Section
from sae.report.glossary import WORDS, words_of
from tests.report.test_build import regression_study
from tests.study_stages import whole_study

OF_CLASSES = {"F1", "ECE", "CC-ECE", "accuracy", "Brier score"}


def words_in(*texts: str) -> list[str]:
    """Of a page with these notes."""
    section = Section("s", "", "", tuple(Note(text) for text in texts))
    return [word for word, _ in words_of(Report("", (), Lead(""), (section,)))]


@pytest.mark.parametrize(
    ("text", "words"),
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
        ("KNN on Monday, in front of WIDTH", ["front"]),
    ],
)
def test_a_word_is_listed_where_it_is_used_and_not_where_it_is_part_of_another(text: str, words: list[str]) -> None:
    assert words_in(text) == words


def test_words_of_tables_and_of_the_lead_count() -> None:
    table = Table("t", "", "", (Column("MFLOPs"), Column("x")), ((Cell("BatchEnsemble"), Cell(1.0, 0.1)),))
    report = Report("", (), Lead("Take it.", ("best in F1",), table), ())
    assert [word for word, _ in words_of(report)] == ["BatchEnsemble", "±", "F1", "FLOPs"]


def test_every_word_has_a_short_meaning_of_whole_sentences_and_is_listed_once() -> None:
    assert len({word.text for word in WORDS}) == len(WORDS)
    for word in WORDS:
        assert len(word.meaning) < 220, word.text
        assert word.meaning[0] in string.ascii_uppercase, word.text
        assert word.meaning.endswith("."), word.text


def test_a_report_lists_the_words_of_its_own_task(tmp_path: Path) -> None:
    of_classes = {word for word, _ in report_of([whole_study(tmp_path / "a").record]).words}
    of_numbers = {word for word, _ in report_of([regression_study(tmp_path / "b").record]).words}
    assert {
        "N",
        "K",
        "K′",
        "W",
        "front",
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
