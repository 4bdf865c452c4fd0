"""The files of a folder that holds a shipped model, by their names."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from sae.core.reading import read_file

MANIFEST, RECEIPT, CARD = "manifest.json", "receipt.json", "README.md"
FORMAT = "sae-model"
CARD_MARK = re.compile(
    r"\n<!-- written by sae export, text (?P<hash>[0-9a-f]{12}): changed or without this line, it is kept -->\n\Z"
)


def shipped_files(folder: Path) -> list[Path]:
    """Return the files that `sae export` has written into a folder; without a manifest, there are none."""
    names = list(_graphs(folder))
    if not names:
        return []
    found = [folder / name for name in (*names, RECEIPT, MANIFEST)]
    return [*found, *([folder / CARD] if has_own_card(folder) else [])]


def is_shipped(folder: Path) -> bool:
    """Return whether a folder has a manifest of ours."""
    return bool(_read_manifest(folder))


def has_own_card(folder: Path) -> bool:
    """Return whether a folder has a model card of ours that nobody has edited."""
    try:
        return is_own_card(read_file(f"{folder / CARD}").decode("utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def marked_card(text: str) -> str:
    """Add the line that makes a card ours."""
    return f"{text}\n<!-- written by sae export, text {_hash(text)}: changed or without this line, it is kept -->\n"


def is_own_card(text: str) -> bool:
    """Return whether a README.md is a card of ours that nobody has edited.

    Example:
        >>> own = marked_card("# A model")
        >>> is_own_card(own), is_own_card("# My project"), is_own_card(own.replace("A", "My"))
        (True, False, False)
    """
    mark = CARD_MARK.search(text)
    return mark is not None and _hash(text[: mark.start()]) == mark["hash"]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _graphs(folder: Path) -> Iterator[str]:
    """Yield the names of the graphs that a manifest describes."""
    manifest = _read_manifest(folder)
    graph, adaptive = manifest.get("graph"), manifest.get("adaptive")
    stages = adaptive.get("stages") if isinstance(adaptive, Mapping) else None
    for part in (graph, *(stages if isinstance(stages, list) else ())):
        name = part.get("file") if isinstance(part, Mapping) else None
        if isinstance(name, str) and is_plain_name(name):
            yield name


def is_plain_name(name: str) -> bool:
    """Return whether a text names a file in the same folder, on every system."""
    return name not in ("", ".", "..") and not set(name) & set("/\\:\0")


def _read_manifest(folder: Path) -> Mapping[str, object]:
    try:
        manifest = json.loads(read_file(f"{folder / MANIFEST}"))
    except (OSError, ValueError, RecursionError):
        return {}
    return manifest if isinstance(manifest, dict) and manifest.get("format") == FORMAT else {}
