"""Arrays of `.npz` files, which are read row by row, because the larger sets of MedMNIST do not fit into memory."""

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from sae.core.errors import DataError
from sae.data.archive import open_zip
from sae.data.dataset import Array

DAMAGES = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, KeyError)
"""Exceptions that numpy and zipfile raise for a damaged file."""


@dataclass(frozen=True)
class Member:
    """An array of an `.npz` file that has not been read yet."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.number]
    is_column_major: bool

    def read(self) -> Array:
        """Read the whole array; pickled objects are refused, because they could run code."""
        try:
            with np.load(self.path, allow_pickle=False) as file:
                array: Array = file[self.name]
        except DAMAGES as error:
            raise _refusal(self.path, self.name, error) from None
        return array

    def rows(self) -> Iterator[Array]:
        """Yield the array row by row along its first dimension."""
        if self.is_column_major:
            yield from self.read()
            return
        size = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        try:
            with open_zip(self.path) as archive, archive.open(f"{self.name}.npy") as file:
                _read_header(file)
                for _ in range(self.shape[0]):
                    yield np.frombuffer(file.read(size), self.dtype).reshape(self.shape[1:])
        except DAMAGES as error:
            raise _refusal(self.path, self.name, error) from None


def open_member(path: Path, name: str) -> Member:
    """Read the header of an array."""
    try:
        with open_zip(path) as archive, archive.open(f"{name}.npy") as file:
            shape, is_column_major, dtype = _read_header(file)
    except DAMAGES as error:
        raise _refusal(path, name, error) from None
    return Member(path, name, shape, dtype, is_column_major and len(shape) > 1)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.number]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_column_major, dtype = read(file)
    return shape, is_column_major, dtype


def _refusal(path: Path, name: str, error: Exception) -> DataError:
    return DataError(f"{name} of {path} must be an array of numbers, but cannot be read: {error}")
