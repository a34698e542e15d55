"""The last seen state of each file, in tables of the derived database.

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
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    Table,
    Text,
    and_,
    bindparam,
    column,
    delete,
    exists,
    func,
    or_,
    select,
    table,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.schema import CreateTable

from triptych.records.metadata import metadata_from_plain
from triptych_backends.filesystem.disk import FileStat
from triptych_backends.filesystem.formats import Sidecar
from triptych_backends.sql import tables as t
from triptych_backends.sql.document_rows import read_system
from triptych_backends.sqlite.session import DIALECT, SqliteSession

RACY = 2_000_000_000
"""Nanoseconds, the coarsest clock of a file system (FAT). A file modified within this interval
before its metadata was read may have changed since ("racy", as in Git's index)."""

REJECT = "!"
"""The kind of the record of a file that is not a document; its name is its path."""

_STAT = ("mtime", "size", "inode")
_METADATA = MetaData()
_RECORDS = Table(
    "files_look",
    _METADATA,
    Column("dataset", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("path", Text, nullable=False),
    Column("digest", Text, nullable=False),
    *(Column(f"{side}{part}", Integer) for side in ("", "side_") for part in _STAT),
    Column("looked", Integer, nullable=False),
    sqlite_with_rowid=False,
)
"""Files: of documents (kind ""), of layers (L0, L1), and what is neither (!)."""
_NODES = Table(
    "files_node",
    _METADATA,
    Column("fold", Text, primary_key=True),
    Column("path", Text, nullable=False),
    Column("folder", Integer, nullable=False),
    sqlite_with_rowid=False,
)
"""Paths as a disk that ignores case sees them, with their spelling."""
_DATASETS = Table(
    "files_dataset",
    _METADATA,
    Column("dataset", Text, primary_key=True),
    Column("folder", Text, nullable=False, unique=True),
    sqlite_with_rowid=False,
)
_MASTER = table("sqlite_master", column("type"), column("name"))
_MADE = select(func.count()).where(
    _MASTER.c.type == "table", _MASTER.c.name.startswith("files_", autoescape=True)
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IN_DATASET = _RECORDS.c.dataset == bindparam("in_dataset")
_NAMED = _RECORDS.c.name == bindparam("called")
_LOOK = select(*[each for each in _RECORDS.c if each is not _RECORDS.c.dataset]).where(_IN_DATASET)
_DOCUMENTS = (
    _LOOK.add_columns(
        t.document.c.version,
        t.document.c.content_sha256,
        t.document.c.metadata,
        t.document.c.updated_at,
        t.document.c.original_sha256,
        t.document.c.system,
    )
    .join(t.dataset, t.dataset.c.name == _RECORDS.c.dataset)
    .join(
        t.document,
        and_(t.document.c.dataset_id == t.dataset.c.id, t.document.c.name == _RECORDS.c.name),
    )
    .where(_RECORDS.c.kind == "")
)
_DOCUMENT = _DOCUMENTS.where(_NAMED)
_LAYERS = _LOOK.where(or_(_RECORDS.c.kind == "L0", _RECORDS.c.kind == "L1"))
_LAYERS_OF = _LAYERS.where(_NAMED)
_REJECTS = _LOOK.where(_RECORDS.c.kind == REJECT)
_KEEP = insert(_RECORDS).prefix_with("OR REPLACE")
_FORGET_ALL = delete(_RECORDS).where(_IN_DATASET)
_FORGET = _FORGET_ALL.where(_NAMED, _RECORDS.c.kind == bindparam("of_kind"))
_AT = _NODES.c.fold == bindparam("folded")
_NODE = select(_NODES.c.path, _NODES.c.folder).where(_AT)
_FREE = delete(_NODES).where(_AT, _NODES.c.path == bindparam("spelling"))
_TAKE = insert(_NODES)
_TAKE = _TAKE.on_conflict_do_update(
    index_elements=["fold"],
    set_={"folder": _TAKE.excluded.folder},
    where=_NODES.c.path == _TAKE.excluded.path,
)
_FOLDER = select(_DATASETS.c.folder).where(_DATASETS.c.dataset == bindparam("in_dataset"))
_KEEP_FOLDER = insert(_DATASETS).prefix_with("OR REPLACE")
_ALL_DATASETS = select(
    _DATASETS.c.dataset,
    _DATASETS.c.folder,
    func.coalesce(t.dataset.c.live, 0),
    exists().where(t.document.c.dataset_id == t.dataset.c.id),
).join(t.dataset, t.dataset.c.name == _DATASETS.c.dataset, isouter=True)


@attrs.frozen
class FileRecord:
    """A file and, for a document, its sidecar, as they were ``looked`` at (ns since 1970).

    ``seen`` and ``side`` are None for what a change is about to write.
    """

    name: str
    kind: str
    path: str
    digest: str
    seen: FileStat | None
    side: FileStat | None
    looked: int

    def is_racy(self, seen: FileStat) -> bool:
        """Whether a change after the look might show the same ``seen``."""
        return seen.mtime >= self.looked - RACY


@attrs.frozen
class TrackedFile:
    """A document as it is mirrored."""

    record: FileRecord
    sidecar: Sidecar


def has_tables(session: SqliteSession) -> bool:
    """Whether `create_tables` was done."""
    return bool(session.all(_MADE)[0][0] == len(_METADATA.tables))


def create_tables(session: SqliteSession) -> None:
    """Make the tables of this module."""
    for made in _METADATA.sorted_tables:
        statement = CreateTable(made, if_not_exists=True).compile(dialect=DIALECT.engine)
        session.driver.execute(str(statement))


def find_document(session: SqliteSession, dataset: str, name: str) -> TrackedFile | None:
    """A document that is mirrored."""
    row = session.one(_DOCUMENT, in_dataset=dataset, called=name)
    return None if row is None else _tracked_file(row)


def find_documents(session: SqliteSession, dataset: str) -> list[TrackedFile]:
    """Every document of the dataset that is mirrored."""
    return [_tracked_file(row) for row in session.all(_DOCUMENTS, in_dataset=dataset)]


def find_layers(session: SqliteSession, dataset: str, name: str | None = None) -> list[FileRecord]:
    """The layers' files, of the dataset or of one name."""
    if name is None:
        rows = session.all(_LAYERS, in_dataset=dataset)
    else:
        rows = session.all(_LAYERS_OF, in_dataset=dataset, called=name)
    return [_file_record(row) for row in rows]


def find_rejects(session: SqliteSession, dataset: str) -> list[FileRecord]:
    """Files that are not documents; ``digest`` says why."""
    return [_file_record(row) for row in session.all(_REJECTS, in_dataset=dataset)]


def keep(session: SqliteSession, dataset: str, record: FileRecord) -> None:
    """Remember a file."""
    side = {f"side_{part}": getattr(record.side, part, None) for part in _STAT}
    session.run(
        _KEEP,
        dataset=dataset,
        name=record.name,
        kind=record.kind,
        path=record.path,
        digest=record.digest,
        looked=record.looked,
        **{part: getattr(record.seen, part) for part in _STAT},
        **side,
    )


def forget(session: SqliteSession, dataset: str, names: Iterable[tuple[str, str]]) -> None:
    """Forget files, by (name, kind)."""
    session.run_many(_FORGET, [(dataset, name, kind) for name, kind in names])


def drop_dataset(session: SqliteSession, dataset: str) -> None:
    """Forget every file of the dataset."""
    session.run(_FORGET_ALL, in_dataset=dataset)


def node(session: SqliteSession, folded: str) -> tuple[str, bool] | None:
    """How the path that folds to ``folded`` is spelt, and whether it is a folder."""
    row = session.one(_NODE, folded=folded)
    return None if row is None else (row[0], bool(row[1]))


def keep_node(session: SqliteSession, folded: str, path: str, *, folder: bool) -> None:
    """Remember that ``path`` is taken; the first spelling stays."""
    session.run(_TAKE, fold=folded, path=path, folder=int(folder))


def forget_node(session: SqliteSession, folded: str, path: str) -> None:
    """``path`` is free."""
    session.run(_FREE, folded=folded, spelling=path)


def folder_of_dataset(session: SqliteSession, dataset: str) -> str | None:
    """The folder that the dataset was given."""
    row = session.one(_FOLDER, in_dataset=dataset)
    return None if row is None else str(row[0])


def keep_folder(session: SqliteSession, dataset: str, folder: str) -> None:
    """Remember the dataset's folder."""
    session.run(_KEEP_FOLDER, dataset=dataset, folder=folder)


def datasets(session: SqliteSession) -> list[tuple[str, str, bool, bool]]:
    """Of each dataset id, folder, whether it is live, and whether it has documents."""
    rows = session.all(_ALL_DATASETS)
    return [(row[0], row[1], bool(row[2]), bool(row[3])) for row in rows]


def _file_record(row: tuple[Any, ...]) -> FileRecord:
    name, kind, path, digest, *seen = row[:7]
    side = None if row[7] is None else FileStat(*row[7:10])
    return FileRecord(name, kind, path, digest, FileStat(*seen), side, row[10])


def _tracked_file(row: tuple[Any, ...]) -> TrackedFile:
    record = _file_record(row)
    parser_sig, system = read_system(row[16])
    return TrackedFile(
        record,
        Sidecar(
            name=record.name,
            path=record.path,
            sha256=row[12],
            version=row[11],
            updated_at=_EPOCH + timedelta(microseconds=row[14]),
            metadata=metadata_from_plain(json.loads(row[13])),
            original_sha256=row[15],
            parser_sig=parser_sig,
            system=system,
        ),
    )
