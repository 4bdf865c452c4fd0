"""Tables of image files: one column holds their paths, relative to the table, and another the target."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from sae.config.run import DataConfig
from sae.core.errors import DataError
from sae.data.archive import Files
from sae.data.cache import cached, content_identity, file_identity
from sae.data.columns import Column
from sae.data.dataset import ALL, SPLITS, Dataset, Known, Split, rows_of
from sae.data.images import ImageKind, decode_images, first_look, is_image, survey
from sae.data.kept_images import image_dataset, keep_kind, keep_split, kept_kind, kept_splits, resizing
from sae.data.locations import find_own
from sae.data.table import split_table
from sae.data.table_files import first_row, read_columns

VERSION = 1
"""Version of the decoded files in the cache."""


def is_image_list(path: Path) -> bool:
    """Return whether the first row of a CSV or Parquet file names an image file that exists."""
    return any(is_image(cell) and (path.parent / cell).is_file() for cell in first_row(path))


def list_kind(path: Path) -> ImageKind:
    """Return the kind of the first image of a table."""
    tree = listed_files(read_columns(path), path)
    return first_look(tree, tree.names)


def read_list(config: DataConfig, _seed: int, known: Known | None = None) -> Dataset:
    """Read the images that a table names; split at random, by groups or in time.

    Columns other than the paths and the target are not used.

    Args:
        config: The path of the table, the task, the target, and how images are resized.
        known: Classes of an earlier reading; by default they are learnt here.
    """
    table = split_table(config, known or Known())
    path = table.path
    tree = listed_files(table.chosen, path)
    source = [file_identity(path), content_identity(path.parent, tree.names), *resizing(config)]
    kept = cached("list", VERSION, source, lambda folder: _decode(tree, config, folder))
    decoded, kind = kept_splits(kept)[ALL], kept_kind(kept)
    parts: dict[str, Split] = {
        split: Split(rows_of(decoded.images, rows), table.targets[rows])
        for split, rows in zip(SPLITS, table.parts, strict=True)
    }
    dataset = image_dataset(config.name, parts, table.task, decoded.moments[table.parts[0]], kind, table.class_names)
    return replace(dataset, target_names=table.target_names)


def listed_files(columns: Mapping[str, Column], path: Path) -> Files:
    """Return the image files that a table names, row by row; refuse one that does not exist.

    The column of their paths is the one in which every value ends in the suffix of an image.
    """
    found = [column for column in columns.values() if holds_images(column)]
    if len(found) != 1:
        columns_found = ", ".join(repr(column.name) for column in found) or "none"
        raise DataError(f"{path} must have one column of image files, without empty rows, got {columns_found}")
    names = tuple(str(name) for name in found[0].values)
    for row, name in enumerate(names, start=1):
        if not (path.parent / name).is_file():
            raise DataError(
                f"every image that {path} names must exist, but {path.parent / name} does not "
                f"(row {row}, column {found[0].name!r}): paths are relative to the folder of the table"
            )
    return Files(path.parent, names)


def own_files(name: str) -> list[Path]:
    """Return the file or folder of the user's own data, and the images that a table names; nothing for other data."""
    try:
        path = find_own(name)
    except DataError:
        return []
    if path.suffix.lower() not in (".csv", ".parquet") or not is_image_list(path):
        return [path]
    return [path, *(path.parent / image for image in listed_files(read_columns(path), path).names)]


def holds_images(column: Column) -> bool:
    """Return whether every value of a column ends in the suffix of an image."""
    return not column.is_numeric and not column.missing.any() and all(is_image(str(name)) for name in column.values)


def _decode(tree: Files, config: DataConfig, folder: Path) -> None:
    kind = survey(tree, tree.names, config.resize, config.fit)
    rows = np.arange(len(tree.names))  # the target is read from the table each time
    keep_split(folder, ALL, decode_images(tree, tree.names, kind), rows, kind)
    keep_kind(folder, kind)
