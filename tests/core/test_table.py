import pytest
from hypothesis import given
from hypothesis import strategies as st

from sae.core.table import Arrow, Cell, Column, Table, digits_for, mark_best, show

ARROWS: tuple[Arrow, ...] = ("↑", "↓")


def one_column(*values: float | str | None) -> Table:
    return Table("t", "T", "C", (Column("x"),), tuple((Cell(value),) for value in values))


def test_a_column_is_numeric_if_it_has_a_number_and_no_text() -> None:
    assert one_column(1.0, None).is_numeric(0)
    assert not one_column(1.0, "none").is_numeric(0)
    assert not one_column(None).is_numeric(0)
    assert not one_column().is_numeric(0)


@given(st.lists(st.one_of(st.none(), st.floats(-9, 9)), max_size=8), st.sampled_from(ARROWS))
def test_all_that_look_like_the_best_are_strong(values: list[float | None], better: Arrow) -> None:
    head = Column("x", better, 2)
    cells = [row[0] for row in mark_best([head], [(Cell(value),) for value in values])]
    numbers = [value for value in values if value is not None]
    strong = {show(cell, head) for cell in cells if cell.strong}
    if len(numbers) < 2:
        assert not strong
    else:
        best = f"{(max if better == '↑' else min)(numbers):.2f}"
        assert strong == {best}
        assert all(cell.strong == (show(cell, head) == best) for cell in cells)


def test_columns_without_a_direction_have_no_best() -> None:
    rows = mark_best([Column("Seeds")], [(Cell(1),), (Cell(2),)])
    assert not any(cell.strong for row in rows for cell in row)


@pytest.mark.parametrize(("values", "digits"), [([], 3), ([0.0], 3), ([1e-9], 6), ([float("nan"), 2.5], 2)])
def test_decimals_follow_the_numbers(values: list[float], digits: int) -> None:
    assert digits_for(values) == digits
