"""Answers of searches: those of the derived database, which is where datasets are searched."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from triptych.records import CachedAnswer, CachedQuestion, CacheStats
from triptych_backends.sqlite import SqliteStore

__all__ = ["FilesAnswers"]


class FilesAnswers:
    """`AnswerCache` over the mirror."""

    mirror: SqliteStore

    def revisions(self, dataset_ids: Collection[str]) -> Mapping[str, str]:
        """See `AnswerCache.revisions`."""
        return self.mirror.revisions(dataset_ids)

    def cached_questions(self, request: str) -> Sequence[CachedQuestion]:
        """See `AnswerCache.cached_questions`."""
        return self.mirror.cached_questions(request)

    def cached_answer(self, key: int) -> CachedAnswer | None:
        """See `AnswerCache.cached_answer`."""
        return self.mirror.cached_answer(key)

    def keep_answer(self, answer: CachedAnswer, *, most: int) -> bool:
        """See `AnswerCache.keep_answer`."""
        return self.mirror.keep_answer(answer, most=most)

    def drop_answers(self, *, before: datetime) -> int:
        """See `AnswerCache.drop_answers`."""
        return self.mirror.drop_answers(before=before)

    def count_lookups(self, *, hits: int, misses: int) -> None:
        """See `AnswerCache.count_lookups`."""
        self.mirror.count_lookups(hits=hits, misses=misses)

    def cache_stats(self) -> CacheStats:
        """See `AnswerCache.cache_stats`."""
        return self.mirror.cache_stats()
