"""Collections for evaluations: questions and their relevant documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import attrs

from triptych import Progress, ProgressCallback, deadlines
from triptych.errors import NotFoundError, ValidationError
from triptych.resources import read_regular

if TYPE_CHECKING:
    from triptych.records import NewDocument

_T = TypeVar("_T")
_MOST = 1000  # 2 to this power is the gain of a grade, and still far from a float's end


def whole_grade(written: str) -> int:
    """Parse a grade in decimal digits.

    Raises:
        ValueError: it is not a whole number, or none from -1,000 to 1,000; the message says which.
    """
    try:
        grade = int(written)
    except ValueError:
        raise ValueError(f"the grade {written!r:.60} is not a whole number") from None
    if abs(grade) > _MOST:
        raise ValueError(
            f"the grade {written!r:.60} is beyond {_MOST:,}: grades are small, such as 0 to 3"
        )
    return grade


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Read a file.

    Raises:
        NotFoundError: it does not exist, is not a regular file, or cannot be read.
    """
    try:
        return read_regular(path)
    except OSError as error:
        raise NotFoundError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def one_by_one(
    items: Sequence[_T], doing: str, phase: str, progress: ProgressCallback | None
) -> Iterator[_T]:
    """``items``: the deadline is checked before each, and ``progress`` is called after it."""
    for number, item in enumerate(items, start=1):
        deadlines.check(doing)
        yield item
        if progress is not None:
            progress(Progress(phase=phase, done=number, total=len(items)))


class MalformedFileError(ValidationError):
    """A file of a collection, a run or an evaluation is malformed.

    ``file`` is its name, ``line`` the line from 1 (0: the whole file).
    """

    def __init__(self, message: str, *, file: str, line: int = 0) -> None:
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}")
        self.file = file
        self.line = line


@attrs.frozen(kw_only=True, slots=True)
class JudgedPassage:
    """A passage that answers a question: the exact ``text`` in ``document``.

    Runs of white space match each other. ``grade`` is its relevance.
    """

    document: str
    text: str
    grade: int = 1


@attrs.frozen(kw_only=True, slots=True)
class JudgedQuery:
    """A question with its judgements.

    Attributes:
        query_id: the id of the question in its collection.
        text: the text of the query.
        grades: relevance by document: 0 is irrelevant, higher grades are more relevant.
        passages: the passages that answer it, if known.
        answer: a correct answer, for metrics that need a reference; "" without.
        excluded: documents to remove from its ranking, such as the one it was derived from.
        keywords: words and phrases in texts that answer it.
        unanswerable: whether no document answers it.
        reviewed: whether a person has reviewed it; proposals of a model are not reviewed.
    """

    query_id: str
    text: str
    grades: Mapping[str, int] = attrs.field(factory=dict)
    passages: tuple[JudgedPassage, ...] = ()
    answer: str = ""
    excluded: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    unanswerable: bool = False
    reviewed: bool = True

    def __attrs_post_init__(self) -> None:
        if self.unanswerable and any(grade > 0 for grade in self.grades.values()):
            raise ValidationError(
                f"the query {self.query_id!r} is marked as unanswerable, but has relevant documents"
            )


@attrs.frozen(kw_only=True, slots=True)
class Collection:
    """Judged questions and the documents to search.

    Attributes:
        name: the name in reports.
        queries: the questions, with unique ids.
        by_suffix: whether judgements name documents by the end of their path, ``start.md`` for
            ``guide/start.md``, instead of exactly.
        documents: returns the documents at each call; None if they are in the store already.
    """

    name: str
    queries: tuple[JudgedQuery, ...]
    by_suffix: bool = False
    documents: Callable[[], Iterator[NewDocument]] | None = attrs.field(default=None, eq=False)

    def __attrs_post_init__(self) -> None:
        seen: set[str] = set()
        for query in self.queries:
            if query.query_id in seen:
                raise ValidationError(f"the query id {query.query_id!r} occurs twice")
            seen.add(query.query_id)
