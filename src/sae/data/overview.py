"""Overviews of a data set for people: a summary in numbers, and pictures of its images."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sae.core.errors import DataError
from sae.core.task import Classification, MultiLabel
from sae.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from sae.data.dataset import SPLITS, Array, Dataset, Split, class_titles, target_titles

CELL_SIDE = 96
"""Images are enlarged by a whole factor to about this many pixels."""
GAP = 6
FONT_SIZE = 14
PAPER, INK = "white", "black"


class SplitSummary(TypedDict):
    """Number of samples of a split, with the counts of its classes or the spread of its targets."""

    samples: int
    per_class: NotRequired[list[int]]
    targets: NotRequired[dict[str, float]]


class Summary(TypedDict):
    """A data set in numbers; `classes` are those of a sample or all of its labels, and empty for regression."""

    name: str
    task: str
    shape: list[int]
    classes: list[str]
    normalisation: dict[str, list[float]]
    splits: dict[str, SplitSummary]


def summarise(dataset: Dataset) -> Summary:
    """Return the shape, task and classes of a data set, and the targets of each split."""
    is_classification = isinstance(dataset.spec.task, Classification)
    return {
        "name": dataset.name,
        "task": "classification" if is_classification else "regression",
        "shape": list(dataset.spec.shape),
        "classes": list((target_titles(dataset) or class_titles(dataset)) if is_classification else ()),
        "normalisation": {"mean": list(dataset.normalisation.mean), "std": list(dataset.normalisation.std)},
        "splits": {name: _describe(dataset.split(name), dataset) for name in SPLITS},
    }


def first_of_each_class(dataset: Dataset, most: int = 80, most_per_class: int = 8) -> tuple[Array, list[str]]:
    """Return some training images with their titles, the same number for each class or level.

    Args:
        dataset: A data set of images.
        most: Most images in total.
        most_per_class: Most images of one class or level.

    Returns:
        Images, (image, channel, height, width), and the title of each.
    """
    targets, titles = dataset.train.targets, class_titles(dataset)
    if targets.ndim == 2:  # of several, each combination is a class of its own
        unique, targets = np.unique(targets, axis=0, return_inverse=True)
        titles = tuple(", ".join(f"{value:g}" for value in row) for row in unique.tolist())
    values = np.unique(targets)[:most]
    per_class = max(1, min(most_per_class, most // len(values)))
    chosen = [rows for value in values for rows in np.flatnonzero(targets == value)[:per_class]]
    names = [titles[targets[row]] if titles else f"{targets[row]:g}" for row in chosen]
    return dataset.train.inputs[np.array(chosen)], names


def corruption_grid(image: Array, seed: int) -> Image.Image:
    """Draw one image under each corruption: a row per corruption, first clean, then severities 1 to 5.

    Args:
        image: uint8, (channel, height, width).
        seed: Seed of the corruptions.
    """
    font = _font()
    cell = _enlarge(image).size
    left = max(round(font.getlength(name)) for name in CORRUPTIONS) + 2 * GAP
    top = FONT_SIZE + 2 * GAP
    columns = ("clean", *(f"severity {severity}" for severity in SEVERITIES))
    size = (left + len(columns) * (cell[0] + GAP), top + len(CORRUPTIONS) * (cell[1] + GAP))
    page = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(page)
    for column, title in enumerate(columns):
        middle = left + column * (cell[0] + GAP) + cell[0] // 2
        draw.text((middle, top // 2), title, INK, font, anchor="mm")
    for row, name in enumerate(CORRUPTIONS):
        y = top + row * (cell[1] + GAP)
        draw.text((GAP, y + cell[1] // 2), name, INK, font, anchor="lm")
        corrupted = (corrupt(image[None], name, severity, seed)[0] for severity in SEVERITIES)
        for column, version in enumerate((image, *corrupted)):
            page.paste(_enlarge(version), (left + column * (cell[0] + GAP), y))
    return page


def sample_grid(images: Array, titles: Sequence[object], num_columns: int = 8) -> Image.Image:
    """Draw samples row by row, each under its title.

    Args:
        images: uint8, (sample, channel, height, width).
        titles: Labels or names, one per sample; cut to the width of the image.
        num_columns: Samples per row.
    """
    if not len(images) or len(images) != len(titles):
        raise DataError(f"images to draw must have one title each, got {len(images)} images and {len(titles)} titles")
    font = _font()
    cell = _enlarge(images[0]).size
    step = (cell[0] + GAP, cell[1] + FONT_SIZE + 2 * GAP)
    num_columns = min(num_columns, len(images))
    num_rows = -(-len(images) // num_columns)
    page = Image.new("RGB", (num_columns * step[0] + GAP, num_rows * step[1] + GAP), PAPER)
    draw = ImageDraw.Draw(page)
    for i, (image, title) in enumerate(zip(images, titles, strict=True)):
        x, y = GAP + i % num_columns * step[0], GAP + i // num_columns * step[1]
        draw.text((x, y + FONT_SIZE // 2), _shorten(str(title), cell[0], font), INK, font, anchor="lm")
        page.paste(_enlarge(image), (x, y + FONT_SIZE + GAP // 2))
    return page


def _describe(split: Split, dataset: Dataset) -> SplitSummary:
    task = dataset.spec.task
    if isinstance(task, MultiLabel):
        return {"samples": len(split), "per_class": split.targets.sum(axis=0).tolist()}
    if isinstance(task, Classification):
        counts = np.bincount(split.targets, minlength=task.num_classes)
        return {"samples": len(split), "per_class": counts.tolist()}
    values = split.targets.astype(np.float64)
    titles = target_titles(dataset)
    columns = dict(zip(titles, values.T, strict=True)) if titles else {"targets": values}
    spread = {
        f"{key} of {name}": float(getattr(column, key)())
        for name, column in columns.items()
        for key in ("mean", "std", "min", "max")
    }
    single = {key.removesuffix(" of targets"): value for key, value in spread.items()}
    return {"samples": len(split), "targets": single}


def _enlarge(image: Array) -> Image.Image:
    """Enlarge an image by repeating its pixels, so that each one stays visible."""
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3):
        raise DataError(
            f"an image to draw must be uint8, (channel, height, width) with 1 or 3 channels, "
            f"got {image.dtype} of shape {image.shape}"
        )
    channel, height, width = image.shape
    factor = max(round(CELL_SIDE / max(height, width)), 1)
    colours = np.broadcast_to(image, (3, height, width)) if channel == 1 else image
    pixels = np.ascontiguousarray(colours.transpose(1, 2, 0))
    return Image.fromarray(pixels).resize((width * factor, height * factor), Image.Resampling.NEAREST)


def _font() -> ImageFont.FreeTypeFont:
    """Return Pillow's own font, so that pictures look the same on every machine."""
    font = ImageFont.load_default(FONT_SIZE)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow is built without FreeType"
    return font


def _shorten(text: str, width: int, font: ImageFont.FreeTypeFont) -> str:
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…"
