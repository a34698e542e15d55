"""What a store keeps beside documents, as an access shows it: settings and cached answers."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from triptych.access.view import AccessView
from triptych.contracts import AnswerCache, SettingsStore
from triptych.errors import AccessDeniedError, NotAvailableError
from triptych.records import Answerability, CachedAnswer, CachedQuestion, CacheStats, Hit
from triptych.search.answerability import calibrated_dataset
from triptych.search.question_log import LoggedQuestion, QuestionLog


class AccessSettings:
    """A `SettingsStore` with the calibrations of the caller's datasets, and no other setting.

    Under a filter there is no such store: a calibration is made from all documents.
    """

    def __init__(self, view: AccessView, settings: SettingsStore) -> None:
        self._view = view
        self._settings = settings

    def _shows(self, key: str) -> bool:
        dataset_id = calibrated_dataset(key)
        return dataset_id is not None and self._view.access.names(dataset_id)

    def get_setting(self, key: str) -> str | None:
        """See `SettingsStore.get_setting`."""
        return self._settings.get_setting(key) if self._shows(key) else None

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        """See `SettingsStore.set_setting`.

        Raises:
            AccessDeniedError: the access may only read, or the setting is the store's.
        """
        if not self._view.access.can_write or not self._shows(key):
            raise AccessDeniedError("this access cannot change the settings of the store")
        return self._settings.set_setting(key, value, expected=expected)

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        """See `SettingsStore.list_settings`."""
        found = self._settings.list_settings(prefix)
        return {key: value for key, value in found.items() if self._shows(key)}


class AccessQuestionLog(QuestionLog):
    """A `QuestionLog` that is written for whoever runs the store, and that no caller reads."""

    def __init__(self, log: QuestionLog, view: AccessView) -> None:
        super().__init__(None)
        self._log = log
        self._view = view

    def note(
        self,
        text: str,
        dataset_ids: Sequence[str],
        answerability: Answerability,
        hits: Sequence[Hit],
    ) -> str | None:
        """See `QuestionLog.note`. A failure is not shown: it may speak of others' questions."""
        failed = self._log.note(text, dataset_ids, answerability, hits)
        return "the question was not logged" if failed else None

    def questions(self, dataset_id: str | None = None) -> list[LoggedQuestion]:
        """Raise: what others asked is not shown.

        Raises:
            NotAvailableError: always.
        """
        raise NotAvailableError("the log of questions is for whoever runs the knowledge base")

    def erase(self, dataset_id: str | None = None, name: str | None = None) -> int:
        """See `QuestionLog.erase`; of a dataset that the caller may write. 0: others asked."""
        if dataset_id is None:
            raise AccessDeniedError("this access cannot erase the log of questions")
        self._view.check_write(dataset_id)
        self._log.erase(dataset_id, name)
        return 0


class AccessAnswers:
    """An `AnswerCache` whose numbers are those of this access in this process.

    Answers are kept under a digest that has the access in it: none is served to another.
    """

    def __init__(self, view: AccessView, answers: AnswerCache) -> None:
        self._view = view
        self._answers = answers
        self._lock = threading.Lock()
        self._requests: dict[str, None] = {}
        self._hits = self._misses = 0

    def revisions(self, dataset_ids: Collection[str]) -> Mapping[str, str]:
        """See `AnswerCache.revisions`."""
        return self._answers.revisions(self._view.named(list(dataset_ids)))

    def cached_questions(self, request: str) -> Sequence[CachedQuestion]:
        """See `AnswerCache.cached_questions`."""
        return self._answers.cached_questions(request)

    def cached_answer(self, key: int) -> CachedAnswer | None:
        """See `AnswerCache.cached_answer`."""
        return self._answers.cached_answer(key)

    def keep_answer(self, answer: CachedAnswer, *, most: int) -> bool:
        """See `AnswerCache.keep_answer`."""
        kept = self._answers.keep_answer(answer, most=most)
        if kept:
            with self._lock:
                self._requests.pop(answer.request, None)
                self._requests[answer.request] = None
                while len(self._requests) > most:
                    del self._requests[next(iter(self._requests))]
        return kept

    def drop_answers(self, *, before: datetime) -> int:
        """See `AnswerCache.drop_answers`. How many there were is not shown."""
        self._answers.drop_answers(before=before)
        return 0

    def count_lookups(self, *, hits: int, misses: int) -> None:
        """See `AnswerCache.count_lookups`."""
        with self._lock:
            self._hits += hits
            self._misses += misses
        self._answers.count_lookups(hits=hits, misses=misses)

    def cache_stats(self) -> CacheStats:
        """The answers that this access has kept since it was made, and its lookups."""
        with self._lock:
            requests, hits, misses = list(self._requests), self._hits, self._misses
        entries = sum(len(self._answers.cached_questions(each)) for each in requests)
        return CacheStats(entries=entries, hits=hits, misses=misses)
