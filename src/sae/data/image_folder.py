"""A folder, or zip, of images per class.

Either `train/<class>/…`, `test/<class>/…` and perhaps `val/<class>/…`, or `<class>/…`, which
we split.
"""

from pathlib import Path

import numpy as np

from sae.config.run import DataConfig
from sae.core.errors import DataError
from sae.core.task import Classification, DataSpec
from sae.data.archive import FileTree, open_tree, tree_identity
from sae.data.cache import cached
from sae.data.dataset import Array, Dataset, Split
from sae.data.images import (
    DecodedImages,
    decode_images,
    is_image,
    keep_class_names,
    keep_images,
    keep_labels,
    kept_class_names,
    kept_splits,
    normalisation_of,
    survey,
)
from sae.data.locations import find_own
from sae.data.splitting import hold_out_validation, rows_of, split_indices

VERSION = 1
SPLITS = ("train", "val", "test")


def read_folder(config: DataConfig, _seed: int) -> Dataset:
    """The user's own images; the name of a folder is the name of its class."""
    path = find_own(config.name)
    kept = cached("folder", VERSION, tree_identity(path), lambda folder: _decode(path, folder))
    decoded, class_names = kept_splits(kept), kept_class_names(kept)
    (train, val, test), moments = _parts(decoded, config.split_seed)
    first = next(iter(decoded.values()))
    spec = DataSpec(first.images.shape[1:], Classification(len(class_names)))
    return Dataset(config.name, spec, normalisation_of(moments), train, val, test, class_names)


def group_by_split(tree: FileTree) -> dict[str, list[tuple[str, str]]]:
    """(image, class) of each split, or of `all` where the folder has no splits."""
    images = [name for name in tree.names if is_image(name)]
    tops = {name.split("/")[0] for name in images}
    has_splits = "train" in tops and tops <= set(SPLITS)
    depth = 1 if has_splits else 0
    loose = next((name for name in images if name.count("/") <= depth), None)
    if loose is not None:
        raise DataError(f"an image must be in the folder of its class, however {tree.path / loose} is in none")
    groups: dict[str, list[tuple[str, str]]] = {split: [] for split in (SPLITS if has_splits else ("all",))}
    for name in images:
        parts = name.split("/")
        groups[parts[0] if has_splits else "all"].append((name, parts[depth]))
    if has_splits and not groups["test"]:
        raise DataError(
            f"{tree.path} must hold images in test beside those in train: rename val to test if there is one, "
            f"validation images are then taken from train"
        )
    return {split: pairs for split, pairs in groups.items() if pairs}


def _class_names(tree: FileTree, members: dict[str, list[tuple[str, str]]]) -> tuple[str, ...]:
    training = members.get("train", members.get("all", []))
    names = tuple(sorted({name for _, name in training}))
    if len(names) < 2:
        raise DataError(f"there must be at least 2 classes to tell apart, got {list(names)} in {tree.path}")
    for image, name in (pair for pairs in members.values() for pair in pairs):
        if name not in names:
            raise DataError(f"every class must have training images, however {tree.path / image} is of class {name!r}")
    return names


def _decode(path: Path, folder: Path) -> None:
    tree = open_tree(path)
    members = group_by_split(tree)
    class_names = _class_names(tree, members)
    keep_class_names(folder, class_names)
    kind = survey(tree, [image for pairs in members.values() for image, _ in pairs])
    labels = {name: label for label, name in enumerate(class_names)}
    for split, pairs in members.items():
        shape = (len(pairs), kind.channels, kind.height, kind.width)
        keep_images(folder, split, decode_images(tree, [image for image, _ in pairs], kind), shape)
        keep_labels(folder, split, np.array([labels[name] for _, name in pairs], np.int64))


def _parts(decoded: dict[str, DecodedImages], split_seed: int) -> tuple[list[Split], Array]:
    """Train, val and test, and the moments of the training images."""
    if "all" in decoded:
        whole = decoded["all"]
        rows = split_indices(len(whole.labels), split_seed, whole.labels)
        return [_rows(whole, part) for part in rows], whole.moments[rows[0]]
    train, test = decoded["train"], _whole(decoded["test"])
    if "val" in decoded:
        return [_whole(train), _whole(decoded["val"]), test], train.moments
    kept, held_out = hold_out_validation(train.labels, split_seed)
    return [_rows(train, kept), _rows(train, held_out), test], train.moments[kept]


def _rows(decoded: DecodedImages, rows: Array) -> Split:
    return Split(rows_of(decoded.images, rows), decoded.labels[rows])


def _whole(decoded: DecodedImages) -> Split:
    return Split(decoded.images, np.array(decoded.labels))
