"""Images in a folder or zip, in one of three layouts.

- `train/<class>/…`, `test/<class>/…` and optionally `val/<class>/…`.
- `<class>/…`, split by us.
- The layout of TinyImageNet: `train/<id>/images/*.JPEG`, `val/images/*.JPEG` with
  `val/val_annotations.txt`, class ids in `wnids.txt` and names in `words.txt`. Its official test
  images have no labels, so its official validation split is our test split, and our validation
  split is taken from its training split.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from sae.config.run import DataConfig
from sae.core.errors import DataError
from sae.core.seeds import derive_seed
from sae.core.task import Classification, DataSpec
from sae.data.archive import FileTree, open_tree, tree_identity
from sae.data.cache import cached
from sae.data.catalogue import published_files
from sae.data.dataset import ALL, SPLITS, Dataset, Depth, Indices, Normalisation, Split, rows_of
from sae.data.defaults import training_part
from sae.data.images import ImageKind, decode_images, first_look, is_image, survey
from sae.data.kept_images import (
    DecodedImages,
    image_dataset,
    keep_class_names,
    keep_kind,
    keep_split,
    kept_class_names,
    kept_kind,
    kept_splits,
    resizing,
    split_images,
)
from sae.data.locations import check_md5, find_own, find_published
from sae.data.splits import hold_out_validation

VERSION, LAYOUT_VERSION = 2, 3
"""Versions of the files in the cache: of decoded images and of layouts."""
LAYOUT_FILE = "layout.json"
NUM_CLASSES = 200
"""Classes of TinyImageNet."""
NORMALISATION = Normalisation(
    tuple(255 * value for value in (0.4802, 0.4481, 0.3975)), tuple(255 * value for value in (0.2302, 0.2265, 0.2262))
)
"""Normalisation of TinyImageNet."""


@dataclass(frozen=True)
class Layout:
    """Facts about a tree of images that are needed before it is decoded.

    Attributes:
        is_tiny: Whether it has the layout of TinyImageNet.
        side: Shorter side of the first image in pixels; 0 for the layout of TinyImageNet.
        num_training: About how many images are for training; 0 for the layout of TinyImageNet.
        depth: Bits of a channel of an image.
    """

    is_tiny: bool
    side: int
    num_training: int
    depth: Depth


def layout_of(path: Path) -> Layout:
    """Return the layout of a tree of images.

    It is cached, because every start asks for it and listing a large archive takes seconds.
    """
    kept = cached("layout", LAYOUT_VERSION, tree_identity(path), lambda folder: _keep_layout(path, folder))
    return Layout(**json.loads((kept / LAYOUT_FILE).read_text()))


def read_folder(config: DataConfig, _seed: int) -> Dataset:
    """Read the user's own images; the name of a folder is the name of its class."""
    path = find_own(config.name)
    source = [tree_identity(path), *resizing(config)]
    kept = cached("folder", VERSION, source, lambda folder: _decode_folder(path, config, folder))
    decoded, class_names = kept_splits(kept), kept_class_names(kept)
    labels = {part: np.array(images.labels) for part, images in decoded.items()}
    parts, moments = split_images(decoded, labels, config.split_seed, class_names, path)
    return image_dataset(config.name, parts, Classification(len(class_names)), moments, kept_kind(kept), class_names)


def read_tiny_published(config: DataConfig, seed: int) -> Dataset:
    """Read the published TinyImageNet."""
    (file,) = published_files(config.name)
    path = find_published(file, config.name)
    dataset = _read_tiny(config, path, seed, file.md5 if path.is_file() else None)
    found = len(dataset.class_names or ())
    if found != NUM_CLASSES:
        raise DataError(
            f"{path} must hold the {NUM_CLASSES} classes of {config.name}, got {found}: "
            f"give its path to use it as your own data"
        )
    return dataset


def read_tiny_own(config: DataConfig, seed: int) -> Dataset:
    """Read the user's own set in the layout of TinyImageNet, for example some of its classes."""
    return _read_tiny(config, find_own(config.name), seed, None)


def _read_tiny(config: DataConfig, path: Path, seed: int, md5: str | None) -> Dataset:
    source = [tree_identity(path), md5, *resizing(config)]
    kept = cached("tinyimagenet", VERSION, source, lambda folder: _decode_tiny(path, md5, config, folder))
    splits, class_names = kept_splits(kept), kept_class_names(kept)
    train, val = (
        _rows(splits["train"], rows)
        for rows in hold_out_validation(splits["train"].labels, derive_seed(seed, "validation split"))
    )
    spec = DataSpec(train.inputs.shape[1:], Classification(len(class_names)))
    test = Split(splits["test"].images, np.array(splits["test"].labels))
    return Dataset(config.name, spec, NORMALISATION, train, val, test, class_names, fit=kept_kind(kept).fit)


def _keep_layout(path: Path, folder: Path) -> None:
    tree = open_tree(path)
    layout = Layout(is_tiny=True, side=0, num_training=0, depth=8)
    if not _is_tiny(tree):
        groups = _group_by_split(tree)
        first_split = next(iter(groups.values()), [])
        kind = first_look(tree, [name for name, _ in first_split])
        num_training = len(first_split) if "train" in groups else training_part(len(first_split))
        layout = Layout(is_tiny=False, side=kind.side, num_training=num_training, depth=kind.depth)
    (folder / LAYOUT_FILE).write_text(json.dumps(asdict(layout)))


