"""One dataset's folder: segments, tombstones, and the manifest that names them, durably written.

Segments and tombstones are containers of arrays: `MAGIC`, version, header size and header checksum,
the header as JSON, then the arrays, each aligned to 64 bytes and with a checksum of its own that is
verified when it is opened (5 ms for 75 MB). Exact vectors have a checksum a row, verified when it
is read. A file is complete and synced before anything refers to it.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import secrets
import shutil
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from triptych_backends.file_locks import lock_now, sync_folder, unlock
from triptych_backends.index.change_log import FIELDS, ExactVectors, Field
from triptych_backends.index.segment import (
    EMPTY_ORDINALS,
    DamagedError,
    PostingsLists,
    Segment,
    SegmentReader,
    Signs,
    SortedVocabulary,
    row_sums,
    vectors_of,
)
from triptych_backends.index.segment_checks import checked_arrays, require_places
from triptych_backends.index.selection import Snapshot
from triptych_backends.index.sparse_postings import SparsePostings

MAGIC = b"TRIPTYCH"
CONTAINER_VERSION = 3
PREFIX = struct.Struct("<8sIII")
ALIGNMENT = 64
_WEIGHTS = np.cumprod(np.full(512, 0x9E3779B97F4A7C15, np.uint64))

Array = NDArray[Any]

# Rows of exact vectors that are in memory at once as a file of them is written.
_ROWS_AT_ONCE = 1_024


class Streamed(NamedTuple):
    """An array of uint32 that is made as it is written; its rows have checksums of their own."""

    shape: tuple[int, ...]
    pieces: Iterator[Array]


def write_arrays(path: Path, arrays: Mapping[str, Array | Streamed]) -> None:
    """Write a container and sync it. Raises OSError."""
    entries: dict[str, dict[str, Any]] = {}
    offset = 0
    for name, array in arrays.items():
        kind = np.dtype(np.uint32) if isinstance(array, Streamed) else array.dtype
        entries[name] = {"dtype": kind.str, "shape": array.shape, "offset": offset}
        if not isinstance(array, Streamed):
            entries[name]["checksum"] = _checksum(np.ascontiguousarray(array))
        offset += _aligned(math.prod(array.shape) * kind.itemsize)
    header = json.dumps({"arrays": entries, "size": offset}).encode()
    with path.open("wb") as file:
        file.write(PREFIX.pack(MAGIC, CONTAINER_VERSION, len(header), zlib.crc32(header)))
        file.write(header)
        start = _aligned(PREFIX.size + len(header))
        for name, array in arrays.items():
            file.seek(start + entries[name]["offset"])
            for piece in array.pieces if isinstance(array, Streamed) else (array,):
                file.write(np.ascontiguousarray(piece).data)
        file.truncate(start + offset)
        file.flush()
        os.fsync(file.fileno())


def read_arrays(path: Path, *, verify: bool = True) -> dict[str, Array]:
    """Map a container's arrays, read-only; without `verify` their checksums are believed, and
    nothing of them is read.

    Raises DamagedError when a checksum fails, FileNotFoundError when the file does not exist.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < PREFIX.size:
            raise DamagedError(f"{path}: cut short")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    magic, version, length, checksum = PREFIX.unpack_from(mapped)
    header = mapped[PREFIX.size : PREFIX.size + length]
    if magic != MAGIC or version != CONTAINER_VERSION or zlib.crc32(header) != checksum:
        raise DamagedError(f"{path}: its header is damaged or of another version")
    start = _aligned(PREFIX.size + length)
    with damage_named(path):
        described = json.loads(header)
        if size != start + described["size"]:
            raise DamagedError(f"{path}: has {size} bytes, not {start + described['size']}")
        arrays = {
            name: _mapped(mapped, entry, start) for name, entry in described["arrays"].items()
        }
        for name, array in arrays.items() if verify else ():
            checksum = described["arrays"][name].get("checksum")
            if checksum is not None and _checksum(array) != checksum:
                raise DamagedError(f"{path}: array {name!r} fails its checksum")
    return arrays


