"""The log of questions without an answer, in the store's settings. Off by default.

`QuestionLog` observes searches and answers (`ServiceOptions.observer`); `triptych.open` sets it if
the setting ``question_log`` is true. What people ask may be private: the log is kept in the store
and nowhere else, holds `MOST_QUESTIONS` at most, and goes with its dataset; `Service.purge` erases
it from the store's files too.

Beside it stands how often answers cite each document: names and numbers, without the questions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, TypeVar

import attrs

from triptych._internal.wording import FailureWarning
from triptych.contracts import SettingsStore
from triptych.errors import NotAvailableError, StoreError, ValidationError
from triptych.records import Answerability, Hit
from triptych.records.serialization import from_dict, to_dict
from triptych.telemetry import AnswerObserver

T = TypeVar("T")

MOST_QUESTIONS = 200
"""How many questions are kept: of more, those that were asked last."""

MOST_CITED = 500
"""How many documents' citations are counted: of more, those that were cited last."""

_LONGEST = 1_000  # code points of a question
_SHOWN = 3  # names of documents that were found
_TRIES = 5

_paused: ContextVar[bool] = ContextVar("triptych_unlogged", default=False)


@attrs.frozen(kw_only=True, slots=True)
class LoggedQuestion:
    """A question without an answer.

    Attributes:
        text: the question, its first 1,000 code points.
        dataset_ids: where it was asked.
        answerability: "nothing" or "weak".
        hits: how many hits there were.
        found: the names of the first documents among them.
        asked_at: when it was asked last.
        times: how often it was asked.
        first_at: when it was asked first; None in logs of earlier versions.
        found_in: the dataset of each of ``found``; empty in logs of earlier versions.
    """

    text: str
    dataset_ids: tuple[str, ...]
    answerability: Answerability
    hits: int
    found: tuple[str, ...]
    asked_at: datetime
    times: int = 1
    first_at: datetime | None = None
    found_in: tuple[str, ...] = ()

    @property
    def documents(self) -> list[tuple[str, str]]:
        """The dataset and the name of each document in ``found``; of an old log with each dataset
        where it was asked."""
        if self.found_in:
            return list(zip(self.found_in, self.found, strict=True))
        return [(dataset_id, name) for name in self.found for dataset_id in self.dataset_ids]

    def without(self, dataset_id: str, name: str) -> LoggedQuestion:
        """The question as if it had not found this document."""
        places = self.found_in or (dataset_id,) * len(self.found)
        left = [each for each in zip(places, self.found, strict=True) if each != (dataset_id, name)]
        found_in, found = zip(*left, strict=True) if left else ((), ())
        return attrs.evolve(self, found=found, found_in=found_in if self.found_in else ())


@attrs.frozen(kw_only=True, slots=True)
class CitedDocument:
    """A document, and how many answers cite it."""

    dataset_id: str
    name: str
    times: int


_SETTINGS: Final[Mapping[type, str]] = {LoggedQuestion: "questions", CitedDocument: "cited"}


@contextmanager
def unlogged() -> Iterator[None]:
    """Within it, this thread's searches are not logged: those of an evaluation."""
    token = _paused.set(True)
    try:
        yield
    finally:
        _paused.reset(token)


