"""Small data sets on disk, in every layout that can be read."""

import csv
import hashlib
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sae.config.run import DataConfig
from sae.data.dataset import Array


def data_config(name: object, **settings: Any) -> DataConfig:
    return DataConfig.model_validate({"name": str(name), **settings})


def npz_arrays(side: int = 8, channels: int = 1, num_classes: int = 3) -> dict[str, Array]:
    """Arrays in the layout of MedMNIST; the mean of an image follows its label."""
    rng = np.random.default_rng(0)
    arrays: dict[str, Array] = {}
    for split, count in (("train", 30), ("val", 9), ("test", 12)):
        labels = np.arange(count) % num_classes
        shape = (count, side, side) if channels == 1 else (count, side, side, channels)
        noise = rng.integers(0, 100, shape)
        arrays[f"{split}_images"] = (noise + 50 * labels.reshape(-1, *[1] * (len(shape) - 1))).astype(np.uint8)
        arrays[f"{split}_labels"] = labels[:, None].astype(np.uint8)
    return arrays


def write_npz(
    path: Path, arrays: dict[str, Array] | None = None, leave_out: Sequence[str] = (), **changes: Array
) -> Path:
    """Arrays, by default those above, with some changed or left out."""
    changed: dict[str, Any] = {**(arrays or npz_arrays()), **changes}
    np.savez(path, **{name: array for name, array in changed.items() if name not in leave_out})
    return path


def md5_of(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def image_bytes(value: int, size: tuple[int, int] = (8, 8), mode: str = "RGB", suffix: str = "png") -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size, value if mode == "L" else (value, 0, 255 - value)).save(buffer, suffix)
    return buffer.getvalue()


def class_files(count: int = 10, **image: Any) -> dict[str, bytes]:
    """Images of cats and dogs, by name."""
    return {
        f"{name}/{index:02}.png": image_bytes(10 * index + shade, **image)
        for name, shade in (("cat", 0), ("dog", 100))
        for index in range(count)
    }


def tiny_files(per_class: int = 20) -> dict[str, bytes]:
    """Three classes in the layout of TinyImageNet, one image of them gray."""
    ids = ("n03", "n01", "n02")
    files = {
        "wnids.txt": "\n".join(ids).encode(),
        "words.txt": b"n01\tgoldfish, Carassius\nn02\tbullfrog\nn09\tunused\n",
        "val/val_annotations.txt": "\n".join(f"val_{i}.JPEG\t{ids[i % 3]}\t0\t0\t1\t1" for i in range(6)).encode(),
        "train/n01/n01_boxes.txt": b"no image",
    }
    for i in range(6):
        files[f"val/images/val_{i}.JPEG"] = image_bytes(i, suffix="jpeg")
    for shade, identifier in enumerate(ids):
        for i in range(per_class):
            gray = identifier == "n01" and i == 0
            files[f"train/{identifier}/images/{identifier}_{i}.JPEG"] = image_bytes(
                80 * shade + 3 * i + 5, mode="L" if gray else "RGB", suffix="jpeg"
            )
    return files


def write_folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def write_zip(path: Path, files: dict[str, bytes], root: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(root + name, content)
    return path


def table_rows(count: int = 40) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {"age": 20 + i, "colour": ("red", "blue")[i % 2], "price": float(rng.normal()), "kind": ("a", "b")[i // 2 % 2]}
        for i in range(count)
    ]


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def signal_arrays(channels: int = 2, length: int = 9) -> dict[str, Array]:
    """Splits of 30 and 12 signals of three classes; values have an offset and a scale of their own."""
    rng = np.random.default_rng(0)

    def part(count: int) -> Array:
        return rng.normal(5.0, 2.0, (count, channels, length))

    return {
        "train_signals": part(30),
        "train_labels": np.arange(30) % 3,
        "test_signals": part(12),
        "test_labels": np.arange(12) % 3,
    }


def signal_rows(count: int = 40, steps: int = 6) -> list[dict[str, Any]]:
    """Signals of one channel in the rows of a table, with a class and one more number."""
    rng = np.random.default_rng(0)
    return [
        {**{f"t{step}": rng.normal() for step in range(steps)}, "kind": "ab"[row % 2], "end": rng.normal()}
        for row in range(count)
    ]