def _mapped(mapped: mmap.mmap, entry: Mapping[str, Any], start: int) -> Array:
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    if dtype.kind not in "iuf" or entry["offset"] % ALIGNMENT:
        raise ValueError(f"no array of {dtype} begins at {entry['offset']}")
    count = int(np.prod(shape, dtype=np.int64))
    place = start + entry["offset"]
    flat = np.frombuffer(mapped, dtype, count, place) if count else np.empty(0, dtype)
    return flat.reshape(shape)


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Raise DamagedError with what values, which no checksum speaks of, end otherwise in."""
    try:
        yield
    except KeyError as missing:
        raise DamagedError(f"{path}: lacks {missing}") from missing
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as e:
        raise DamagedError(f"{path}: {e}") from e


def _checksum(array: Array) -> int:
    """The CRC-32 of the sums of its pages of 4 KiB, and of the bytes that are left.

    A sum has 64 bits, and odd weights: it is another one if one word is, and almost surely if
    words change places. It takes a fifth of the time of a CRC-32 of all.
    """
    data = array.reshape(-1).view(np.uint8)
    pages = len(data) // _WEIGHTS.nbytes
    words = data[: pages * _WEIGHTS.nbytes].view("<u8").reshape(pages, len(_WEIGHTS))
    sums = np.einsum("ij,j->i", words, _WEIGHTS).astype("<u8")
    return zlib.crc32(data[words.nbytes :].data, zlib.crc32(sums.data))


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
    "vectors",
)
SIGNS = ("words", "centre", "spreads", "depth")
SPARSE = ("terms", "offsets", "ids", "weights")


def _exact_rows(
    segment: Segment, before: Sequence[Segment], truth: ExactVectors
) -> Iterator[NDArray[np.uint32]]:
    """The `vectors` of a new segment: of files of those that it was made of, or of the truth."""
    known = [(each, each.row_keys.argsort()) for each in before if len(each.vectors)]
    for at in range(0, len(segment.row_keys), _ROWS_AT_ONCE):
        keys = segment.row_keys[at : at + _ROWS_AT_ONCE]
        piece = np.empty((len(keys), segment.dimension + 1), np.uint32)
        missing = np.ones(len(keys), np.bool_)
        for each, order in known:
            places = order.take(each.row_keys.searchsorted(keys, sorter=order), mode="clip")
            held = each.row_keys[places] == keys
            piece[held] = each.vectors[places[held]]
            missing &= ~held
            # What was read would count as memory of this process until the file is closed.
            mapped: Any = each.vectors
            while isinstance(mapped, np.ndarray):
                mapped = mapped.base
            if hasattr(mmap, "MADV_DONTNEED"):
                mapped.obj.madvise(mmap.MADV_DONTNEED)
        if missing.any():
            asked = keys[missing]
            words = vectors_of(truth(asked.tolist()), asked, segment.dimension).view(np.uint32)
            piece[missing] = np.column_stack((words, row_sums(words, asked)))
        yield piece


def write_segment(
    path: Path, segment: Segment, before: Sequence[Segment], truth: ExactVectors
) -> None:
    """Write a segment, which was made of those ``before`` and the ``truth``. Raises OSError."""
    arrays: dict[str, Array | Streamed] = {name: getattr(segment, name) for name in PLAIN}
    if segment.dimension:
        shape = len(segment.row_keys), segment.dimension + 1
        arrays["vectors"] = Streamed(shape, _exact_rows(segment, before, truth))
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
    """Map a segment; without `verify` its values are believed too. Raises as `read_arrays`."""
    arrays = read_arrays(path, verify=verify)
    with damage_named(path):
        if verify:
            arrays = checked_arrays(arrays)
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
        return Segment(**parts, file=path.name)


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock on a file between processes, without waiting.

    Yields False when another holds it. The system releases the lock of a killed process.
    Raises OSError when the file cannot be opened.
    """
    with path.open("ab") as file:
        held = False
        with suppress(OSError):
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


Stamp = tuple[int, int, int]

VERSION = 5
MANIFEST = "manifest"
LOCK = "lock"
_PARTS = {"nonce", "seq", "epoch", "analyzer", "language", "space", "tombstones", "fields"}
# A reader that finds a file gone reads the manifest that no longer names it, so many times.
TRIES = 5


