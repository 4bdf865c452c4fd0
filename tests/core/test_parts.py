import pytest

from sae.core.parts import exit_name, member_name, number_in, shown_name, stage_name


@pytest.mark.parametrize(
    ("kind", "name"), [("stage", stage_name(3)), ("exit", exit_name(3)), ("member", member_name(3))]
)
def test_a_name_tells_its_number_to_those_who_ask_for_its_kind(kind: str, name: str) -> None:
    assert [number_in(name, other) for other in ("stage", "exit", "member")].count(3) == 1
    assert number_in(name, kind) == 3


@pytest.mark.parametrize("name", ["stem", "backbone", "exit_", "stage_two", "my_stage_2"])
def test_other_names_have_no_number(name: str) -> None:
    assert number_in(name, "stage") is None
    assert number_in(name, "exit") is None


def test_people_read_spaces() -> None:
    assert shown_name(stage_name(2)) == "stage 2"
