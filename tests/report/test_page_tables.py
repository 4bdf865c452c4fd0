import re

import numpy as np

from sae.core.table import Cell, Column, Table
from sae.report.page import FIRST_ROWS, PHONE_CHARACTERS, PHONE_COLUMNS, render_table
from tests.reports import HOSTILE, table


def one_column(*values: float | str | None) -> str:
    return render_table(Table("t", "T", "C", (Column("x", digits=1),), tuple((Cell(value),) for value in values)))


def test_columns_of_numbers_are_aligned_and_others_are_not() -> None:
    assert one_column(1.0, None).count('class="number"') == 3
    assert one_column(1.0, "none").count('class="number"') == 0
    assert one_column(None).count('class="number"') == 0


def test_a_number_is_sorted_in_full_whatever_its_type() -> None:
    values = re.findall(r'data-value="([^"]+)"', one_column(1.23456, 7, np.float64(0.5), float(np.int64(3))))
    assert values == ["1.23456", "7.0", "0.5", "3.0"]


def test_what_is_no_number_has_none_to_sort_by() -> None:
    html = one_column(None, float("nan"), 1.0)
    assert html.count("data-missing") == 2
    assert html.count("data-value") == 1


def test_only_long_tables_can_be_shortened() -> None:
    assert "Show all" not in render_table(table(FIRST_ROWS))
    assert f"Show all {FIRST_ROWS + 1} rows" in render_table(table(FIRST_ROWS + 1))


def test_the_best_is_strong() -> None:
    assert render_table(table(3)).count("<strong>") == 1
    assert "<strong>0.000 ±\u00a00.010</strong>" in render_table(table(3))


def test_where_more_is_better_the_first_click_puts_the_most_first() -> None:
    assert re.findall(r'data-first="(\w+)"', render_table(table(3))) == [
        "ascending",
        "descending",
        "ascending",
        "ascending",
    ]


def test_texts_are_escaped() -> None:
    assert HOSTILE not in render_table(table(3))
    assert "<script" not in render_table(table(3))


def test_a_line_ends_before_a_spread_and_never_before_a_sign_of_times() -> None:
    assert "0.8 ±\u00a00.1" in render_table(Table("t", "", "", (Column("x", digits=1),), ((Cell(0.8, 0.1),),)))
    assert "4.2 (21.2\u00a0×)" in one_column("4.2 (21.2 ×)")


def test_only_tables_of_few_short_columns_are_set_to_fit_a_phone() -> None:
    def of(columns: int, text: str) -> str:
        row = tuple(Cell(text) for _ in range(columns))
        return render_table(Table("t", "", "", tuple(Column("x") for _ in range(columns)), (row,)))

    assert '<table class="few">' in of(PHONE_COLUMNS, "x" * PHONE_CHARACTERS)
    assert 'class="few"' not in of(PHONE_COLUMNS + 1, "x")
    assert 'class="few"' not in of(PHONE_COLUMNS, "x" * (PHONE_CHARACTERS + 1))
    assert '<table class="long few">' in one_column(*[1.0] * (FIRST_ROWS + 1))
