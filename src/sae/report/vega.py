"""The script that draws the charts of a page, kept in the cache: to bundle it takes two seconds."""

import hashlib
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from sae.core.errors import DataError
from sae.data.cache import cached, delete_entry

SNIPPET = "window.vegaEmbed = vegaEmbed;"


@cache
def vega_script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, which sets `window.vegaEmbed`.

    A kept script that is not as it was written is bundled again; without a cache it is bundled every time.
    """
    with suppress(DataError, OSError, ValueError):
        folder = cached("page-script", 1, [version("vl-convert-python"), SNIPPET], _write)
        (kept,) = folder.glob("*.js")
        script = kept.read_text(encoding="utf-8")
        if _digest(script) == kept.stem:
            return script
        delete_entry(folder)
    return _bundle()


def _bundle() -> str:
    import vl_convert

    return vl_convert.javascript_bundle(SNIPPET)


def _write(folder: Path) -> None:
    script = _bundle()
    (folder / f"{_digest(script)}.js").write_text(script, encoding="utf-8")


def _digest(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()
