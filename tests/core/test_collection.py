"""Pauses of Python's garbage collector."""

import gc
import sys
from collections.abc import Iterator

import pytest

from sae.core.collection import import_for_good, paused_collection

PACKAGE = "this"


@pytest.fixture
def unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@paused_collection()
def fail() -> None:
    raise KeyError("paused" if not gc.isenabled() else "not paused")


def test_a_pause_ends_even_if_what_is_done_in_it_fails() -> None:
    with pytest.raises(KeyError, match="'paused'"):
        fail()
    assert gc.isenabled()


@pytest.mark.usefixtures("unfrozen")
def test_what_an_import_makes_is_not_searched_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    import_for_good(PACKAGE)
    assert "Beautiful is better than ugly" in capsys.readouterr().out
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


@pytest.mark.usefixtures("unfrozen")
def test_nothing_happens_if_it_was_imported_before() -> None:
    import_for_good("sys")
    assert gc.get_freeze_count() == 0


def test_a_package_that_is_missing_is_told() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        import_for_good("no_such_package")
    assert gc.isenabled()
