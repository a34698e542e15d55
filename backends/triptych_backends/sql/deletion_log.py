"""How many deletions the log of documents keeps."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from triptych_backends.sql.deferred import (
    bindparam,
    delete,
    func,
    in_list,
    select,
    tables as t,
    update,
)

if TYPE_CHECKING:
    from triptych_backends.sql.transaction import Session

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
