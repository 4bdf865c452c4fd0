import pytest
from hypothesis import given
from hypothesis import strategies as st

from sae.core.wording import count, duration, listed


@given(st.lists(st.sampled_from(["F1", "NLL", "MSE"]), min_size=2))
def test_a_list_has_one_and_before_its_last(words: list[str]) -> None:
    assert listed(words).replace(" and ", ", ").split(", ") == words
    assert listed(words).endswith(f" and {words[-1]}")
    assert listed(words).count(" and ") == 1


@pytest.mark.parametrize(("number", "text"), [(0, "0 seeds"), (1, "1 seed"), (2, "2 seeds")])
def test_only_one_has_no_s(number: int, text: str) -> None:
    assert count(number, "seed") == text


UNITS = {"h": 3600, "min": 60, "s": 1}


@given(st.integers(0, 10**6))
def test_a_duration_is_short_by_less_than_its_smaller_unit(seconds: int) -> None:
    parts = duration(seconds).split()
    told = sum(int(number) * UNITS[unit] for number, unit in zip(parts[::2], parts[1::2], strict=True))
    assert 0 <= seconds - told < (60 if seconds >= 3600 else 1)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (59.6, "1 min"), (3599.7, "1 h"), (3605, "1 h")])
def test_nothing_of_a_unit_is_not_told(seconds: float, text: str) -> None:
    assert duration(seconds) == text
