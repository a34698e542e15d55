"""What a driver gives: a table that is open for reading, its rows as documents, and words."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol, TypeVar

import attrs

from triptych.records import (
    Candidate,
    DerivedChunk,
    DerivedSig,
    DocumentInfo,
    FilterTree,
    Metadata,
    SourceDocument,
    Vector,
)
from triptych.signatures import document_info, embedding_input_sig
from triptych.text import Analyzer, decode, normalize, query_terms, split_words
from triptych_inplace.spec import TableSpec

_MOST: Final = 32
"""Words of a query that are looked for; the terms of all are scored."""


@attrs.frozen
class QueryWord:
    """A word of a query and the analyzer's terms of it.

    Languages without spaces are looked for as substrings: few text searches cut them.
    """

    text: str
    terms: tuple[str, ...]
    unspaced: bool = False


def query_words(analyzer: Analyzer, text: str) -> Sequence[QueryWord]:
    """The words of ``text`` that it searches by, each once."""
    wanted = set(analyzer.analyze_query(text))
    found: dict[str, QueryWord] = {}
    for run, token in split_words(normalize(decode(text))):
        if run:
            for term in query_terms(run):
                if term in wanted:
                    found.setdefault(term, QueryWord(term, (term,), unspaced=True))
            continue
        terms = tuple(term for term in analyzer.analyze(token) if term in wanted)
        if terms:
            found.setdefault(token.lower(), QueryWord(token, terms))
    return list(found.values())[:_MOST]


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When a row without a time of its own was updated."""

ROW_VERSION: Final = 1
"""The version of every row: no others are kept."""

_BETWEEN: Final = "\n\n"
"""What stands between two texts of a row in the text of its document."""


@attrs.frozen(kw_only=True)
class Row:
    """A document of a dataset: its name, its texts (None: there is none), its metadata."""

    dataset_id: str
    name: str
    texts: Sequence[str | None]
    metadata: Metadata
    updated_at: datetime

    @property
    def document(self) -> SourceDocument:
        """The row as a document of the dataset."""
        return SourceDocument(
            dataset_id=self.dataset_id,
            name=self.name,
            content=_BETWEEN.join(text for text in self.texts if text is not None),
            metadata=self.metadata,
            version=ROW_VERSION,
            updated_at=self.updated_at,
        )

    @property
    def info(self) -> DocumentInfo:
        """The same without its content."""
        return document_info(self.document)

    def chunks(self, sig: DerivedSig) -> Iterator[tuple[int, DerivedChunk]]:
        """The chunk of each text, with the text's number.

        ``sig`` is that of the set.
        """
        start = offset = position = 0
        line = 1
        for number, text in enumerate(self.texts):
            if text is None:
                continue
            yield (
                number,
                DerivedChunk(
                    dataset_id=self.dataset_id,
                    doc_name=self.name,
                    index=position,
                    start=start,
                    end=start + len(text),
                    offset=offset,
                    start_line=line,
                    content=text,
                    sig=attrs.evolve(sig, input_sig=embedding_input_sig(text)),
                ),
            )
            position += 1
            start += len(text) + len(_BETWEEN)
            offset += len(text.encode("utf-8")) + len(_BETWEEN)
            line += text.count("\n") + text.count("\r") - text.count("\r\n") + len(_BETWEEN)

    def sig(self, chunker_sig: str, embed_sig: str) -> DerivedSig:
        """The signature of the row's set: it is always fresh."""
        return DerivedSig(
            source_version=ROW_VERSION,
            chunker_sig=chunker_sig,
            embed_sig=embed_sig,
            input_sig=self.info.input_sig,
        )


def moment_of(microseconds: float) -> datetime:
    """The time so long after `EPOCH`; beyond what Python has, its first or its last."""
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return (datetime.max if microseconds > 0 else datetime.min).replace(tzinfo=UTC)


def best_of(found: Iterable[Candidate], limit: int) -> list[Candidate]:
    """The ``limit`` best, each key once with its best score; equal scores by name and index."""
    best: dict[Hashable, Candidate] = {}
    for each in found:
        known = best.get(each.key)
        if known is None or each.score > known.score:
            best[each.key] = each
    return heapq.nsmallest(
        limit,
        best.values(),
        key=lambda each: (-each.score, each.doc_name, each.index, each.dataset_id),
    )


T = TypeVar("T")


class Near(NamedTuple):
    """A row that was found by a vector: its key, its name, and the cosine."""

    key: Hashable
    name: str
    score: float


@attrs.frozen
class Text:
    """A text of a row: the row's name, the number of its pair of columns, and the row's key."""

    dataset_id: str
    name: str
    index: int
    key: Hashable
    content: str = attrs.field(eq=False, repr=False)


class WantedWord(NamedTuple):
    """A word that is looked for: its weight, and how many texts hold it."""

    word: QueryWord
    weight: float
    held: int


class OpenTable(Protocol):
    """One table or collection, open for reading: in one transaction where the database has them.

    A pair is the number of a pair of columns in ``spec.columns``. A key finds a row again. ``tree``
    is a filter of the caller, None for all rows; the table's own filter holds always.
    """

    @property
    def spec(self) -> TableSpec:
        """How the table is searched."""
        ...

    @property
    def size(self) -> float:
        """About how many rows there are, -1 where the database does not know."""
        ...

    def has_vector(self, pair: int) -> bool:
        """Whether the pair is searched by vector."""
        ...

    def has_text_index(self, pair: int) -> bool:
        """Whether an index of the database finds words in the pair's text."""
        ...

    def names(self) -> Sequence[str]:
        """The names of all rows, ordered, each once."""
        ...

    def rows(self, keys: Sequence[Hashable], tree: FilterTree | None) -> Mapping[Hashable, Row]:
        """The rows of these keys that pass."""
        ...

    def rows_named(self, names: Sequence[str]) -> Sequence[Row]:
        """The rows of these names, in any order."""
        ...

    def rows_in_order(self, tree: FilterTree | None, limit: int | None) -> Sequence[Row]:
        """The first ``limit`` rows that pass, by name; None: all."""
        ...

    def count(self, tree: FilterTree | None) -> int:
        """How many rows pass; without ``tree`` it may be an estimate."""
        ...

    def count_texts(self, pair: int, tree: FilterTree | None, word: QueryWord | None = None) -> int:
        """How many texts there are, or hold ``word``; it may be an estimate."""
        ...

    def best_texts(
        self, pair: int, words: Sequence[WantedWord], tree: FilterTree | None, limit: int
    ) -> Sequence[Text]:
        """The ``limit`` texts that pass and hold most of ``words`` by weight."""
        ...

    def nearest(
        self, pair: int, vector: Vector, tree: FilterTree | None, limit: int
    ) -> Sequence[Near]:
        """The ``limit`` rows that pass, have a text, and are nearest to ``vector``.

        Raises:
            StoreError: the vectors of the table do not serve, or are of another width.
            ValidationError: it is not one row of finite numbers.
        """
        ...

    def nearest_texts(
        self, pair: int, vector: Vector, tree: FilterTree | None, limit: int
    ) -> Sequence[Text]:
        """The texts of `nearest`."""
        ...

    def attempt(self, ask: Callable[[], T]) -> T:
        """What ``ask`` reads. If it fails, as a TriptychError, more can be read."""
        ...
