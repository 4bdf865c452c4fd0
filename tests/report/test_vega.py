import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sae.data.cache import entries
from sae.report import vega


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Bundle a short script, in a cache of its own; the list grows by one with every bundling."""
    made: list[str] = []

    def bundle() -> str:
        made.append("window.vegaEmbed = 1; // ×")
        return made[-1]

    monkeypatch.setenv("SAE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vega, "_bundle", bundle)
    vega.vega_script.cache_clear()
    yield made
    vega.vega_script.cache_clear()


def script() -> str:
    """Return the script as a new process would."""
    vega.vega_script.cache_clear()
    return vega.vega_script()


def test_script_is_bundled_once(bundled: list[str]) -> None:
    assert script() == script() == bundled[0]
    assert len(bundled) == 1
    assert [entry.reader for entry in entries()] == ["page-script"]  # `sae data cache` lists and deletes it


@pytest.mark.parametrize("damage", ["", "window.vegaEmbed = 2; // ×", "window.vegaEmbed = 1; // ×\n", "\udcff"])
def test_damaged_script_is_bundled_again(bundled: list[str], damage: str) -> None:
    whole = script()
    (kept,) = entries()[0].folder.glob("*.js")
    kept.write_text(damage, encoding="utf-8", errors="surrogateescape")
    assert script() == whole
    assert script() == whole
    assert len(bundled) <= 3  # once at first, once for the page, once for the cache


def test_damage_beyond_the_beginning_that_the_cache_checks_is_found(
    bundled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "x" * 100_000
    monkeypatch.setattr(vega, "_bundle", lambda: long)
    script()
    (kept,) = entries()[0].folder.glob("*.js")
    kept.write_text(long[:-1] + "y", encoding="utf-8")
    assert script() == long


def test_page_needs_no_cache(bundled: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SAE_CACHE", os.fspath(tmp_path / "file"))
    assert script() == "window.vegaEmbed = 1; // ×"
    assert len(bundled) == 1
