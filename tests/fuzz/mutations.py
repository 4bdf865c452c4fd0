"""Malformed files, made from real ones by seeded changes."""

import json
import random
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

Mutation = Callable[[random.Random, bytes], bytes]

NUMBERS = (
    b"9" * 5000,
    b"NaN",
    b"Infinity",
    b"1e999",
    b"-1",
    b"0",
    b"3000000",
    b"99999999999999999999",
    b'"x"',
    b"null",
)
TEXTS = (
    *(b"[" * 100_000, b"{" * 5000, b"- " * 20_000, b"? " * 20_000, b'{"a":' * 20_000, b"&a [*a]", b"!!int x"),
    *(b"2024-13-45", b"!!timestamp x", b"!!python/object:os.system", b"\xff\xfe", b"\0", b"=1+1", b'"', b",", b"\n\n"),
    *(b"a,b\n" * 300, b"../../x", b"x" * 100_000, b"'", b": : :", b"\xf0\x9f\x98\x80"),
)
WORDS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFF, 0xFFFF)


def _span(rng: random.Random, content: bytes, most: int = 64) -> tuple[int, int]:
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + rng.randint(1, most))


def cut(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def empty(rng: random.Random, content: bytes) -> bytes:
    del rng, content
    return b""


def flip(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def flip_early(rng: random.Random, content: bytes) -> bytes:
    """Headers are at the beginning."""
    head = flip(rng, content[:200])
    return head + content[200:]


def delete(rng: random.Random, content: bytes) -> bytes:
    start, stop = _span(rng, content, 2000)
    return content[:start] + content[stop:]


def double(rng: random.Random, content: bytes) -> bytes:
    start, stop = _span(rng, content, 2000)
    return content[:stop] + content[start:]


def insert(rng: random.Random, content: bytes) -> bytes:
    start, stop = _span(rng, content)
    return content[:start] + rng.choice(TEXTS) + content[rng.choice((start, stop)) :]


def random_bytes(rng: random.Random, content: bytes) -> bytes:
    start, stop = _span(rng, content)
    return content[:start] + rng.randbytes(stop - start) + content[stop:]


def number(rng: random.Random, content: bytes) -> bytes:
    """Replace one number of a text or header by another."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?(e-?\d+)?", content[:100_000]))
    if not found:
        return insert(rng, content)
    chosen = rng.choice(found)
    return content[: chosen.start()] + rng.choice(NUMBERS) + content[chosen.end() :]


def word(rng: random.Random, content: bytes) -> bytes:
    """Replace a word of a binary file by an extreme one."""
    if len(content) < 4:
        return content + b"\xff"
    start = rng.randrange(min(len(content), rng.choice((64, len(content)))) - 3 or 1)
    packed = struct.pack(rng.choice("<>") + "I", rng.choice(WORDS))
    return content[:start] + packed + content[start + 4 :]


def value(rng: random.Random, content: bytes) -> bytes:
    """Replace a quoted text or the rest of a line by something else."""
    found = list(re.finditer(rb'"[^"\n]*"|(?<=: )[^\n]+', content[:100_000]))
    if not found:
        return insert(rng, content)
    chosen = rng.choice(found)
    return content[: chosen.start()] + rng.choice((*TEXTS, *NUMBERS)) + content[chosen.end() :]


def zip_fields(rng: random.Random, content: bytes) -> bytes:
    """Encrypt, pack in another way, or lie about sizes, in the tables of a zip."""
    places = [match.start() for match in re.finditer(rb"PK\x01\x02|PK\x03\x04", content)]
    if not places:
        return word(rng, content)
    changed = bytearray(content)
    place = rng.choice(places)
    flags, method = (8, 10) if changed[place + 2] == 1 else (6, 8)
    choice = rng.randrange(4)
    if choice == 0:
        changed[place + flags] |= 1
    elif choice == 1:
        changed[place + method] = rng.choice((1, 6, 9, 12, 14, 93, 99))
    else:
        start = min(place + rng.randrange(4, 46), len(changed) - 4)
        changed[start : start + 4] = struct.pack("<I", rng.choice(WORDS))
    return bytes(changed)


FORGED: tuple[Any, ...] = (
    *("/dev/zero", "../manifest.json", "..", "", "a\\b", "x" * 5000, "=1+1", "<b>", "a`b`c", "\n\n---\n", "NaN"),
    *(0, -1, 1, 2**31, 2**63, 10**30, 0.5, -0.5, 1e308, float("nan"), float("inf")),
    *(None, True, [], {}, [[]], [None], ["a", "a"], [0] * 5000, {"a": {}}),
)
"""What a stranger may write in place of a value."""


def forge(rng: random.Random, content: bytes) -> bytes:
    """Replace, leave out, double or copy one value of JSON, which stays JSON."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        return number(rng, content)
    places = list(_places(values))
    if not places:
        return value(rng, content)
    holder, key = rng.choice(places)
    choice = rng.randrange(8)
    if choice == 0:
        del holder[key]
    elif choice == 1 and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), holder[key])
    elif choice == 2:
        holder[key] = json.loads(json.dumps(rng.choice([other[place] for other, place in places])))
    else:
        holder[key] = rng.choice(FORGED)
    return json.dumps(values).encode()


def _places(values: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container in a JSON value with each of its keys."""
    for key in values if isinstance(values, dict) else range(len(values)) if isinstance(values, list) else ():
        yield values, key
        yield from _places(values[key])


ANY: tuple[Mutation, ...] = (cut, empty, flip, flip_early, delete, double, insert, random_bytes)
JSON: tuple[Mutation, ...] = (*ANY, number, value, forge, forge, forge, forge, forge, forge, forge, forge)
TEXT: tuple[Mutation, ...] = (*ANY, number, number, value, value, insert)
BINARY: tuple[Mutation, ...] = (*ANY, word, word, number)
ZIP: tuple[Mutation, ...] = (*BINARY, zip_fields, zip_fields, zip_fields)
