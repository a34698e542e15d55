"""One dataset's folder: segments, tombstones and the manifest that names them."""

from __future__ import annotations

import json
import secrets
import shutil
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from triptych_backends.file_locks import sync_folder
from triptych_backends.index.change_log import FIELDS, Field
from triptych_backends.index.segment import EMPTY_ORDINALS, Segment, SegmentReader
from triptych_backends.index.snapshot import Snapshot
from triptych_backends.index.storage import (
    DamagedError,
    read_arrays,
    read_segment,
    replace_durably,
    try_lock,
    write_arrays,
    write_segment,
)

Stamp = tuple[int, int, int]

VERSION = 2
MANIFEST = "manifest"
LOCK = "lock"
_PARTS = {"nonce", "seq", "epoch", "analyzer", "language", "space", "tombstones", "fields"}
# A reader that finds a file gone reads the manifest that no longer names it, so many times.
TRIES = 5


class Folder:
    """Files of one dataset's index. Only the holder of `lock` writes."""

    def __init__(self, path: Path, dataset: str) -> None:
        self.path = path
        self._dataset = dataset

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
        try:
            manifest: dict[str, Any] = json.loads(body)
            mine = manifest["version"] == VERSION and manifest["dataset"] == self._dataset
            if mine and not (manifest.keys() >= _PARTS and isinstance(manifest["fields"], dict)):
                raise KeyError(*(_PARTS - manifest.keys()))
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(f"{self.path / MANIFEST}: is no manifest: {error!r}") from error
        return manifest if mine else None

    def _open(self, manifest: dict[str, object], known: Mapping[str, Segment]) -> Snapshot:
        named = manifest["tombstones"]
        tombstones = {} if named is None else read_arrays(self.path / str(named))
        files = manifest["fields"]
        assert isinstance(files, dict)
        fields: dict[Field, tuple[SegmentReader, ...]] = {}
        for name in FIELDS:
            fields[name] = tuple(
                SegmentReader(
                    known[file] if file in known else read_segment(self.path / file),
                    EMPTY_ORDINALS if named is None else tombstones[file].astype(np.int32),
                )
                for file in files.get(name, ())
            )
        snapshot = Snapshot(
            nonce=str(manifest["nonce"]),
            seq=int(str(manifest["seq"])),
            horizon=int(str(manifest["horizon"])),
            epoch=str(manifest["epoch"]),
            analyzer=str(manifest["analyzer"]),
            language=str(manifest["language"]),
            space=str(manifest["space"]),
            sparse=str(manifest.get("sparse", "")),
        )
        return snapshot.with_fields(fields)

    def keep(self, segment: Segment, field: Field) -> Segment:
        """The segment as a file: itself when it is one here, else written and mapped."""
        if segment.file is not None and (self.path / segment.file).exists():
            return segment
        path = self.path / f"{field}-{secrets.token_hex(8)}.segment"
        write_segment(path, segment)
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