class Folder:
    """Files of one dataset's index. Only the holder of `lock` writes."""

    def __init__(self, path: Path, dataset: str, vectors: ExactVectors) -> None:
        self.path = path
        self._dataset = dataset
        self._vectors = vectors

    def stamp(self) -> Stamp | None:
        """Identity of the current manifest; None when there is none."""
        try:
            found = (self.path / MANIFEST).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def lock(self) -> AbstractContextManager[bool]:
        """The right to write, yielded as False when another process has it. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        return try_lock(self.path / LOCK)

    def load(self, known: Mapping[str, Segment]) -> Snapshot | None:
        """The published snapshot; None when there is none.

        Segments already mapped are taken from `known`. Raises DamagedError.
        """
        for _ in range(TRIES):
            try:
                manifest = self._manifest()
                return None if manifest is None else self._open(manifest, known)
            except FileNotFoundError as error:
                missing = error
        raise DamagedError(f"{missing.filename}: is gone, but the manifest names it")

    def _manifest(self) -> dict[str, Any] | None:
        try:
            content = (self.path / MANIFEST).read_bytes()
        except FileNotFoundError:
            return None
        checksum, _, body = content.partition(b"\n")
        if checksum != b"%08x" % zlib.crc32(body):
            raise DamagedError(f"{self.path / MANIFEST}: fails its checksum")
        with damage_named(self.path / MANIFEST):
            manifest: dict[str, Any] = json.loads(body)
            mine = manifest["version"] == VERSION and manifest["dataset"] == self._dataset
            if mine and not (manifest.keys() >= _PARTS and isinstance(manifest["fields"], dict)):
                raise KeyError(*(_PARTS - manifest.keys()))
        return manifest if mine else None

    def _open(self, manifest: dict[str, Any], known: Mapping[str, Segment]) -> Snapshot:
        with damage_named(self.path / MANIFEST):
            files = {name: tuple(manifest["fields"].get(name, ())) for name in FIELDS}
            every, named = sum(files.values(), ()), manifest["tombstones"]
            paths = [*every, *([] if named is None else [named])]
            if len(set(paths)) < len(paths) or any(Path(each).name != each for each in paths):
                raise ValueError("names a file twice, or one that is elsewhere")
            snapshot = Snapshot(
                nonce=str(manifest["nonce"]),
                epoch=str(manifest["epoch"]),
                analyzer=str(manifest["analyzer"]),
                language=str(manifest["language"]),
                space=str(manifest["space"]),
                seq=int(manifest["seq"]),
                horizon=int(manifest["horizon"]),
                sparse=str(manifest.get("sparse", "")),
            )
            if not 0 <= snapshot.seq <= snapshot.horizon:
                raise ValueError(f"its changes up to {snapshot.seq} are not of a log")
        tombstones = {} if named is None else read_arrays(self.path / named)
        views = {}
        for file in every:
            segment = known[file] if file in known else read_segment(self.path / file)
            with damage_named(self.path / str(named)):
                dead = EMPTY_ORDINALS if named is None else tombstones[file]
                require_places(dead, len(segment), file)
            views[file] = SegmentReader(segment, dead.astype(np.int32))
        return snapshot.with_fields({n: tuple(views[f] for f in some) for n, some in files.items()})

    def keep(self, segment: Segment, field: Field, before: Sequence[Segment]) -> Segment:
        """The segment, made of those ``before``, as a file: itself when it is one here, else
        written and mapped."""
        if segment.file is not None and (self.path / segment.file).exists():
            return segment
        path = self.path / f"{field}-{secrets.token_hex(8)}.segment"
        write_segment(path, segment, before, self._vectors)
        # To read it all at once would hold it twice in memory, here and where it was made.
        return read_segment(path, verify=False)

    def publish(self, snapshot: Snapshot) -> Stamp | None:
        """Make a snapshot, all of whose segments are files here, the published one.

        Files that neither it nor the one before names are removed, those that cannot be at a
        later time. Raises OSError.
        """
        files = {
            name: [str(view.segment.file) for view in views]
            for name, views in snapshot.fields.items()
        }
        dead = {
            str(view.segment.file): view.dead
            for views in snapshot.fields.values()
            for view in views
        }
        tombstones = None
        if any(len(units) for units in dead.values()):
            tombstones = f"dead-{secrets.token_hex(8)}.arrays"
            write_arrays(self.path / tombstones, dead)
        sync_folder(self.path)
        body = json.dumps(
            {
                "version": VERSION,
                "dataset": self._dataset,
                "nonce": snapshot.nonce,
                "seq": snapshot.seq,
                "horizon": snapshot.horizon,
                "epoch": snapshot.epoch,
                "analyzer": snapshot.analyzer,
                "language": snapshot.language,
                "space": snapshot.space,
                **({"sparse": snapshot.sparse} if snapshot.sparse else {}),
                "tombstones": tombstones,
                "fields": files,
            }
        ).encode()
        named = self._named() | dead.keys() | {str(tombstones)}
        replace_durably(self.path / MANIFEST, b"%08x\n%s" % (zlib.crc32(body), body))
        stamp = self.stamp()
        self._sweep(named)
        return stamp

    def remove(self) -> None:
        """Remove the folder and all in it. Raises OSError."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    def _named(self) -> set[str]:
        """Files that the current manifest names: a reader may be about to open them."""
        with suppress(DamagedError):
            manifest = self._manifest()
            if manifest is not None:
                fields = manifest["fields"]
                assert isinstance(fields, dict)
                listed = {file for files in fields.values() for file in files}
                return listed | {str(manifest["tombstones"])}
        return set()

    def sweep(self) -> None:
        """Remove the files that the manifest does not name. Only for the holder of `lock`."""
        if named := self._named():
            self._sweep(named)

    def _sweep(self, named: set[str]) -> None:
        for path in self.path.iterdir():
            if path.suffix in (".segment", ".arrays") and path.name not in named:
                # Some systems do not remove a file that a process has mapped.
                with suppress(OSError):
                    path.unlink()