class QuestionLog(AnswerObserver):
    """Reads and writes the log of one store."""

    def __init__(self, settings: SettingsStore | None) -> None:
        self._settings = settings

    def note(
        self,
        text: str,
        dataset_ids: Sequence[str],
        answerability: Answerability | None,
        hits: Sequence[Hit],
    ) -> str | None:
        """Log a question that is not answered; why that could not be done, None where it was.

        A question that is there is counted, and is the newest again.
        """
        if _paused.get() or answerability not in ("nothing", "weak"):
            return None
        found = list(dict.fromkeys((hit.dataset_id, hit.doc_name) for hit in hits))[:_SHOWN]
        asked = LoggedQuestion(
            text=text[:_LONGEST],
            dataset_ids=tuple(dataset_ids),
            answerability=answerability,
            hits=len(hits),
            found=tuple(name for _, name in found),
            found_in=tuple(dataset for dataset, _ in found),
            asked_at=(now := datetime.now(UTC)),
            first_at=now,
        )

        def added(kept: list[LoggedQuestion]) -> list[LoggedQuestion]:
            same = [each for each in kept if _key(each) == _key(asked)]
            others = [each for each in kept if _key(each) != _key(asked)]
            times = 1 + sum(each.times for each in same)
            first = min((each.first_at or each.asked_at for each in same), default=now)
            return [*others, attrs.evolve(asked, times=times, first_at=first)][-MOST_QUESTIONS:]

        try:
            self._change(LoggedQuestion, added)
        except Exception as error:  # noqa: BLE001 - a log that fails must not fail a search
            return FailureWarning("the question was not logged", error)
        return None

    def note_cited(self, documents: Iterable[tuple[str, str]]) -> str | None:
        """Count that an answer cites documents, by dataset and name; why that could not be done,
        None where it was. Never raises."""
        cited = dict.fromkeys(documents)
        if _paused.get() or not cited:
            return None

        def added(kept: list[CitedDocument]) -> list[CitedDocument]:
            times = {(each.dataset_id, each.name): each.times for each in kept}
            for each in cited:
                times[each] = times.pop(each, 0) + 1  # the last
            return [
                CitedDocument(dataset_id=dataset_id, name=name, times=count)
                for (dataset_id, name), count in times.items()
            ][-MOST_CITED:]

        try:
            self._change(CitedDocument, added)
        except Exception as error:  # noqa: BLE001 - a count that fails must not fail an answer
            return FailureWarning("the citations were not counted", error)
        return None

    def cited(self) -> list[CitedDocument]:
        """The documents that answers cite, those that were cited last first.

        Raises:
            NotAvailableError, ValidationError: as `questions`.
        """
        return _parsed(CitedDocument, self._store().get_setting(_SETTINGS[CitedDocument]))[::-1]

    def questions(self, dataset_id: str | None = None) -> list[LoggedQuestion]:
        """The questions that were asked of a dataset, or of any, the newest first.

        Raises:
            NotAvailableError: the store keeps no settings.
            ValidationError: what is kept is not a log.
        """
        kept = _parsed(LoggedQuestion, self._store().get_setting(_SETTINGS[LoggedQuestion]))
        return [
            each for each in reversed(kept) if dataset_id is None or dataset_id in each.dataset_ids
        ]

    def count(self, dataset_id: str) -> int:
        """How many questions `questions` would return; 0 where it would raise."""
        with suppress(NotAvailableError, ValidationError):
            return len(self.questions(dataset_id))
        return 0

    def erase(self, dataset_id: str | None = None, name: str | None = None) -> int:
        """Forget the questions and citations of a dataset, or all; with ``name``, only that it was
        found or cited.

        How many questions named it.
        """
        if self._settings is None:
            return 0
        named = 0

        def left(kept: list[LoggedQuestion]) -> list[LoggedQuestion]:
            nonlocal named
            if dataset_id is None:
                return []
            if name is None:
                return [each for each in kept if dataset_id not in each.dataset_ids]
            named = sum((dataset_id, name) in each.documents for each in kept)
            return [
                each.without(dataset_id, name) if dataset_id in each.dataset_ids else each
                for each in kept
            ]

        def still(kept: list[CitedDocument]) -> list[CitedDocument]:
            return [
                each
                for each in kept
                if dataset_id not in (None, each.dataset_id) or name not in (None, each.name)
            ]

        self._change(LoggedQuestion, left, damaged_is_empty=True)
        self._change(CitedDocument, still, damaged_is_empty=True)
        return named

    def _store(self) -> SettingsStore:
        if self._settings is None:
            raise NotAvailableError(
                "the store keeps no settings, and cannot keep a log of questions"
            )
        return self._settings

    def _change(
        self,
        kind: type[T],
        changed: Callable[[list[T]], list[T]],
        *,
        damaged_is_empty: bool = False,
    ) -> None:
        key = _SETTINGS[kind]
        settings = self._store()
        for _ in range(_TRIES):
            before = settings.get_setting(key)
            try:
                kept = _parsed(kind, before)
            except ValidationError:
                if not damaged_is_empty:
                    raise
                kept = []
            after = changed(kept)
            text = json.dumps([to_dict(each) for each in after], ensure_ascii=False)
            wanted = text if after else None
            if wanted == before or settings.set_setting(key, wanted, expected=before):
                return
        raise StoreError("others wrote the log at the same time: try again")


def _key(question: LoggedQuestion) -> tuple[str, tuple[str, ...]]:
    return " ".join(question.text.casefold().split()), question.dataset_ids


def _parsed(kind: type[T], text: str | None) -> list[T]:
    try:
        return [from_dict(kind, each) for each in json.loads(text or "[]")]
    except (ValueError, TypeError, ValidationError) as error:
        raise ValidationError(f"the log of questions cannot be read: {error}") from error
