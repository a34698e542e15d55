"""What was last seen of each file, in tables of the derived database.

They are written in the transactions that mirror the files, so that the two always agree. A file
whose size, inode and time of modification are as they were is taken as unchanged; but not if it
was modified so shortly before it was looked at that the clock of the disk cannot tell (git's
racy rule): such a file is hashed again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs

from triptych.records.metadata import metadata_from_plain
from triptych_backends.filesystem.disk import FileStat
from triptych_backends.filesystem.formats import Sidecar
from triptych_backends.sql.document_rows import read_system
from triptych_backends.sqlite.connection import SqliteSession

__all__ = [
    "RACY",
    "CachedStat",
    "TrackedFile",
    "create_tables",
    "datasets",
    "drop_dataset",
    "find_document",
    "find_documents",
    "find_layers",
    "find_rejects",
    "folder_of_dataset",
    "forget",
    "forget_node",
    "has_tables",
    "keep",
    "keep_folder",
    "keep_node",
    "node",
]

RACY = 2_000_000_000
"""ns: the coarsest clock of a disk there is (FAT). Modified less than this before a look: racy."""

REJECT = "!"
"""The kind of a look at a file that is no document; its name is its path."""

_TABLES = (
    # Files: of documents (kind ""), of layers (L0, L1), and what is neither (!).
    """CREATE TABLE IF NOT EXISTS files_look (
        dataset TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL,
        digest TEXT NOT NULL, mtime INTEGER, size INTEGER, inode INTEGER,
        side_mtime INTEGER, side_size INTEGER, side_inode INTEGER, looked INTEGER NOT NULL,
        PRIMARY KEY (dataset, name, kind)) WITHOUT ROWID""",
    # Paths as a disk that ignores case sees them, with their spelling.
    """CREATE TABLE IF NOT EXISTS files_node (
        fold TEXT PRIMARY KEY, path TEXT NOT NULL, folder INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS files_dataset (
        dataset TEXT PRIMARY KEY, folder TEXT NOT NULL UNIQUE) WITHOUT ROWID""",
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOOK = (
    "f.name, f.kind, f.path, f.digest, f.mtime, f.size, f.inode, "
    "f.side_mtime, f.side_size, f.side_inode, f.looked"
)
_DOCUMENTS = (
    f"SELECT {_LOOK}, x.version, x.content_sha256, x.metadata, x.updated_at, x.original_sha256, "
    "x.system FROM files_look f JOIN dataset d ON d.name = f.dataset "
    "JOIN document x ON x.dataset_id = d.id AND x.name = f.name "
    "WHERE f.dataset = ? AND f.kind = ''"
)


@attrs.frozen
class CachedStat:
    """A file and, for a document, its sidecar, as they were ``looked`` at (ns since 1970)."""

    name: str
    kind: str
    path: str
    digest: str
    seen: FileStat
    side: FileStat | None
    looked: int

    def is_racy(self, seen: FileStat) -> bool:
        """Whether a change after the look might show the same ``seen``."""
        return seen.mtime >= self.looked - RACY


@attrs.frozen
class TrackedFile:
    """A document as it is mirrored."""

    look: CachedStat
    sidecar: Sidecar


def has_tables(session: SqliteSession) -> bool:
    """Whether `create_tables` was done."""
    found = session.driver.execute(
        "SELECT count(*) FROM sqlite_master WHERE name LIKE 'files\\_%' ESCAPE '\\' "
        "AND type = 'table'"
    ).fetchone()
    return bool(found[0] == len(_TABLES))


def create_tables(session: SqliteSession) -> None:
    """Make the tables of this module."""
    for statement in _TABLES:
        session.driver.execute(statement)


def find_document(session: SqliteSession, dataset: str, name: str) -> TrackedFile | None:
    """A document that is mirrored."""
    row = session.driver.execute(f"{_DOCUMENTS} AND f.name = ?", [dataset, name]).fetchone()
    return None if row is None else _tracked_file(row)


def find_documents(session: SqliteSession, dataset: str) -> list[TrackedFile]:
    """Every document of the dataset that is mirrored."""
    return [_tracked_file(row) for row in session.driver.execute(_DOCUMENTS, [dataset])]


def find_layers(session: SqliteSession, dataset: str, name: str | None = None) -> list[CachedStat]:
    """The layers' files, of the dataset or of one name."""
    sql = f"SELECT {_LOOK} FROM files_look f WHERE f.dataset = ? AND f.kind IN ('L0', 'L1')"
    values = [dataset]
    if name is not None:
        sql += " AND f.name = ?"
        values.append(name)
    return [_cached_stat(row) for row in session.driver.execute(sql, values)]


def find_rejects(session: SqliteSession, dataset: str) -> list[CachedStat]:
    """Files that are no documents; ``digest`` says why."""
    sql = f"SELECT {_LOOK} FROM files_look f WHERE f.dataset = ? AND f.kind = '{REJECT}'"
    return [_cached_stat(row) for row in session.driver.execute(sql, [dataset])]


def keep(session: SqliteSession, dataset: str, look: CachedStat) -> None:
    """Remember a look."""
    seen, side = look.seen, look.side
    session.driver.execute(
        "INSERT OR REPLACE INTO files_look VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            dataset,
            look.name,
            look.kind,
            look.path,
            look.digest,
            seen.mtime,
            seen.size,
            seen.inode,
            *((side.mtime, side.size, side.inode) if side else (None, None, None)),
            look.looked,
        ],
    )


