"""What filters read of a document's metadata: entries.

An entry is bytes: a digest of the key, the kind of the value, and the value. Entries of numbers and
times hold all of the value and sort by it. Those of text begin with its first bytes, by which they
sort, and end with a digest of all of it. A list has an entry of its own and one for each of its
items, so that `$contains` is found as equality is.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache

from triptych.records import (
    Metadata,
)
from triptych.records.filters import EXPIRES_AT
from triptych.records.metadata import (
    ComparisonKey,
    Kind,
    comparison_key,
)


def prefix_end(prefix: str) -> str | None:
    """The least string above all that start with ``prefix``, by code point; None: there is none.

    Surrogates are no characters: U+D7FF is followed by U+E000.
    """
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    last = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if last == 0xD800 else last)


TEXT_LENGTH = 16
"""How many bytes of a text an entry sorts by."""
_KINDS: dict[Kind, bytes] = {"text": b"s", "bool": b"b", "number": b"n", "time": b"t", "list": b"l"}
_ITEM = b"i"


def entries_of(metadata: Metadata, expires_at: datetime | None) -> set[bytes]:
    """All entries of a document."""
    found = set()
    if expires_at is not None:
        found.add(entry_of(EXPIRES_AT, comparison_key(expires_at)))
    for key, value in metadata.items():
        if key == EXPIRES_AT:
            continue  # as a field of filters it is the document's own
        compared = comparison_key(value)
        found.add(entry_of(key, compared))
        if compared[0] == "list":
            found.update(entry_of(key, item, item=True) for item in compared[1])
    return found


def entry_of(key: str, value: ComparisonKey, *, item: bool = False) -> bytes:
    """The entry of one value, or of one ``item`` of a list."""
    return kind_prefix(key, value[0], item=item) + _sorted(value)


def kind_prefix(key: str, kind: Kind, *, item: bool = False) -> bytes:
    """What all entries of this key begin with whose value is of this kind."""
    return key_digest(key) + (_ITEM if item else b"") + _KINDS[kind]


@lru_cache(maxsize=1024)
def key_digest(key: str) -> bytes:
    """What all entries of this key begin with, those of the items of its lists included."""
    # Before documents could expire, a metadata key of this name had entries: they are no UTF-8.
    text = b"\xff" + key.encode() if key == EXPIRES_AT else key.encode()
    return hashlib.sha256(text).digest()[:12]


def next_prefix(prefix: bytes) -> bytes:
    """What sorts after everything that begins with ``prefix``, and nothing else before it."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else b"\xff" * (len(prefix) + 64)


def _sorted(value: ComparisonKey) -> bytes:
    """The value's bytes, which sort as the values of its kind do."""
    kind, held = value
    if kind == "text":
        data: bytes = held.encode()
        return data[:TEXT_LENGTH].ljust(TEXT_LENGTH, b"\0") + _digest([data])
    if kind == "bool":
        return b"\1" if held else b"\0"
    if kind == "time":
        return struct.pack(">Q", held + (1 << 63))
    if kind == "number":
        return _number(held)
    return _digest([_KINDS[item[0]] + _sorted(item) for item in held])


def _number(value: float) -> bytes:
    """Big-endian, in the order of the numbers: the nearest float, and how far from it an int is."""
    near = float(value) or 0.0  # 0.0 and -0.0 are equal
    bits = struct.unpack(">Q", struct.pack(">d", near))[0]
    ordered = bits ^ ((1 << 64) - 1 if bits >> 63 else 1 << 63)
    rest = value - int(near) if isinstance(value, int) else 0
    return struct.pack(">QH", ordered, rest + (1 << 15))


def _digest(parts: Iterable[bytes]) -> bytes:
    joined = b"".join([b"%d:%b" % (len(part), part) for part in parts])
    return hashlib.sha256(joined).digest()[:16]
