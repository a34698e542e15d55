"""The terms of units, and the ids that the search tables have for them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from triptych_backends.index import TextAnalyzer
from triptych_backends.postgres.search_tables import stored_term
from triptych_backends.postgres.session import PostgresSession

_KEPT_WORDS = 1 << 19


class Words:
    """The terms that an analyzer has met, and their numbers in this process."""

    def __init__(self, analyzer: TextAnalyzer) -> None:
        self._numbers: dict[str, int] = {}
        self._terms: list[str] = []
        self.encode_all = analyzer.numbering(self._numbers).encode_all

    @property
    def is_full(self) -> bool:
        """Whether it is time to begin with none."""
        return len(self._numbers) >= _KEPT_WORDS

    def terms(self, numbers: NDArray[np.int32]) -> list[str]:
        """The terms with these numbers, as the search tables have them."""
        if len(self._terms) < len(self._numbers):
            self._terms = list(self._numbers)
        return [stored_term(self._terms[number]) for number in numbers.tolist()]


def count_terms(
    numbers: NDArray[np.int32], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Unit, term and count of each distinct term of each unit, in this order."""
    units = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    pairs, counts = np.unique((units << 32) | numbers, return_counts=True)
    return pairs >> 32, (pairs & 0xFFFFFFFF).astype(np.int32), counts.astype(np.int32)


class TermIds:
    """The ids of the terms of one dataset and kind of unit, as far as they are known."""

    def __init__(self, dataset: int, code: int, words: Words) -> None:
        self.words = words
        self._dataset = dataset
        self._code = code
        self._ids: NDArray[np.int32] = np.zeros(0, np.int32)  # by number; 0 is not known
        self._is_complete: bool | None = None

    def find(self, session: PostgresSession, terms: NDArray[np.int32]) -> NDArray[np.int32]:
        """The ids of ``terms``, one for each; new ones are made."""
        if not len(terms):
            return terms
        distinct = np.unique(terms)
        if len(self._ids) <= distinct[-1]:
            self._ids = np.concatenate(
                [self._ids, np.zeros(int(distinct[-1]) + 1 - len(self._ids), np.int32)]
            )
        self._look_up(session, distinct)
        new = distinct[self._ids[distinct] == 0]
        if len(new):
            self._ids[new] = self._make(session, new)
        return self._ids[terms]

    def _look_up(self, session: PostgresSession, numbers: NDArray[np.int32]) -> None:
        if self._is_complete is None:
            ((self._is_complete,),) = session.text(
                "SELECT NOT EXISTS (SELECT FROM search_term WHERE dataset_id = %s AND field = %s)",
                (self._dataset, self._code),
            )
        unknown = numbers[self._ids[numbers] == 0]
        if self._is_complete or not len(unknown):
            return  # all terms that are there were made here
        texts = dict(zip(self.words.terms(unknown), unknown.tolist(), strict=True))
        rows = session.text(
            "SELECT term, id FROM search_term WHERE dataset_id = %s AND field = %s "
            "AND term = ANY(%s)",
            (self._dataset, self._code, list(texts)),
        )
        for text, pk in rows:
            self._ids[texts[text]] = pk

    def _make(self, session: PostgresSession, numbers: NDArray[np.int32]) -> NDArray[np.int32]:
        # Writers take turns, so that these ids are free.
        ((last,),) = session.text(
            "SELECT setval(s.name, nextval(s.name) + %s) FROM (SELECT "
            "pg_get_serial_sequence('search_term', 'id')::regclass AS name) s",
            (len(numbers) - 1,),
        )
        ids = np.arange(last - len(numbers) + 1, last + 1, dtype=np.int32)
        session.copy(
            "COPY search_term (id, dataset_id, field, term) FROM STDIN (FORMAT BINARY)",
            ("int4", "int8", "int2", "text"),
            [
                (pk, self._dataset, self._code, text)
                for pk, text in zip(ids.tolist(), self.words.terms(numbers), strict=True)
            ],
        )
        return ids
