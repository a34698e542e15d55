"""The tables that searches read, brought up to date at the end of each write transaction.

What a transaction logged as changed (`Transaction.log`) says which owners to look at. A unit's key
never names another state of it, so that only units with new keys are analysed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from triptych.text import TEXT_WEIGHT, Analyzer, get_analyzer, headings_in, label_of
from triptych_backends.index import Field
from triptych_backends.sql import (
    DAMAGE,
    LAYER_OF_FIELD,
    corrupt,
    decode_further,
    headings_of,
    title_in,
)
from triptych_postgres.binary import halfvecs, integer_arrays, sparsevec, text_array
from triptych_postgres.postings import POSTING, Postings, add
from triptych_postgres.search_tables import (
    FIELD_CODES,
    empty_words,
    stored_heading,
    stored_term,
)
from triptych_postgres.session import PostgresSession

_KEPT_WORDS = 1 << 19


class Words:
    """The terms that an analyzer has met, and their numbers in this process."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._numbers: dict[str, int] = {}
        self._terms: list[str] = []
        self.numbering = analyzer.numbering(self._numbers)

    @property
    def is_full(self) -> bool:
        """Whether it is time to begin with none."""
        return len(self._numbers) >= _KEPT_WORDS

    def terms(self, numbers: NDArray[np.int64]) -> list[str]:
        """The terms with these numbers, as the search tables have them."""
        if len(self._terms) < len(self._numbers):
            self._terms = list(self._numbers)
        return [stored_term(self._terms[number]) for number in numbers.tolist()]