def forget(session: SqliteSession, dataset: str, names: Iterable[tuple[str, str]]) -> None:
    """Forget looks, by (name, kind)."""
    session.driver.executemany(
        "DELETE FROM files_look WHERE dataset = ? AND name = ? AND kind = ?",
        [(dataset, name, kind) for name, kind in names],
    )


def drop_dataset(session: SqliteSession, dataset: str) -> None:
    """Forget every look at the dataset."""
    session.driver.execute("DELETE FROM files_look WHERE dataset = ?", [dataset])


def node(session: SqliteSession, folded: str) -> tuple[str, bool] | None:
    """How the path that folds to ``folded`` is spelt, and whether it is a folder."""
    row = session.driver.execute(
        "SELECT path, folder FROM files_node WHERE fold = ?", [folded]
    ).fetchone()
    return None if row is None else (row[0], bool(row[1]))


def keep_node(session: SqliteSession, folded: str, path: str, *, folder: bool) -> None:
    """Remember that ``path`` is taken; the first spelling stays."""
    session.driver.execute(
        "INSERT INTO files_node VALUES (?, ?, ?) ON CONFLICT (fold) DO UPDATE "
        "SET folder = excluded.folder WHERE path = excluded.path",
        [folded, path, int(folder)],
    )


def forget_node(session: SqliteSession, folded: str, path: str) -> None:
    """``path`` is free."""
    session.driver.execute("DELETE FROM files_node WHERE fold = ? AND path = ?", [folded, path])


def folder_of_dataset(session: SqliteSession, dataset: str) -> str | None:
    """The folder that the dataset was given."""
    row = session.driver.execute(
        "SELECT folder FROM files_dataset WHERE dataset = ?", [dataset]
    ).fetchone()
    return None if row is None else str(row[0])


def keep_folder(session: SqliteSession, dataset: str, folder: str) -> None:
    """Remember the dataset's folder."""
    session.driver.execute("INSERT OR REPLACE INTO files_dataset VALUES (?, ?)", [dataset, folder])


def datasets(session: SqliteSession) -> list[tuple[str, str, bool, bool]]:
    """Of each dataset id, folder, whether it is live, and whether it has documents."""
    rows = session.driver.execute(
        "SELECT f.dataset, f.folder, coalesce(d.live, 0), "
        "EXISTS (SELECT 1 FROM document x WHERE x.dataset_id = d.id) "
        "FROM files_dataset f LEFT JOIN dataset d ON d.name = f.dataset"
    )
    return [(row[0], row[1], bool(row[2]), bool(row[3])) for row in rows.fetchall()]


def _cached_stat(row: tuple[Any, ...]) -> CachedStat:
    name, kind, path, digest, *seen = row[:7]
    side = None if row[7] is None else FileStat(*row[7:10])
    return CachedStat(name, kind, path, digest, FileStat(*seen), side, row[10])


def _tracked_file(row: tuple[Any, ...]) -> TrackedFile:
    look = _cached_stat(row)
    parser_sig, system = read_system(row[16])
    return TrackedFile(
        look,
        Sidecar(
            name=look.name,
            path=look.path,
            sha256=row[12],
            version=row[11],
            updated_at=_EPOCH + timedelta(microseconds=row[14]),
            metadata=metadata_from_plain(json.loads(row[13])),
            original_sha256=row[15],
            parser_sig=parser_sig,
            system=system,
        ),
    )