def _is_tiny(tree: FileTree) -> bool:
    return {"wnids.txt", "val/val_annotations.txt"} <= set(tree.names)


def _decode_folder(path: Path, config: DataConfig, folder: Path) -> None:
    tree = open_tree(path)
    groups = _group_by_split(tree)
    class_names = _class_names(tree, groups)
    kind = survey(tree, [image for pairs in groups.values() for image, _ in pairs], config.resize, config.fit)
    labels = {name: label for label, name in enumerate(class_names)}
    members = {split: [(image, labels[name]) for image, name in pairs] for split, pairs in groups.items()}
    _keep(folder, tree, members, kind, class_names)


def _decode_tiny(path: Path, md5: str | None, config: DataConfig, folder: Path) -> None:
    if md5 is not None:
        check_md5(path, md5)
    tree = open_tree(path)
    ids = {identifier: label for label, identifier in enumerate(_lines(tree, "wnids.txt"))}
    members = {"train": _tiny_training_members(tree, ids), "test": _tiny_test_members(tree, ids)}
    everything = [name for pairs in members.values() for name, _ in pairs]
    kind = survey(tree, everything[:1], config.resize, config.fit)
    kind = replace(kind, channels=3, depth=8)  # a few of the official images are gray
    _keep(folder, tree, members, kind, _tiny_class_names(tree))


def _keep(
    folder: Path,
    tree: FileTree,
    members: dict[str, list[tuple[str, int]]],
    kind: ImageKind,
    class_names: tuple[str, ...],
) -> None:
    """Decode and keep the images of a tree.

    Args:
        folder: Folder to write to.
        tree: The tree.
        members: Image and label of every sample of each split.
        kind: Size and channels of the images.
        class_names: Names of the classes in the order of their labels.
    """
    keep_class_names(folder, class_names)
    keep_kind(folder, kind)
    for split, pairs in members.items():
        images = decode_images(tree, [image for image, _ in pairs], kind)
        labels = np.array([label for _, label in pairs], np.int64)
        keep_split(folder, split, images, labels, kind)


def _group_by_split(tree: FileTree) -> dict[str, list[tuple[str, str]]]:
    """Return (image, class) of each split; the only part is `ALL` if the folder has no splits."""
    images = [name for name in tree.names if is_image(name)]
    tops = {name.split("/")[0] for name in images}
    has_splits = "train" in tops and tops <= set(SPLITS)
    depth = 1 if has_splits else 0
    loose = next((name for name in images if name.count("/") <= depth), None)
    if loose is not None:
        raise DataError(f"every image must be in the folder of its class, but {tree.path / loose} is not")
    groups: dict[str, list[tuple[str, str]]] = {split: [] for split in (SPLITS if has_splits else (ALL,))}
    for name in images:
        parts = name.split("/")
        groups[parts[0] if has_splits else ALL].append((name, parts[depth]))
    if has_splits and not groups["test"]:
        raise DataError(
            f"{tree.path} must have test images besides its training images: if there is a folder val, "
            f"rename val to test, and validation images will be taken from train"
        )
    return {split: pairs for split, pairs in groups.items() if pairs}


def _class_names(tree: FileTree, groups: dict[str, list[tuple[str, str]]]) -> tuple[str, ...]:
    training = groups.get("train", groups.get(ALL, []))
    names = tuple(sorted({name for _, name in training}))
    if len(names) < 2:
        raise DataError(f"there must be at least 2 classes, got {list(names)} in {tree.path}")
    for image, name in (pair for pairs in groups.values() for pair in pairs):
        if name not in names:
            raise DataError(f"every class must have training images, but {name!r} of {tree.path / image} has none")
    return names


def _rows(decoded: DecodedImages, rows: Indices) -> Split:
    return Split(rows_of(decoded.images, rows), decoded.labels[rows])


def _tiny_training_members(tree: FileTree, ids: dict[str, int]) -> list[tuple[str, int]]:
    names = [name for name in tree.names if name.startswith("train/") and is_image(name)]
    unknown = next((name for name in names if name.split("/")[1] not in ids), None)
    if unknown is not None:
        raise DataError(f"wnids.txt must list every class, but does not list that of {tree.path / unknown}")
    return [(name, ids[name.split("/")[1]]) for name in names]


def _tiny_test_members(tree: FileTree, ids: dict[str, int]) -> list[tuple[str, int]]:
    pairs, known = [], set(tree.names)
    for number, line in enumerate(_lines(tree, "val/val_annotations.txt"), start=1):
        file, identifier = [*line.split("\t"), ""][:2]
        where = f"line {number} of {tree.path / 'val/val_annotations.txt'}"
        if f"val/images/{file}" not in known or identifier not in ids:
            raise DataError(f"{where} must name an image and its class, got {line!r}")
        pairs.append((f"val/images/{file}", ids[identifier]))
    return pairs


def _tiny_class_names(tree: FileTree) -> tuple[str, ...]:
    """Return the first word for each class, or its id if there is none."""
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
