"""Answers of searches, kept in tables: `AnswerCache` for a store to inherit."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from triptych.records import CachedAnswer, CachedQuestion, CacheStats
from triptych_backends.sql.database import HasDatabase
from triptych_backends.sql.deferred import (
    Upsert,
    bindparam,
    delete,
    func,
    in_list,
    insert,
    select,
    tables as t,
)
from triptych_backends.sql.document_rows import EPOCH, MICROSECOND, micros_of
from triptych_backends.sql.errors import DAMAGE, corrupt
from triptych_backends.sql.transaction import Session
from triptych_backends.sql.vectors import decode_vector

_a = t.answer.c
_REVISIONS = select(t.dataset.c.name, t.dataset.c.revision, t.dataset.c.id).where(
    in_list(t.dataset.c.name, "names")
)
_QUESTIONS = (
    select(_a.id, _a.vector, _a.width)
    .where(_a.request == bindparam("wanted"))
    .order_by(_a.id.desc())
)
_ONE = select(_a.request, _a.vector, _a.width, _a.revisions, _a.created_at, _a.body).where(
    _a.id == bindparam("pk")
)
_KEEP = insert(t.answer)
_FIRST_BEYOND = select(_a.id).order_by(_a.id.desc()).offset(bindparam("most")).limit(1)
_OLDEST = delete(t.answer).where(_a.id <= _FIRST_BEYOND.scalar_subquery())
_DROP_OLD = delete(t.answer).where(_a.created_at < bindparam("moment"))
_COUNT = select(func.count()).select_from(t.answer)
_ADD_COUNT = Upsert(t.answer_count, ("kind",), add=True)
_COUNTS = select(t.answer_count.c.kind, t.answer_count.c.count)


class SqlAnswers:
    """`AnswerCache` of a store over a `Database`, for the store to inherit.

    Each write transaction gives the datasets that it changes another revision, and drops their
    answers (`Transaction.finish`). What is kept here is not durable by itself: a power cut takes it
    together with what was committed after it.
    """

    def revisions(self: HasDatabase, dataset_ids: Collection[str]) -> Mapping[str, str]:
        with self.database.cached() as session:
            return {name: found for name, (found, _) in _revisions(session, dataset_ids).items()}

    def cached_questions(self: HasDatabase, request: str) -> Sequence[CachedQuestion]:
        with self.database.reading() as session:
            rows = session.all(_QUESTIONS, wanted=request)
        return [
            CachedQuestion(key=key, vector=decode_vector(data, width, self.database.where))
            for key, data, width in rows
        ]

    def cached_answer(self: HasDatabase, key: int) -> CachedAnswer | None:
        with self.database.reading() as session:
            row = session.one(_ONE, pk=key)
        return None if row is None else _read(row, self.database.where)

    def keep_answer(self: HasDatabase, answer: CachedAnswer, *, most: int) -> bool:
        with self.database.writing(durable=False) as tx:
            known = _revisions(tx, answer.revisions)
            if {name: found for name, (found, _) in known.items()} != dict(answer.revisions):
                return False
            ids = [pk for _, pk in known.values()]
            data = np.ascontiguousarray(answer.vector, dtype="<f4")
            row = (
                tx.ticks(1),
                ids[0] if len(ids) == 1 else 0,
                answer.request,
                micros_of(answer.created_at),
                json.dumps(dict(answer.revisions), sort_keys=True),
                len(data),
                data.tobytes(),
                answer.body.encode(),
            )
            tx.run_many(_KEEP, [row])
            tx.run(_OLDEST, most=most)
            return True

    def drop_answers(self: HasDatabase, *, before: datetime) -> int:
        with self.database.writing() as tx:
            return tx.run(_DROP_OLD, moment=micros_of(before))

    def count_lookups(self: HasDatabase, *, hits: int, misses: int) -> None:
        with self.database.writing(durable=False) as tx:
            tx.run_many(_ADD_COUNT, [("hits", hits), ("misses", misses)])

    def cache_stats(self: HasDatabase) -> CacheStats:
        with self.database.snapshot() as session:
            ((entries,),) = session.all(_COUNT)
            counts = dict(session.all(_COUNTS))
        return CacheStats(
            entries=entries, hits=counts.get("hits", 0), misses=counts.get("misses", 0)
        )


def _revisions(session: Session, names: Collection[str]) -> dict[str, tuple[str, int]]:
    """The revision and the id of each dataset that exists."""
    rows = session.all(_REVISIONS, names=sorted(set(names)))
    return {name: (revision or "", pk) for name, revision, pk in rows}


def _read(row: Sequence[Any], where: str) -> CachedAnswer:
    request, data, width, revisions, created, body = row
    try:
        return CachedAnswer(
            request=request,
            vector=decode_vector(data, width, where),
            revisions=json.loads(revisions),
            created_at=EPOCH + created * MICROSECOND,
            body=body.decode(),
        )
    except DAMAGE as error:
        raise corrupt(where, f"an answer that was kept: {error}") from error
