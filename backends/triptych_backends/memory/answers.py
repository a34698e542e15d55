"""Answers of searches, kept in a dict: `AnswerCache` for the store to inherit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import attrs
import numpy as np

from triptych.records import CachedAnswer, CachedQuestion, CacheStats
from triptych_backends.memory.truth import Truth

__all__ = ["MemoryAnswers"]


class MemoryAnswers:
    """`AnswerCache` over the truth, which drops the answers of a dataset that is written."""

    _truth: Truth

    def revisions(self, dataset_ids: Collection[str]) -> Mapping[str, str]:
        with self._truth as truth:
            return _revisions(truth, dataset_ids)

    def cached_questions(self, request: str) -> Sequence[CachedQuestion]:
        with self._truth as truth:
            return [
                CachedQuestion(key=key, vector=answer.vector)
                for key, answer in reversed(truth.answers.items())
                if answer.request == request
            ]

    def cached_answer(self, key: int) -> CachedAnswer | None:
        with self._truth as truth:
            return truth.answers.get(key)

    def keep_answer(self, answer: CachedAnswer, *, most: int) -> bool:
        with self._truth as truth:
            if _revisions(truth, answer.revisions) != dict(answer.revisions):
                return False
            vector = np.array(answer.vector, dtype=np.float32)
            vector.flags.writeable = False
            kept = attrs.evolve(answer, vector=vector, revisions=dict(answer.revisions))
            truth.keep_answer(kept, most)
            return True

    def drop_answers(self, *, before: datetime) -> int:
        with self._truth as truth:
            dropped = [key for key, answer in truth.answers.items() if answer.created_at < before]
            for key in dropped:
                del truth.answers[key]
            return len(dropped)

    def count_lookups(self, *, hits: int, misses: int) -> None:
        with self._truth as truth:
            truth.hits += hits
            truth.misses += misses

    def cache_stats(self) -> CacheStats:
        with self._truth as truth:
            return CacheStats(entries=len(truth.answers), hits=truth.hits, misses=truth.misses)


def _revisions(truth: Truth, dataset_ids: Collection[str]) -> dict[str, str]:
    return {name: str(truth.revisions[name]) for name in dataset_ids if name in truth.revisions}
