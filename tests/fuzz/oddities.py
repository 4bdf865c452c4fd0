"""Files that are well formed, but hold what few people expect: edges of float32, types of Parquet, odd arrays."""

import io
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.mutations import Mutation, insert

EDGES = (
    *(b"3.4e38", b"3.5e38", b"-3.5e38", b"1e39", b"1e-45", b"1e150", b"1e200", b"1e308", b"-1e308", b"5e-324"),
    *(b"9007199254740993", b"16777217", b"-0.0", b"inf", b"-inf", b"nan", b"0x10", b"1_000", b"1,5", b"\xd9\xa3"),
)
"""Numbers at the edges of float32 and float64, and what may be taken for numbers."""


def edge(rng: random.Random, content: bytes) -> bytes:
    """Replace cells of a CSV."""
    lines = content.split(b"\n")
    for _ in range(rng.choice((1, 1, 3))):
        row = rng.randrange(len(lines))
        cells = lines[row].split(b",")
        cells[rng.randrange(len(cells))] = rng.choice(EDGES)
        lines[row] = b",".join(cells)
    return b"\n".join(lines)


def _texts(pa: Any, values: list[bytes], kind: Any) -> Any:
    """Texts that need not be UTF-8."""
    array = pa.array(values, pa.large_binary() if kind == pa.large_string() else pa.binary())
    return pa.Array.from_buffers(kind, len(array), array.buffers())


def _odd_arrays(pa: Any, rows: int, rng: random.Random) -> list[Callable[[], Any]]:
    far = rng.choice((10**12, -(10**12), 2**62, -(2**62), 253402300799, -62135596801))
    unit, zone = rng.choice(("s", "ms", "us", "ns")), rng.choice((None, "UTC", "Mars/Olympus", "+99:99", ""))
    numbers = [
        rng.choice((3.4e38, 1e39, 1e308, -1e308, 1e-45, float("nan"), float("inf"), 1.0, None)) for _ in range(rows)
    ]
    broken = [rng.choice((b"ab\xff", b"c", b"", b"\xed\xa0\x80")) for _ in range(rows)]
    codes = pa.array([rng.choice((0, 1, None)) for _ in range(rows)], pa.int32())
    digits = [rng.choice(("1", "02", "3.5", " 4", "1e39", "?", "nan", "1,5")) for _ in range(rows)]
    return [
        lambda: pa.array([far] * rows, pa.int64()).cast(pa.timestamp(unit, zone)),
        lambda: pa.array([rng.choice((2**31 - 1, -(2**31), 0))] * rows, pa.int32()).cast(pa.date32()),
        lambda: pa.array([far] * rows, pa.int64()).cast(pa.date64()),
        lambda: pa.array(numbers, pa.float64()),
        lambda: pa.array(numbers, pa.float32(), safe=False),
        lambda: pa.array([rng.choice((2**64 - 1, 0, None)) for _ in range(rows)], pa.uint64()),
        lambda: _texts(pa, broken, pa.string()),
        lambda: _texts(pa, broken, pa.large_string()),
        lambda: pa.DictionaryArray.from_arrays(codes, _texts(pa, [b"\xff", b"x"], pa.string())),
        lambda: pa.DictionaryArray.from_arrays(codes, pa.array([1e39, 2.0])),
        lambda: pa.DictionaryArray.from_arrays(codes, pa.array(["01", "2"])),
        lambda: pa.array(digits),
        lambda: pa.array(digits).dictionary_encode(),
        lambda: pa.array([None] * rows, rng.choice((pa.null(), pa.string(), pa.float64(), pa.timestamp("ns")))),
        lambda: pa.array([True, None] * (rows // 2) + [False] * (rows % 2)),
        lambda: pa.array([[1, 2]] * rows),
        lambda: pa.array([{"a": 1}] * rows),
        lambda: pa.array([far % 86_400] * rows, pa.int64()).cast(pa.duration("s")),
        lambda: pa.array([far % 86_400] * rows, pa.int32()).cast(pa.time32("s")),
        lambda: pa.array(["1.10"] * rows).cast(pa.decimal128(38, 20)),
    ]


def odd_parquet(rng: random.Random, content: bytes) -> bytes:
    """Replace columns of a Parquet file by others, leave out its rows, or give two columns the same name."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(io.BytesIO(content))
        table = _changed(pa, table, rng)
        written = io.BytesIO()
        parquet.write_table(table, written)
        return written.getvalue()
    except (pa.ArrowException, OSError, ValueError):  # another mutation has damaged it, or Parquet cannot hold it
        return insert(rng, content)


def _changed(pa: Any, table: Any, rng: random.Random) -> Any:
    choice = rng.randrange(20)
    if choice == 0:
        return table.slice(0, rng.choice((0, 1)))
    if choice == 1:
        return table.rename_columns([table.column_names[0]] * table.num_columns)
    index = rng.randrange(table.num_columns)
    array = rng.choice(_odd_arrays(pa, table.num_rows, rng))()
    return table.set_column(index, table.column_names[index], array)


def _odd_values(array: np.ndarray, rng: random.Random) -> np.ndarray:
    edges = np.array([1e39, 3.4e38, -1e308, np.nan, np.inf, 1e-45, 0.0])
    choices: list[Callable[[], np.ndarray]] = [
        lambda: array[:0],
        lambda: array[:, :0] if array.ndim > 1 else array[:0],
        lambda: array.astype(np.float64) + rng.choice(edges),
        lambda: np.where(np.arange(array.size).reshape(array.shape) % 7, array, rng.choice(edges)),
        lambda: array.astype(np.int64) * rng.choice((-1, 2, 10**9)),
        lambda: array.astype(np.int64) + rng.choice((1, -1, 255)),
        lambda: array.astype(rng.choice(("U", "S", "c16", "f2", "bool", "M8[s]"))),
        lambda: array[..., None],
        lambda: np.array(3),
    ]
    return rng.choice(choices)()


def odd_npz(rng: random.Random, content: bytes) -> bytes:
    """Replace one array by values at the edges, other types, other shapes, or nothing."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        name = rng.choice(sorted(arrays))
        with np.errstate(all="ignore"):
            arrays[name] = _odd_values(arrays[name], rng)
    except Exception:  # another mutation has damaged it
        return insert(rng, content)
    written = io.BytesIO()
    np.savez(written, **arrays)
    return written.getvalue()


CSV: tuple[Mutation, ...] = (edge, edge, edge, edge)
PARQUET: tuple[Mutation, ...] = (odd_parquet,) * 10
NPZ: tuple[Mutation, ...] = (odd_npz,) * 12
