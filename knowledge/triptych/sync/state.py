"""The recorded state of synced files, so that unchanged files need not be read.

It is a cache of what can always be read again: lost or damaged, it costs the reading of all files,
and nothing else. What is in the store, and whose it is, the store alone knows.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import attrs

from triptych._internal.digests import digest
from triptych.contracts import SettingsStore
from triptych.errors import StoreError
from triptych.records import Metadata, SystemData
from triptych.records.metadata import metadata_to_plain
from triptych.scan import FileRecord, FileStat
from triptych.search.file_location import synced_folders

_FORMAT = "triptych-sync/1"
MIRRORS = "mirrors"
"""The folder, among the state files, of what a source keeps to fetch less: a cache as well."""
_DRAFT = ".new-"
_OWN = re.compile(r"[0-9a-f]{32}\.json|\.new-\w+").fullmatch
_ENDED = 3600.0
"""Seconds after which a draft is taken for one whose sync was ended."""
HELD = "\0held"
"""The name of the record of deletions that wait for confirmation, which no file has; its outcome is
how many documents the root had when they were first held."""
LEFT_OUT = ""
"""The outcome of a file that no document is made of."""


@attrs.frozen(slots=True)
class SyncRecord(FileRecord):
    """What is known of a file, and of the document that it became.

    Attributes:
        signature: of what parsed its bytes.
        outcome: `outcome_of` the document that came of it, or `LEFT_OUT`.
    """

    stat: FileStat | None
    sha256: str
    signature: str
    outcome: str


def outcome_of(content_sha256: str, metadata: Metadata, system: SystemData) -> str:
    """The digest of a document's content, metadata and system data."""
    # A sync without changes does little else than this, once for each document. The digest is that
    # of the days when all this was in the metadata, so that a state file of then is good today.
    told: list[tuple[str, Any]] = [
        *metadata_to_plain(metadata).items(),
        ("triptych.sync_root", system.sync_root),
    ]
    if system.outline:
        told.append(("triptych.outline", system.outline))
    parts = json.dumps([content_sha256, sorted(told, key=itemgetter(0))])
    return hashlib.sha256(parts.encode("ascii")).hexdigest()[:32]


def state_file(folder: Path, key: str, dataset_id: str) -> Path:
    """Where the state of a root is kept."""
    return folder / f"{digest('state', dataset_id, key)}.json"


def load_state(file: Path) -> dict[str, SyncRecord]:
    """What was saved, by path; nothing where there is nothing, or it is damaged."""
    try:
        return _read(file)
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _read(file: Path) -> dict[str, SyncRecord]:
    head, _, body = file.read_bytes().partition(b"\n")
    if head.decode("ascii") != f"{_FORMAT} {hashlib.sha256(body).hexdigest()}":
        raise ValueError(file)
    return {
        relative: SyncRecord(FileStat(*stat) if stat else None, sha256, signature, outcome)
        for relative, (stat, sha256, signature, outcome) in json.loads(body).items()
    }


def broken_states(folder: Path) -> list[Path]:
    """Files of a state folder that no sync reads: damaged, of another version of Triptych, or
    left half written an hour ago or longer. Their removal costs the reading of all files.

    What they know of documents is not compared with the store: each sync does that itself.
    """
    return [file for file in sorted(_own_files(folder)) if _is_broken(file)]


def _own_files(folder: Path) -> list[Path]:
    """The files that syncs have put there; none where another folder is linked in its place."""
    return [] if folder.is_symlink() else [each for each in folder.glob("*") if _OWN(each.name)]


def _is_broken(file: Path) -> bool:
    try:
        if file.name.startswith(_DRAFT):
            return time.time() - file.stat().st_mtime > _ENDED
        if file.suffix == ".json":
            _read(file)
    except FileNotFoundError:
        return False  # a sync has just put it in place
    except (OSError, ValueError, TypeError, AttributeError):
        return True
    return False


def forget_files(
    folder: Path, settings: SettingsStore, dataset_id: str, name: str | None, others: Sequence[str]
) -> None:
    """Remove what syncs remember of the file of a document, or of those of a dataset (None).

    What may be of it goes as well: all that is not of ``others``, the other datasets of the store.

    Raises:
        StoreError: it cannot be removed.
    """
    folders = {} if folder.is_symlink() else synced_folders(settings)
    kept = {state_file(folder, key, other) for key in folders for other in others}
    try:
        for key, (_, prefix) in folders.items():
            file = state_file(folder, key, dataset_id)
            if name is not None and (known := load_state(file)):
                if name.startswith(prefix) and name.removeprefix(prefix) in known:
                    del known[name.removeprefix(prefix)]
                    save_state(file, known)
                kept.add(file)
        for file in _own_files(folder):
            if file not in kept:
                file.unlink(missing_ok=True)
        if folders and not (folder / MIRRORS).is_symlink():
            shutil.rmtree(folder / MIRRORS, ignore_errors=not (folder / MIRRORS).exists())
    except OSError as error:
        raise StoreError(
            f"the recorded state of files in {folder} cannot be removed ({error}): purge again"
        ) from error


def save_state(file: Path, known: Mapping[str, SyncRecord]) -> None:
    """Replace what was saved.

    Raises:
        OSError: it cannot be written, or its folder is a link; the old state is left.
    """
    if file.parent.is_symlink():
        raise OSError(errno.ELOOP, "a link is in the place of the folder", str(file.parent))
    rows = {
        relative: (
            None if each.stat is None else attrs.astuple(each.stat)[:4],  # it is a file
            *(each.sha256, each.signature, each.outcome),
        )
        for relative, each in known.items()
    }
    body = json.dumps(rows, separators=(",", ":")).encode("ascii")
    head = f"{_FORMAT} {hashlib.sha256(body).hexdigest()}\n".encode("ascii")
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=_DRAFT, dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(head + body)
        # Not flushed to the disk: what a power loss leaves is whole, or fails its checksum.
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise
