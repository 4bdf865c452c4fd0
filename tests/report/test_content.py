from sae.core.table import Column, Table
from sae.report.content import Figure, Lead, Note, Report, Section, prefixed, section


def test_a_section_is_of_the_parts_that_there_are() -> None:
    note = Note("x")
    assert section("a", "A", "", None, note, None).parts == (note,)


def test_a_prefix_makes_all_names_differ_and_leaves_the_rest() -> None:
    parts = (Figure("f", "F", "", ()), Table("t", "T", "", (Column("c"),), ()), Note("n"))
    one = prefixed(Section("s", "S", "intro", parts), "blood")
    assert (one.name, one.title, one.intro) == ("blood-s", "blood: S", "intro")
    assert [getattr(part, "name", None) for part in one.parts] == ["blood-f", "blood-t", None]
    assert [getattr(part, "title", None) for part in one.parts] == ["F", "T", None]


def test_the_receipt_is_the_first_table() -> None:
    receipt, other = (Table(name, "", "", (), ()) for name in ("receipt", "other"))
    sections = (section("a", "A", "", other, Figure("f", "F", "", ())),)
    assert list(Report("", (), Lead("", receipt=receipt), sections).tables()) == [receipt, other]
    assert list(Report("", (), Lead(""), sections).tables()) == [other]
