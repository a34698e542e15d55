"""The records of the store's files, in tables of the derived database.

They are written in the transactions that mirror the files, so that the two always agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
from sqlalchemy import (
    Column,
    Index,
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
from sqlalchemy.schema import CreateIndex, CreateTable

from triptych.records.metadata import metadata_from_plain
from triptych.scan import FileRecord, FileStat
from triptych_backends.filesystem.formats import Sidecar
from triptych_backends.filesystem.layout import fold
from triptych_backends.sql import schema as t
from triptych_backends.sql.document_rows import read_system
from triptych_backends.sqlite.database import SqliteDatabase
from triptych_backends.sqlite.session import DIALECT, SqliteSession

CONTENT, SIDECAR, REJECT = "", "sidecar", "!"
"""The kinds of a document's two files, and of a file that is none: its name is its path."""

LAYER_KINDS = ("L0", "L1")

_STAT = ("size", "mtime_ns", "ctime_ns", "inode")
_METADATA = MetaData()
_FILES = Table(
    "files_record",
    _METADATA,
    Column("dataset", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("path", Text, nullable=False),
    Column("fold", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    *(Column(part, Integer) for part in _STAT),
    sqlite_with_rowid=False,
)
Index("files_record_fold", _FILES.c.fold)
_DATASETS = Table(
    "files_dataset",
    _METADATA,
    Column("dataset", Text, primary_key=True),
    Column("folder", Text, nullable=False, unique=True),
    sqlite_with_rowid=False,
)
_MASTER = table("sqlite_master", column("type"), column("name"))
_MADE = select(_MASTER.c.name).where(_MASTER.c.type == "table")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IN_DATASET = _FILES.c.dataset == bindparam("in_dataset")
_NAMED = _FILES.c.name == bindparam("called")
# Of a document that the mirror has lost, nothing is known.
_MIRRORED = exists().where(
    t.dataset.c.name == _FILES.c.dataset,
    t.document.c.dataset_id == t.dataset.c.id,
    t.document.c.name == _FILES.c.name,
)
_FIND = select(*[each for each in _FILES.c if each.name not in ("dataset", "fold")]).where(
    _IN_DATASET, or_(and_(_FILES.c.kind != CONTENT, _FILES.c.kind != SIDECAR), _MIRRORED)
)
_FIND_NAMED = _FIND.where(_NAMED)
_DOCUMENTS = (
    select(
        _FILES.c.name,
        _FILES.c.path,
        t.document.c.content_sha256,
        t.document.c.version,
        t.document.c.updated_at,
        t.document.c.metadata,
        t.document.c.original_sha256,
        t.document.c.system,
    )
    .join(t.dataset, t.dataset.c.name == _FILES.c.dataset)
    .join(
        t.document,
        and_(t.document.c.dataset_id == t.dataset.c.id, t.document.c.name == _FILES.c.name),
    )
    .where(_IN_DATASET, _FILES.c.kind == CONTENT)
)
_DOCUMENT = _DOCUMENTS.where(_NAMED)
_KEEP = insert(_FILES).prefix_with("OR REPLACE")
_FORGET_ALL = delete(_FILES).where(_IN_DATASET)
_FORGET = _FORGET_ALL.where(_NAMED, _FILES.c.kind == bindparam("of_kind"))
_SPELT = (
    select(_FILES.c.path)
    .where(
        _FILES.c.kind != REJECT,
        or_(
            _FILES.c.fold == bindparam("folded"),
            and_(_FILES.c.fold > bindparam("below"), _FILES.c.fold < bindparam("behind")),
        ),
    )
    .limit(1)
)
_FOLDER = select(_DATASETS.c.folder).where(_DATASETS.c.dataset == bindparam("in_dataset"))
_KEEP_FOLDER = insert(_DATASETS).prefix_with("OR REPLACE")
_ALL_DATASETS = select(
    _DATASETS.c.dataset,
    _DATASETS.c.folder,
    func.coalesce(t.dataset.c.live, 0),
    exists().where(t.document.c.dataset_id == t.dataset.c.id),
).join(t.dataset, t.dataset.c.name == _DATASETS.c.dataset, isouter=True)


@attrs.frozen(kw_only=True, slots=True)
class TrackedFile(FileRecord):
    """A file at ``path`` (from the root), and the document or layer of a ``name`` that it is of."""

    path: str
    name: str
    kind: str

    @property
    def is_layer(self) -> bool:
        """Whether it is a layer's."""
        return self.kind in LAYER_KINDS


def has_tables(session: SqliteSession) -> bool:
    """Whether `create_tables` was done."""
    return {row[0] for row in session.all(_MADE)} >= _METADATA.tables.keys()


def create_tables(session: SqliteSession) -> None:
    """Make the tables of this module."""
    for made in _METADATA.sorted_tables:
        statements = [CreateTable(made, if_not_exists=True).compile(dialect=DIALECT.engine)]
        for index in made.indexes:
            create = CreateIndex(index, if_not_exists=True)
            statements.append(create.compile(dialect=DIALECT.engine))
        for statement in statements:
            session.driver.execute(str(statement))


class StatCache:
    """What the derived database has of the store's files."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def document(self, dataset: str, name: str) -> Sidecar | None:
        """What the mirror has of a document."""
        with self._database.reading() as session:
            row = session.one(_DOCUMENT, in_dataset=dataset, called=name)
        return None if row is None else _sidecar(row)

    def documents(self, dataset: str) -> dict[str, Sidecar]:
        """What the mirror has of every document of the dataset, by name."""
        with self._database.reading() as session:
            rows = session.all(_DOCUMENTS, in_dataset=dataset)
        return {row[0]: _sidecar(row) for row in rows}

    def files(self, dataset: str, name: str | None = None) -> list[TrackedFile]:
        """The files of the dataset, or of one name in it."""
        with self._database.reading() as session:
            if name is None:
                rows = session.all(_FIND, in_dataset=dataset)
            else:
                rows = session.all(_FIND_NAMED, in_dataset=dataset, called=name)
        return [
            TrackedFile(
                name=row[0],
                kind=row[1],
                path=row[2],
                sha256=row[3],
                stat=None if row[4] is None else FileStat(*row[4:8]),
            )
            for row in rows
        ]

    def layers(self, dataset: str, name: str | None = None) -> list[TrackedFile]:
        """The layers' files, of the dataset or of one name."""
        return [file for file in self.files(dataset, name) if file.is_layer]

    def spelling(self, path: str) -> tuple[str, bool] | None:
        """How a disk that ignores case finds ``path`` spelt, of a file or a folder that holds one,
        and whether it is a folder."""
        folded = fold(path)
        with self._database.reading() as session:
            row = session.one(_SPELT, folded=folded, below=f"{folded}/", behind=f"{folded}0")
        if row is None:
            return None
        parts = row[0].split("/")
        end = path.count("/") + 1
        return "/".join(parts[:end]), end < len(parts)

    def folder(self, dataset: str) -> str | None:
        """The folder that the dataset was given."""
        with self._database.reading() as session:
            row = session.one(_FOLDER, in_dataset=dataset)
        return None if row is None else str(row[0])

    def datasets(self) -> list[tuple[str, str, bool, bool]]:
        """Of each dataset id, folder, whether it is live, and whether it has documents."""
        with self._database.reading() as session:
            rows = session.all(_ALL_DATASETS)
        return [(row[0], row[1], bool(row[2]), bool(row[3])) for row in rows]


def keep(session: SqliteSession, dataset: str, files: Iterable[TrackedFile]) -> None:
    """Remember files."""
    rows = [
        (
            *(dataset, file.name, file.kind, file.path, fold(file.path), file.sha256),
            *(getattr(file.stat, part, None) for part in _STAT),
        )
        for file in files
    ]
    session.run_many(_KEEP, rows)


def forget(session: SqliteSession, dataset: str, names: Iterable[tuple[str, str]]) -> None:
    """Forget files, by (name, kind)."""
    session.run_many(_FORGET, [(dataset, name, kind) for name, kind in names])


def drop_dataset(session: SqliteSession, dataset: str) -> None:
    """Forget every file of the dataset."""
    session.run(_FORGET_ALL, in_dataset=dataset)


def keep_folder(session: SqliteSession, dataset: str, folder: str) -> None:
    """Remember the dataset's folder."""
    session.run(_KEEP_FOLDER, dataset=dataset, folder=folder)


def _sidecar(row: tuple[Any, ...]) -> Sidecar:
    parser_sig, system = read_system(row[7])
    return Sidecar(
        name=row[0],
        path=row[1].partition("/")[2],
        sha256=row[2],
        version=row[3],
        updated_at=_EPOCH + timedelta(microseconds=row[4]),
        metadata=metadata_from_plain(json.loads(row[5])),
        original_sha256=row[6],
        parser_sig=parser_sig,
        system=system,
    )
