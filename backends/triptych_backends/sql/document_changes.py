"""The changes of documents that a store reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from triptych_backends.sql.change_log import EPOCH_AT, read_head
from triptych_backends.sql.database import HasDatabase
from triptych_backends.sql.deferred import (
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
    tables as t,
)
from triptych_backends.sql.errors import corrupt
from triptych_backends.sql.transaction import Session

if TYPE_CHECKING:
    from triptych.contracts.change_pages import ChangeRow, LogHead
    from triptych.records import ChangeCursor, ChangePage

_EVERY_DATASET, _NO_DATASET = -1, 0
_c = t.document_change.c
_other = t.document_change.alias("other")
_later = t.document_change.alias("later")
_kept = t.document_change.alias("kept")
_again = t.document.alias("again")
_added = t.document_change.alias("added")
_NAME = func.coalesce(_c.name, t.document.c.name)


def _added_at(log: Any) -> Any:
    return func.coalesce(log.c.added, log.c.document_id)


_WAS_THERE = or_(
    _added_at(t.document_change) <= bindparam("base"),
    exists().where(
        _other.c.version.is_not(None),
        _other.c.dataset_id == _c.dataset_id,
        _other.c.name == _NAME,
        _added_at(_other) <= bindparam("base"),
        _other.c.seq > bindparam("base"),
    ),
)
_IS_LAST = and_(
    ~exists().where(
        _later.c.version.is_not(None),
        _later.c.dataset_id == _c.dataset_id,
        _later.c.name == _c.name,
        _later.c.seq > _c.seq,
        _later.c.seq <= bindparam("until"),
    ),
    ~exists().where(
        _kept.c.version.is_not(None),
        _kept.c.dataset_id == _c.dataset_id,
        _kept.c.name == _c.name,
        _added_at(_kept) <= bindparam("until"),
        _kept.c.seq > bindparam("until"),
    ),
    ~exists().where(
        _again.c.dataset_id == _c.dataset_id,
        _again.c.name == _c.name,
        _added.c.document_id == _again.c.id,
        _added_at(_added) <= bindparam("until"),
    ),
)
_PAGE = (
    select(
        _c.seq,
        t.dataset.c.name,
        _NAME,
        func.coalesce(_c.version, t.document.c.version),
        case((t.document.c.id.is_(None), "deleted"), (_WAS_THERE, "updated"), else_="added"),
    )
    .join(t.dataset, t.dataset.c.id == _c.dataset_id)
    .join(t.document, t.document.c.id == _c.document_id, isouter=True)
    .where(
        _c.seq > bindparam("after"),
        _c.seq <= bindparam("until"),
        or_(bindparam("which") == _EVERY_DATASET, _c.dataset_id == bindparam("which")),
        or_(t.document.c.id.is_not(None), and_(_c.name.is_not(None), _WAS_THERE, _IS_LAST)),
    )
    .order_by(_c.seq)
    .limit(bindparam("most"))
)
_FORGOTTEN = select(func.max(_c.seq)).where(
    _c.version.is_not(None),
    _c.name.is_(None),
    or_(bindparam("which") == _EVERY_DATASET, _c.dataset_id == bindparam("which")),
)
_DATASET = select(t.dataset.c.id).where(t.dataset.c.name == bindparam("dataset"))


@attrs.frozen
class _Log:
    """`ChangeLogReader` of a snapshot; ``dataset`` is an id, or `_EVERY_DATASET`."""

    session: Session
    dataset: int
    where: str

    def head(self) -> LogHead:
        position = read_head(self.session)
        if position is None:
            raise corrupt(self.where, "the clock is missing")
        from triptych.contracts.change_pages import LogHead

        return LogHead(position.seq, position.epoch)

    def mark(self, number: int) -> str:
        row = self.session.one(EPOCH_AT, seq=number)
        return "" if row is None else str(row[0])

    def forgotten(self) -> int:
        row = self.session.one(_FORGOTTEN, which=self.dataset)
        return row[0] or 0 if row else 0

    def rows(self, *, after: int, base: int, until: int, limit: int) -> Sequence[ChangeRow]:
        from triptych.contracts.change_pages import ChangeRow

        found = self.session.all(
            _PAGE, after=after, base=base, until=until, which=self.dataset, most=limit
        )
        return [ChangeRow(*row) for row in found]


class SqlChanges:
    """`ChangeReader` of a store over a `Database`, for the store to inherit."""

    def change_head(self: HasDatabase) -> str:
        """See `ChangeReader.change_head`. Any commit may change it."""
        return str(read_head(self.database.known))

    def read_changes(
        self: HasDatabase, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        from triptych.contracts.change_pages import read_page

        with self.database.snapshot() as session:
            dataset = _EVERY_DATASET
            if dataset_id is not None:
                row = session.one(_DATASET, dataset=dataset_id)
                dataset = row[0] if row else _NO_DATASET
            return read_page(_Log(session, dataset, self.database.where), since, limit)
