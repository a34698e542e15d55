"""Sessions on one connection, and one write transaction: ticks, the change log, datasets."""

from __future__ import annotations

import secrets
import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from triptych.records import AnySpace, DatasetConfig, Layer
from triptych.records.spaces import sparse
from triptych_backends.index import Field
from triptych_backends.sql.deferred import (
    Statement,
    Upsert,
    bindparam,
    delete,
    func,
    in_list,
    insert,
    literal,
    select,
    tables as t,
    union_all,
    update,
)
from triptych_backends.sql.errors import corrupt


class Reader(ABC):
    """Runs statements that read; a list among the parameters is that of an `in_list`."""

    __slots__ = ()

    @abstractmethod
    def all(self, statement: Statement, **parameters: Any) -> list[tuple[Any, ...]]:
        """Every row, read at once: no snapshot stays open."""

    def one(self, statement: Statement, **parameters: Any) -> tuple[Any, ...] | None:
        """The first row, None when there is none."""
        rows = self.all(statement, **parameters)
        return rows[0] if rows else None


class Session(Reader):
    """Runs statements on one connection."""

    __slots__ = ()

    @abstractmethod
    def run(self, statement: Statement, **parameters: Any) -> int:
        """Run a writing statement; how many rows it touched."""

    @abstractmethod
    def run_many(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        """Run a writing statement for each of ``rows``, tuples in the statement's own order."""


KEPT_ROWS = 256
"""So many questions a connection remembers the answers of."""


def key_of(statement: Statement, parameters: Mapping[str, Any]) -> Hashable:
    """What the rows of a statement with these parameters, of plain types, are remembered by."""
    return statement, repr(parameters)


KEPT_DELETIONS = 100_000
"""So many deletions the log keeps, of all datasets together."""

_c = t.document_change.c
_DELETED = _c.version.is_not(None)
_COUNT = select(func.count()).where(_DELETED, _c.name.is_not(None))
_NTH = (
    select(_c.seq)
    .where(_DELETED, _c.name.is_not(None))
    .order_by(_c.seq)
    .limit(1)
    .offset(bindparam("nth"))
)
# One row of each dataset stays, without its name: who has not read so far begins again.
_LAST = select(func.max(_c.seq)).where(_DELETED, _c.seq <= bindparam("to")).group_by(_c.dataset_id)
_DROP = delete(t.document_change).where(
    _DELETED, _c.seq <= bindparam("to"), ~in_list(_c.seq, "last")
)
_UNNAME = update(t.document_change).where(in_list(_c.seq, "last")).values(name=None)


def prune_deletions(tx: Session, keep: int = KEPT_DELETIONS) -> None:
    """Forget the oldest deletions where there are more than ``keep``: a tenth more than needed."""
    found = tx.one(_COUNT)
    count = found[0] if found else 0
    if count > keep:
        oldest = tx.one(_NTH, nth=count - keep + keep // 10 - 1)
        assert oldest is not None
        forget_deletions(tx, oldest[0])


def forget_deletions(tx: Session, to: int = sys.maxsize) -> None:
    """Forget the deletions with numbers up to ``to``, and the names of what was deleted."""
    last = [row[0] for row in tx.all(_LAST, to=to)]
    tx.run(_DROP, to=to, last=last)
    tx.run(_UNNAME, last=last)


FIELD_OF_LAYER: dict[Layer, Field] = {Layer.ABSTRACT: "abstract", Layer.OVERVIEW: "overview"}
"""The index's field of each kind of layer that is stored."""

LAYER_OF_FIELD: dict[Field, Layer] = {field: layer for layer, field in FIELD_OF_LAYER.items()}

_ALL = ""
# Whoever reads it draws ticks, in the order of the commits: others wait until this one is.
_CLOCK = select(t.clock.c.tick).with_for_update()
_EPOCH = select(t.epoch.c.first, t.epoch.c.mark).order_by(t.epoch.c.first.desc()).limit(1)
_SET_CLOCK = update(t.clock).values(tick=bindparam("now"))
_ADD_EPOCH = insert(t.epoch).values(first=bindparam("since"), mark=bindparam("name"))
_KEPT_EPOCHS = 10_000
"""An index of an older epoch is built again."""
_FORGET_EVERY = 1_024
"""Epochs and deletions are counted, and old ones forgotten, once in so many ticks: it reads all
that are kept."""
_FORGET_EPOCHS = delete(t.epoch).where(
    t.epoch.c.first
    <= select(t.epoch.c.first)
    .order_by(t.epoch.c.first.desc())
    .offset(_KEPT_EPOCHS)
    .limit(1)
    .scalar_subquery()
)
_COLUMNS = (
    t.dataset.c.id,
    t.dataset.c.name,
    t.dataset.c.live,
    t.dataset.c.deleted_version,
    t.dataset.c.chunker_sig,
    t.dataset.c.embed_sig,
    t.dataset.c.language,
    t.dataset.c.sparse_sig,
)
_DATASET = select(*_COLUMNS).where(t.dataset.c.name == bindparam("name"))
_DATASETS = select(*_COLUMNS).where(in_list(t.dataset.c.name, "names"))
_DATASET_IDS = select(t.dataset.c.id)
_RENAME = update(t.clock).values(nonce=bindparam("fresh"))
_ADD_DATASET = insert(t.dataset).values(
    id=bindparam("id"), name=bindparam("name"), live=False, deleted_version=0
)
_SET_LIVE = update(t.dataset).where(t.dataset.c.id == bindparam("pk")).values(live=True)
_LOG = Upsert(t.change, ("dataset_id", "field", "owner"))
_LOG_DOCUMENT = Upsert(t.document_change, ("document_id",))
_VOID = delete(t.change).where(t.change.c.dataset_id == bindparam("pk"))
_OWNERS = union_all(
    select(literal("document").label("field"), t.document.c.id).where(
        t.document.c.dataset_id == bindparam("pk")
    ),
    select(literal("chunk"), t.derivation.c.document_id)
    .join(t.document, t.document.c.id == t.derivation.c.document_id)
    .where(t.document.c.dataset_id == bindparam("pk")),
    select(t.layer.c.layer, t.layer.c.id).where(t.layer.c.dataset_id == bindparam("pk")),
)


@attrs.frozen
class Dataset:
    """A row of `dataset`."""

    id: int
    name: str
    live: bool
    deleted_version: int
    chunker_sig: str | None
    embed_sig: str | None
    language: str | None
    sparse_sig: str | None

    @property
    def has_further(self) -> bool:
        """Whether it ever had a model whose vectors are not dense."""
        return self.sparse_sig is not None

    @property
    def further(self) -> AnySpace | None:
        """The space that serves and is not dense."""
        return sparse(self.sparse_sig) if self.sparse_sig else None

    @property
    def config(self) -> DatasetConfig | None:
        """The configuration, None before `configure`."""
        if self.chunker_sig is None:
            return None
        return DatasetConfig(
            chunker_sig=self.chunker_sig,
            embed_sig=self.embed_sig or "",
            language=self.language or "",
            sparse_sig=self.sparse_sig or "",
        )


def find_dataset(session: Reader, name: str) -> Dataset | None:
    """The dataset of this name, live or not."""
    row = session.one(_DATASET, name=name)
    return None if row is None else Dataset(row[0], row[1], bool(row[2]), *row[3:])


def find_datasets(session: Reader, names: Sequence[str]) -> list[Dataset]:
    """Those of ``names`` that exist, live or not."""
    rows = session.all(_DATASETS, names=list(names))
    return [Dataset(row[0], row[1], bool(row[2]), *row[3:]) for row in rows]


class Position(NamedTuple):
    """A place in the change log: the greatest tick, and the mark of the epoch that it is in."""

    tick: int
    mark: str


class Transaction(Session):
    """A session that writes; how it runs statements is its database's.

    Rows in `clock`, `change` and `document_change` are written at its end.

    ``position`` is where the connection's last transaction left the log, None before the first,
    and after the end where this one leaves it. Where the log is elsewhere, somebody else wrote
    to it or a copy was restored, and a new epoch begins.
    """

    def __init__(self, where: str, *, position: Position | None) -> None:
        self.where = where
        self.position = position
        self._tick = -1
        self._started = -1
        self._changes: dict[tuple[int, str, int], int] = {}
        self._documents: dict[int, tuple[int, int, int, str | None, int | None, int | None]] = {}

    def ticks(self, count: int) -> int:
        """The first of ``count`` numbers in a row that were never used before."""
        if self._tick < 0:
            row = self.one(_CLOCK)
            if row is None or not isinstance(row[0], int):
                raise corrupt(self.where, "the clock is missing")
            self._tick = self._started = row[0]
        first = self._tick + 1
        self._tick += count
        return first

    def log(self, dataset: int, field: str, owner: int) -> int:
        """Note that ``owner``'s units of ``field`` changed; the change's sequence number."""
        seq = self.ticks(1)
        self._changes[dataset, field, owner] = seq
        return seq

    def log_document(self, dataset: int, document: int, seq: int) -> None:
        """Note that a document was added or changed: ``seq`` is a tick for this."""
        self._documents[document] = (seq, document, dataset, None, None, None)

    def log_deletion(self, dataset: int, document: int, name: str, version: int) -> None:
        """Note that a document was deleted."""
        seq = self.ticks(1)
        self._documents[document] = (seq, document, dataset, name, version, None)

    def forget_deletions(self) -> None:
        """Leave no name of a deleted document in the log, of this transaction's neither."""
        self._write_documents()
        forget_deletions(self)

    def break_log(self, dataset: int) -> None:
        """Let all who follow the dataset's documents begin again: deletions up to now, a tick of
        its own, may not be in the log."""
        seq = self.ticks(1)
        self._documents[seq] = (seq, seq, dataset, None, 0, None)

    def _write_documents(self) -> None:
        self.run_many(_LOG_DOCUMENT, list(self._documents.values()))
        self._documents.clear()

    def revise(self) -> None:
        """Move the end of the log, as `log` does too: a search may find something else."""
        self.ticks(1)

    def reset_log(self, dataset: int) -> None:
        """Note that everything the dataset had is void, and name all that lives again.

        The log is cut to this dataset's owners of today. An index that starts from nothing and
        one that has seen every earlier change replay the same list.
        """
        self._changes = {key: seq for key, seq in self._changes.items() if key[0] != dataset}
        self.run(_VOID, pk=dataset)
        self.log(dataset, _ALL, 0)
        for field, owner in self.all(_OWNERS, pk=dataset):
            self.log(dataset, _FIELDS.get(field, field), owner)

    def renew(self) -> None:
        """Give the log another name, and void its entries: nobody may read them."""
        self.run(_RENAME, fresh=secrets.token_hex(16))
        for (dataset,) in self.all(_DATASET_IDS):
            self.reset_log(dataset)

    def dataset(self, name: str, *, live: bool = False) -> Dataset:
        """The dataset of this name, made if need be; ``live`` brings it into being."""
        found = find_dataset(self, name)
        if found is None:
            self.run(_ADD_DATASET, id=self.ticks(1), name=name)
            found = find_dataset(self, name)
            assert found is not None
        if live and not found.live:
            self.run(_SET_LIVE, pk=found.id)
            self.revise()
            found = attrs.evolve(found, live=True)
        return found

    def finish(self) -> None:
        """Write the change log, the clock and, where one begins, the epoch."""
        self.run_many(_LOG, [(seq, *key) for key, seq in self._changes.items()])
        self._write_documents()
        if self._tick == self._started:
            return
        self.run(_SET_CLOCK, now=self._tick)
        if self._tick // _FORGET_EVERY != self._started // _FORGET_EVERY:
            prune_deletions(self)
        newest = self.one(_EPOCH)
        mark = newest[1] if newest else ""
        if self.position != Position(self._started, mark):
            first, mark = self._started + 1, secrets.token_hex(8)
            self.run(_ADD_EPOCH, since=first, name=mark)
            if newest is None or newest[0] // _FORGET_EVERY != first // _FORGET_EVERY:
                self.run(_FORGET_EPOCHS)
        self.position = Position(self._tick, mark)


_FIELDS = {str(layer): field for layer, field in FIELD_OF_LAYER.items()}
