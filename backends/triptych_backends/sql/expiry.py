"""The documents that have expired, kept between searches while nothing is written."""

from __future__ import annotations

import attrs

from triptych.records import Condition
from triptych.records.filters import EXPIRES_AT
from triptych_backends.index import LogPosition
from triptych_backends.sql.change_log import read_head
from triptych_backends.sql.conditions import DocumentConditions, Ids
from triptych_backends.sql.deferred import bindparam, func, select, tables as t
from triptych_backends.sql.entries import entry_of, kind_prefix, next_prefix
from triptych_backends.sql.session import Session

_m = t.document_meta.c
_NEXT = select(func.min(_m.pair)).where(
    _m.dataset_id == bindparam("dataset"), _m.pair > bindparam("low"), _m.pair < bindparam("high")
)


@attrs.frozen
class _Expired:
    """The documents that have expired at every moment from ``first`` on and before ``last``."""

    position: LogPosition
    first: bytes
    last: bytes
    ids: Ids


class ExpiryCache:
    """For each dataset the last answer: it holds until a write, or the next document expires."""

    def __init__(self) -> None:
        self._kept: dict[int, _Expired] = {}

    def ids(self, conditions: DocumentConditions, condition: Condition) -> Ids:
        """What ``conditions`` find for ``condition``, which is `expired_by` a moment."""
        session, dataset = conditions.session, conditions.dataset
        position = read_head(session)
        moment = entry_of(EXPIRES_AT, condition.values[0])
        kept = self._kept.get(dataset)
        if (
            kept is None
            or position is None
            or kept.position != position
            or not kept.first <= moment < kept.last
        ):
            ids = conditions.holding(condition)
            if position is None:
                return ids
            last = _next_moment(session, dataset, moment)
            kept = self._kept[dataset] = _Expired(position, moment, last, ids)
        return kept.ids


class CachedConditions(DocumentConditions):
    """`DocumentConditions` that ask ``cache`` for what has expired."""

    def __init__(self, session: Session, dataset: int, cache: ExpiryCache) -> None:
        super().__init__(session, dataset)
        self._cache = cache
        self._plain = DocumentConditions(session, dataset)

    def holding(self, condition: Condition) -> Ids:
        """See `DocumentConditions.holding`."""
        if (
            condition.field == EXPIRES_AT
            and condition.operator == "lte"
            and condition.values[0][0] == "time"
        ):
            return self._cache.ids(self._plain, condition)
        return super().holding(condition)


def _next_moment(session: Session, dataset: int, after: bytes) -> bytes:
    """The entry of the first moment after ``after`` at which a document expires."""
    end = next_prefix(kind_prefix(EXPIRES_AT, "time"))
    row = session.one(_NEXT, dataset=dataset, low=after, high=end)
    return end if row is None or row[0] is None else bytes(row[0])