def count_terms(
    words: Words, texts: Sequence[str], labels: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Unit, term and count of each distinct term of each unit, in this order; and their lengths."""
    known, of_labels = map(words.numbering.encode_all, (texts, labels))
    found = words.numbering.in_language(texts, known, labels, of_labels)
    (numbers, sizes), (added, more) = found
    every = np.arange(len(sizes), dtype=np.int64)
    units = np.concatenate([np.repeat(every, sizes), np.repeat(every, more)])
    pairs, places = np.unique((units << 32) | np.concatenate([numbers, added]), return_inverse=True)
    whole = len(numbers)
    counts = TEXT_WEIGHT * np.bincount(places[:whole], minlength=len(pairs))
    counts += np.bincount(places[whole:], minlength=len(pairs))
    terms = (pairs & 0xFFFFFFFF).astype(np.int32)
    return pairs >> 32, terms, counts.astype(np.int32), TEXT_WEIGHT * sizes + more


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
        distinct = np.flatnonzero(np.bincount(terms))  # without sorting them
        if len(self._ids) <= distinct[-1]:
            self._ids = np.concatenate(
                [self._ids, np.zeros(int(distinct[-1]) + 1 - len(self._ids), np.int32)]
            )
        self._look_up(session, distinct)
        new = distinct[self._ids[distinct] == 0]
        if len(new):
            self._ids[new] = self._make(session, new)
        return self._ids[terms]

    def _look_up(self, session: PostgresSession, numbers: NDArray[np.int64]) -> None:
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

    def _make(self, session: PostgresSession, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        rows = session.text(
            "SELECT nextval(s.name) FROM (SELECT pg_get_serial_sequence('search_term', 'id')"
            "::regclass AS name) s, generate_series(1, %s)",
            (len(numbers),),
        )
        ids = np.array(rows, np.int32)[:, 0]
        session.copy(
            "COPY search_term (id, dataset_id, field, term) FROM STDIN (FORMAT BINARY)",
            ("int4", "int8", "int2", "text"),
            [
                (pk, self._dataset, self._code, text)
                for pk, text in zip(ids.tolist(), self.words.terms(numbers), strict=True)
            ],
        )
        return ids


_OWNERS_AT_ONCE = 512
_UNITS_AT_ONCE = 4_096
_KEPT_IDS = 16  # datasets and fields whose terms' ids are kept

_METADATA = "CASE WHEN d.metadata LIKE '%%\"title\"%%' THEN d.metadata ELSE '' END"
# Key, owner, position, text, headings; the document's name and metadata, of a layer NULL.
_NEW: dict[str, str] = {
    "chunk": "SELECT c.id AS key, c.document_id, c.position, c.content, c.heading_path, d.name, "
    f"{_METADATA} FROM chunk c JOIN document d ON d.id = c.document_id "
    "WHERE c.document_id = ANY(%(owners)s)",
    "document": "SELECT d.revision AS key, d.id, -1, d.content, NULL, d.name, "
    f"{_METADATA} FROM document d WHERE d.id = ANY(%(owners)s)",
    "layer": "SELECT revision AS key, id, -1, content, NULL, NULL, NULL FROM layer "
    "WHERE id = ANY(%(owners)s) AND layer = %(layer)s",
}
_VECTORS = {
    "chunk": "SELECT DISTINCT vector_id FROM chunk WHERE document_id = ANY(%(owners)s)",
    "layer": "SELECT DISTINCT vector_id FROM layer WHERE id = ANY(%(owners)s)",
}

_ALL = (
    "SELECT dataset_id, 'document', id FROM document UNION ALL "
    "SELECT d.dataset_id, 'chunk', g.document_id FROM derivation g "
    "JOIN document d ON d.id = g.document_id UNION ALL "
    f"SELECT dataset_id, CASE layer WHEN '{LAYER_OF_FIELD['abstract']}' THEN 'abstract' "
    "ELSE 'overview' END, id FROM layer"
)
"""The owners of all units."""


class Projection:
    """Keeps the search tables of one store, in one thread at a time; used under the lock of the
    writers of what it updates."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._words: dict[str, Words] = {}
        self._ids: dict[tuple[int, int], TermIds] = {}
        self._newest: dict[int, int] = {}
        self._tables = 0
        self._lock = threading.Lock()

    def committed(self, newest: Mapping[int, int]) -> None:
        """Keep what was learnt about datasets, each until another process changes it after its
        ``newest`` change."""
        self._newest.update(newest)

    def update(
        self, session: PostgresSession, changes: Iterable[tuple[int, str, int]], tables: int
    ) -> None:
        """Take over ``changes``: dataset, field and owner; field "" voids what the dataset had.

        ``tables`` tells the search tables from those that were dropped.
        """
        with self._lock:
            if self._tables != tables or len(self._ids) > _KEPT_IDS:
                self._ids.clear()
                self._tables = tables
            voided: set[int] = set()
            owners: dict[int, dict[Field, set[int]]] = {}
            for dataset, name, owner in changes:
                fields = owners.setdefault(dataset, {})
                if name:
                    fields.setdefault(cast(Field, name), set()).add(owner)
                else:
                    voided.add(dataset)
            for dataset, fields in owners.items():
                self._forget_changed(session, dataset)
                language = _language(session, dataset)
                changed = set(fields.get("document", ()))
                if dataset in voided:
                    self._wipe_if_foreign(session, dataset, language)
                    for field, code in FIELD_CODES.items():
                        rows = session.text(
                            "SELECT DISTINCT owner FROM search_unit "
                            "WHERE dataset_id = %(dataset)s AND field = %(field)s",
                            {"dataset": dataset, "field": code},
                        )
                        fields.setdefault(field, set()).update(row[0] for row in rows)
                for field, some in fields.items():
                    ordered = sorted(some)
                    for at in range(0, len(ordered), _OWNERS_AT_ONCE):
                        batch = ordered[at : at + _OWNERS_AT_ONCE]
                        self._update(session, dataset, language, field, batch, changed)

    def _forget_changed(self, session: PostgresSession, dataset: int) -> None:
        ((newest,),) = session.text(
            "SELECT coalesce(max(seq), 0) FROM change WHERE dataset_id = %s", (dataset,)
        )
        # What this transaction makes is there once it is committed.
        if self._newest.pop(dataset, -1) != newest:
            for key in [key for key in self._ids if key[0] == dataset]:
                del self._ids[key]

    def fill(self, session: PostgresSession) -> None:
        """Take over all that is stored, into tables that lack it."""
        self.update(session, session.text(_ALL), -1)

    def _wipe_if_foreign(self, session: PostgresSession, dataset: int, language: str) -> None:
        """Remove all units that were analysed for another language."""
        self._ids.clear()
        rows = session.text(
            "SELECT 1 FROM search_stat WHERE dataset_id = %s AND language <> %s LIMIT 1",
            (dataset, language),
        )
        if rows:
            empty_words(session, dataset)

    def _update(
        self,
        session: PostgresSession,
        dataset: int,
        language: str,
        field: Field,
        owners: Sequence[int],
        changed: set[int],
    ) -> None:
        """Take over units of ``owners``. Those of a document in ``changed`` are made again: chunks
        hold the words of its title, which may be another one."""
        kind = field if field in _NEW else "layer"
        parameters: dict[str, Any] = {
            "dataset": dataset,
            "field": FIELD_CODES[field],
            "layer": str(LAYER_OF_FIELD.get(field, "")),
            "owners": list(owners),
            "changed": list(changed.intersection(owners)) if field == "chunk" else [],
        }
        gone = session.text(
            "SELECT u.key FROM search_unit u WHERE u.dataset_id = %(dataset)s AND "
            "u.field = %(field)s AND u.owner = ANY(%(owners)s) AND (u.owner = ANY(%(changed)s) OR "
            f"u.key NOT IN (SELECT key FROM ({_NEW[kind]}) n))",
            parameters,
        )
        if gone:
            self._ids.pop((dataset, FIELD_CODES[field]), None)
            _remove(session, dataset, FIELD_CODES[field], [row[0] for row in gone])
        rows = session.text(
            f"SELECT * FROM ({_NEW[kind]}) n WHERE key NOT IN (SELECT key FROM search_unit WHERE "
            "dataset_id = %(dataset)s AND field = %(field)s AND owner = ANY(%(owners)s))",
            parameters,
        )
        for at in range(0, len(rows), _UNITS_AT_ONCE):
            self._add(session, dataset, language, field, rows[at : at + _UNITS_AT_ONCE])
        if kind in _VECTORS:
            _add_vectors(session, _VECTORS[kind], parameters)
        if kind == "chunk":
            _add_sparse(session, parameters, self._where)

    def _add(
        self,
        session: PostgresSession,
        dataset: int,
        language: str,
        field: Field,
        rows: Sequence[tuple[Any, ...]],
    ) -> None:
        code = FIELD_CODES[field]
        words = self._words.get(language)
        if words is None or words.is_full:
            words = self._words[language] = Words(get_analyzer(language))
        try:
            texts = [row[3].decode() for row in rows]
            paths = [headings_of(row[4]) for row in rows]
            labels = [
                "" if name is None else label_of(name, title_in(metadata), path)
                for path, (*_, name, metadata) in zip(paths, rows, strict=True)
            ]
        except DAMAGE as error:
            raise corrupt(self._where, f"the text of a {field}: {error}") from error
        units, terms, counts, sizes = count_terms(words, texts, labels)
        known = self._ids.get((dataset, code))
        if known is None or known.words is not words:
            known = self._ids[dataset, code] = TermIds(dataset, code, words)
        ids = known.find(session, terms)
        bounds = np.searchsorted(units, np.arange(len(rows) + 1))
        session.copy(
            "COPY search_unit (key, dataset_id, field, owner, position, length, terms, counts, "
            "headings) FROM STDIN (FORMAT BINARY)",
            ("int8", "int8", "int2", "int8", "int4", "int4", "bytea", "bytea", "bytea"),
            [
                (row[0], dataset, code, row[1], row[2], length, held, times, _titles(path))
                for row, length, path, held, times in zip(
                    rows,
                    sizes.tolist(),
                    paths,
                    integer_arrays(ids, bounds),
                    integer_arrays(counts, bounds),
                    strict=True,
                )
            ],
        )
        records = np.empty(len(ids), POSTING)
        records["key"] = np.array([row[0] for row in rows], np.int64)[units]
        records["count"], records["length"] = counts, sizes[units]
        add(session, dataset, code, Postings(ids, records))
        session.text(
            "INSERT INTO search_stat AS s VALUES (%s, %s, %s, %s, %s) ON CONFLICT (dataset_id, "
            "field) DO UPDATE SET units = s.units + excluded.units, "
            "length = s.length + excluded.length",
            (dataset, code, language, len(rows), int(sizes.sum())),
        )


def _titles(path: Sequence[str]) -> bytes:
    titles = map(stored_heading, headings_in(path))
    return text_array(tuple(sorted(titles)))


def _remove(session: PostgresSession, dataset: int, code: int, keys: Sequence[int]) -> None:
    ((units,),) = session.text(
        "SELECT coalesce(sum(units), 0) FROM search_stat WHERE dataset_id = %s AND field = %s",
        (dataset, code),
    )
    if units <= len(keys):
        empty_words(session, dataset, code)
        return
    rows = session.text(
        "DELETE FROM search_unit WHERE key = ANY(%s) RETURNING key, length, terms, counts",
        (list(keys),),
    )
    sizes = [len(row[2]) for row in rows]
    records = np.empty(sum(sizes), POSTING)
    records["key"] = np.repeat(np.array([row[0] for row in rows], np.int64), sizes)
    records["length"] = np.repeat(np.array([row[1] for row in rows], np.int32), sizes)
    records["count"] = -np.array([count for row in rows for count in row[3]], np.int32)
    terms = np.array([term for row in rows for term in row[2]], np.int32)
    add(session, dataset, code, Postings(terms, records))
    session.text(
        "UPDATE search_stat SET units = units - %s, length = length - %s "
        "WHERE dataset_id = %s AND field = %s",
        (len(rows), sum(row[1] for row in rows), dataset, code),
    )


def _add_vectors(session: PostgresSession, ids: str, parameters: dict[str, Any]) -> None:
    rows = session.text(
        f"SELECT v.id, v.space_id, v.data FROM vector v WHERE v.id IN ({ids}) "
        "AND NOT EXISTS (SELECT FROM search_vector s WHERE s.id = v.id)",
        parameters,
    )
    if rows:
        session.copy(
            "COPY search_vector (id, space_id, embedding) FROM STDIN (FORMAT BINARY)",
            ("int8", "int8", "bytea"),
            [
                (pk, space, half)
                for (pk, space, _), half in zip(
                    rows, halfvecs([data for _, _, data in rows]), strict=True
                )
            ],
        )


def _add_sparse(session: PostgresSession, parameters: dict[str, Any], where: str) -> None:
    rows = session.text(
        "SELECT DISTINCT v.id, v.space_id, v.data FROM space p JOIN vector_use u ON "
        "u.space_id = p.id JOIN vector v ON v.id = u.vector_id WHERE u.owner = ANY(%(owners)s) "
        "AND p.dataset_id = %(dataset)s AND p.kind = 'sparse' "
        "AND NOT EXISTS (SELECT FROM search_sparse s WHERE s.id = v.id)",
        parameters,
    )
    if rows:
        session.copy(
            "COPY search_sparse (id, space_id, weights) FROM STDIN (FORMAT BINARY)",
            ("int8", "int8", "bytea"),
            [
                (pk, space, sparsevec(decode_further("sparse", data, where)))
                for pk, space, data in rows
            ],
        )


def _language(session: PostgresSession, dataset: int) -> str:
    """What the dataset's texts are analysed for; without a configuration English."""
    rows = session.text("SELECT language FROM dataset WHERE id = %s", (dataset,))
    return str(rows[0][0] or "english") if rows else "english"
