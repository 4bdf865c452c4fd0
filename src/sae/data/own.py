"""The user's own data by path: what kind it is, and what suits it to begin with."""

import json
from pathlib import Path
from typing import Any

from sae.core.errors import DataError
from sae.data.archive import open_tree, tree_identity
from sae.data.cache import cached
from sae.data.catalogue import TINY_SUGGESTS
from sae.data.entry import Entry
from sae.data.image_folder import group_by_split
from sae.data.images import survey
from sae.data.locations import find_own
from sae.data.npz import image_side
from sae.data.tinyimagenet import is_tiny_layout

VERSION = 1
LAYOUT_FILE = "layout.json"
SMALLEST_FOR_VGG = 16
"""Pixels: VGG halves an image four times."""


def own_entry(name: str) -> Entry:
    """What is known of a file or folder before it is read as a whole."""
    path = find_own(name)
    suffix = path.suffix.lower()
    if path.is_dir() or suffix == ".zip":
        return _image_tree(path)
    if suffix == ".npz":
        suggests = _backbone_for(image_side(path))
        return Entry("images in an .npz file", "sae.data.npz:read_own", suggests, task=None, takes=frozenset({"task"}))
    if suffix in (".csv", ".parquet"):
        return Entry(
            "a table",
            "sae.data.table:read_own",
            {"backbone": {"name": "fc"}},
            kind="table",
            task=None,
            takes=frozenset({"task", "target"}),
        )
    raise DataError(f"data must be a folder, .npz, .zip, .csv or .parquet, got {Path(name)}")


def _image_tree(path: Path) -> Entry:
    kept = cached("layout", VERSION, tree_identity(path), lambda folder: _keep_layout(path, folder))
    layout = json.loads((kept / LAYOUT_FILE).read_text())
    if layout["is_tiny"]:
        return Entry("images laid out like TinyImageNet", "sae.data.tinyimagenet:read_own", TINY_SUGGESTS)
    suggests = _backbone_for(layout["side"])
    return Entry("images in a folder for each class", "sae.data.image_folder:read_folder", suggests)


def _keep_layout(path: Path, folder: Path) -> None:
    """Listing a large archive takes seconds, and every start asks."""
    tree, side = open_tree(path), 0
    if not is_tiny_layout(tree):
        first_split = next(iter(group_by_split(tree).values()), [])
        kind = survey(tree, [name for name, _ in first_split[:1]])
        side = min(kind.height, kind.width)
    (folder / LAYOUT_FILE).write_text(json.dumps({"is_tiny": is_tiny_layout(tree), "side": side}))


def _backbone_for(side: int) -> dict[str, Any]:
    return {"backbone": {"name": "vgg" if side >= SMALLEST_FOR_VGG else "fc"}}
