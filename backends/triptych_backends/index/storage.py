"""Files of the index: checksummed containers of arrays, a lock, durable renames.

A container is `MAGIC`, version, header size and header checksum, the header as JSON, then the
arrays, each aligned to 64 bytes and under a CRC-32 of its own that is verified when it is opened
(20 ms for 75 MB). A file is complete and synced before anything refers to it.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triptych_backends.file_locks import lock_now, sync_folder, unlock
from triptych_backends.index.segment import PostingsLists, Segment, Signs, SortedVocabulary
from triptych_backends.index.sparse_postings import SparsePostings

MAGIC = b"TRIPTYCH"
VERSION = 1
PREFIX = struct.Struct("<8sIII")
ALIGNMENT = 64
# Bytes, which take two milliseconds and more.
WORTH_THREADS = 8_000_000

Array = NDArray[Any]


class DamagedError(Exception):
    """A file of the index is not what was written; the message names it."""


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a container and sync it. Raises OSError."""
    entries: dict[str, dict[str, Any]] = {}
    offset = 0
    for name, array in arrays.items():
        data = np.ascontiguousarray(array)
        entries[name] = {
            "dtype": data.dtype.str,
            "shape": data.shape,
            "offset": offset,
            "crc": zlib.crc32(_bytes(data)),
        }
        offset += -(-data.nbytes // ALIGNMENT) * ALIGNMENT
    header = json.dumps({"arrays": entries, "size": offset}).encode()
    with path.open("wb") as file:
        file.write(PREFIX.pack(MAGIC, VERSION, len(header), zlib.crc32(header)))
        file.write(header)
        start = _aligned(PREFIX.size + len(header))
        for name, array in arrays.items():
            file.seek(start + entries[name]["offset"])
            file.write(_bytes(np.ascontiguousarray(array)))
        file.truncate(start + offset)
        file.flush()
        os.fsync(file.fileno())


def read_arrays(path: Path, *, verify: bool = True) -> dict[str, Array]:
    """Map a container's arrays, read-only; without `verify` their checksums are believed, and
    nothing of them is read.

    Raises DamagedError when a checksum fails, FileNotFoundError when there is no such file.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < PREFIX.size:
            raise DamagedError(f"{path}: cut short")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    magic, version, length, checksum = PREFIX.unpack_from(mapped)
    header = mapped[PREFIX.size : PREFIX.size + length]
    if magic != MAGIC or version != VERSION or zlib.crc32(header) != checksum:
        raise DamagedError(f"{path}: its header is damaged or of another version")
    described = json.loads(header)
    start = _aligned(PREFIX.size + length)
    if size != start + described["size"]:
        raise DamagedError(f"{path}: has {size} bytes, not {start + described['size']}")
    arrays = {}
    for name, entry in described["arrays"].items():
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        count = int(np.prod(shape, dtype=np.int64))
        place = start + entry["offset"]
        flat = np.frombuffer(mapped, dtype, count, place) if count else np.empty(0, dtype)
        arrays[name] = flat.reshape(shape)
    if verify:
        checksums = _checksums(arrays)
        for name, entry in described["arrays"].items():
            if checksums[name] != entry["crc"]:
                raise DamagedError(f"{path}: array {name!r} fails its checksum")
    return arrays


def _checksums(arrays: Mapping[str, Array]) -> dict[str, int]:
    """The CRC-32 of each, those of much data on all cores: zlib lets other threads run."""
    names = sorted(arrays, key=lambda name: -arrays[name].nbytes)
    views = [_bytes(arrays[name]) for name in names]
    if sum(map(len, views)) < WORTH_THREADS:
        return dict(zip(names, map(zlib.crc32, views), strict=True))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return dict(zip(names, pool.map(zlib.crc32, views), strict=True))


def _bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


PLAIN = (
    "starts",
    "owners",
    "owner_order",
    "name_blob",
    "name_offsets",
    "keys",
    "indexes",
    "lengths",
    "row_units",
    "row_keys",
    "codes",
    "scales",
)
SIGNS = ("words", "centre", "spreads", "depth")
SPARSE = ("terms", "offsets", "ids", "weights")


def write_segment(path: Path, segment: Segment) -> None:
    """Write a segment. Raises OSError."""
    arrays: dict[str, Array] = {name: getattr(segment, name) for name in PLAIN}
    arrays |= {f"signs.{name}": getattr(segment.signs, name) for name in SIGNS}
    if segment.sparse:  # a file of a dataset without sparse vectors is as it was before them
        arrays |= {f"sparse.{name}": getattr(segment.sparse, name) for name in SPARSE}
    for name in ("text", "headings"):
        postings_lists: PostingsLists = getattr(segment, name)
        vocabulary = postings_lists.vocabulary
        assert isinstance(vocabulary, SortedVocabulary), "a delta is merged before it is written"
        arrays |= {
            f"{name}.words": vocabulary.blob,
            f"{name}.word_offsets": vocabulary.offsets,
            f"{name}.prefixes": vocabulary.prefixes,
            f"{name}.offsets": postings_lists.offsets,
            f"{name}.ids": postings_lists.ids,
            f"{name}.counts": postings_lists.counts,
        }
    write_arrays(path, arrays)


def read_segment(path: Path, *, verify: bool = True) -> Segment:
    """Map a segment. Raises as `read_arrays` does."""
    arrays = read_arrays(path, verify=verify)
    try:
        parts: dict[str, Any] = {
            name: PostingsLists(
                SortedVocabulary(
                    arrays[f"{name}.words"],
                    arrays[f"{name}.word_offsets"],
                    arrays[f"{name}.prefixes"],
                ),
                arrays[f"{name}.offsets"],
                arrays[f"{name}.ids"],
                arrays[f"{name}.counts"],
            )
            for name in ("text", "headings")
        }
        parts |= {name: arrays[name] for name in PLAIN}
        parts["signs"] = Signs(**{name: arrays[f"signs.{name}"] for name in SIGNS})
        if "sparse.ids" in arrays:
            parts["sparse"] = SparsePostings(**{name: arrays[f"sparse.{name}"] for name in SPARSE})
    except KeyError as missing:
        raise DamagedError(f"{path}: lacks array {missing}") from missing
    return Segment(**parts, file=path.name)


@contextlib.contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock on a file between processes, without waiting.

    Yields False when another holds it. The system releases the lock of a killed process.
    Raises OSError when the file cannot be opened.
    """
    with path.open("ab") as file:
        held = False
        with contextlib.suppress(OSError):
            held = lock_now(file.fileno())
        try:
            yield held
        finally:
            if held:
                unlock(file.fileno())


def replace_durably(path: Path, content: bytes) -> None:
    """Replace a file by one atomic rename; after a crash there is the old one or the new."""
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)
