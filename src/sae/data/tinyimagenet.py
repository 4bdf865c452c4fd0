"""TinyImageNet, and any set in its layout, from its zip or the unpacked folder.

`train/<id>/images/*.JPEG`, `val/images/*.JPEG` with `val/val_annotations.txt`, the class ids in
`wnids.txt` and their names in `words.txt`. The official test images have no labels, so the
official validation split is our test split, and our validation split comes out of the training one.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from sae.config.run import DataConfig
from sae.core.errors import DataError
from sae.core.seeds import derive_seed
from sae.core.task import Classification, DataSpec
from sae.data.archive import FileTree, open_tree, tree_identity
from sae.data.cache import cached
from sae.data.catalogue import published_file
from sae.data.dataset import Dataset, Normalisation, Split
from sae.data.images import (
    decode_images,
    is_image,
    keep_class_names,
    keep_images,
    keep_labels,
    kept_class_names,
    kept_splits,
    survey,
)
from sae.data.locations import find_own, find_published
from sae.data.npz import check_md5
from sae.data.splitting import hold_out_validation, rows_of

VERSION = 1
NUM_CLASSES = 200
NORMALISATION = Normalisation(
    tuple(255 * value for value in (0.4802, 0.4481, 0.3975)), tuple(255 * value for value in (0.2302, 0.2265, 0.2262))
)


def read_published(config: DataConfig, seed: int) -> Dataset:
    """The published set."""
    file = published_file(config.name)
    path = find_published(file, config.name)
    dataset = _read(config.name, path, seed, file.md5 if path.is_file() else None)
    found = len(dataset.class_names or ())
    if found != NUM_CLASSES:
        raise DataError(
            f"{path} must hold the {NUM_CLASSES} classes of {config.name}, got {found}: give it by its path"
        )
    return dataset


def read_own(config: DataConfig, seed: int) -> Dataset:
    """A set in the same layout, such as some of the classes."""
    return _read(config.name, find_own(config.name), seed, None)


def is_tiny_layout(tree: FileTree) -> bool:
    """Whether a tree of files is laid out like TinyImageNet."""
    return {"wnids.txt", "val/val_annotations.txt"} <= set(tree.names)


def _read(name: str, path: Path, seed: int, md5: str | None) -> Dataset:
    kept = cached("tinyimagenet", VERSION, [tree_identity(path), md5], lambda folder: _decode(path, md5, folder))
    splits, class_names = kept_splits(kept), kept_class_names(kept)
    train, test = splits["train"], splits["test"]
    labels = np.array(train.labels)
    train_split, val_split = (
        Split(rows_of(train.images, rows), labels[rows])
        for rows in hold_out_validation(labels, derive_seed(seed, "validation split"))
    )
    spec = DataSpec(train.images.shape[1:], Classification(len(class_names)))
    test_split = Split(test.images, np.array(test.labels))
    return Dataset(name, spec, NORMALISATION, train_split, val_split, test_split, class_names)


def _decode(path: Path, md5: str | None, folder: Path) -> None:
    if md5 is not None:
        check_md5(path, md5)
    tree = open_tree(path)
    keep_class_names(folder, _class_names(tree))
    ids = {identifier: label for label, identifier in enumerate(_lines(tree, "wnids.txt"))}
    members = {"train": _training_members(tree, ids), "test": _test_members(tree, ids)}
    everything = [name for split in members.values() for name, _ in split]
    kind = replace(survey(tree, everything[:1]), channels=3)  # a few of the official images are gray
    for split, pairs in members.items():
        names = [name for name, _ in pairs]
        shape = (len(names), kind.channels, kind.height, kind.width)
        keep_images(folder, split, decode_images(tree, names, kind), shape)
        keep_labels(folder, split, np.array([label for _, label in pairs], np.int64))


def _training_members(tree: FileTree, ids: dict[str, int]) -> list[tuple[str, int]]:
    names = [name for name in tree.names if name.startswith("train/") and is_image(name)]
    unknown = next((name for name in names if name.split("/")[1] not in ids), None)
    if unknown is not None:
        raise DataError(f"wnids.txt must list every class, however {tree.path / unknown} is of another")
    return [(name, ids[name.split("/")[1]]) for name in names]


def _test_members(tree: FileTree, ids: dict[str, int]) -> list[tuple[str, int]]:
    pairs, known = [], set(tree.names)
    for number, line in enumerate(_lines(tree, "val/val_annotations.txt"), start=1):
        file, identifier = [*line.split("\t"), ""][:2]
        where = f"line {number} of {tree.path / 'val/val_annotations.txt'}"
        if f"val/images/{file}" not in known or identifier not in ids:
            raise DataError(f"{where} must name an image and its class, got {line!r}")
        pairs.append((f"val/images/{file}", ids[identifier]))
    return pairs


def _class_names(tree: FileTree) -> tuple[str, ...]:
    """The first word for each class, or its id."""
    words = (
        dict(line.split("\t", 1) for line in _lines(tree, "words.txt") if "\t" in line)
        if "words.txt" in tree.names
        else {}
    )
    return tuple(words.get(identifier, identifier).split(",")[0] for identifier in _lines(tree, "wnids.txt"))


def _lines(tree: FileTree, name: str) -> list[str]:
    try:
        return tree.read(name).decode().splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{tree.path / name} must be text in UTF-8") from None
