"""`CollectionChunks`: points that are not ours, as chunks that are searched in place."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from triptych.records import (
    Candidate,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    Filter,
    Mode,
    StoredUnit,
    Vector,
)
from triptych.records.filters import all_of
from triptych.repositories import ChunkRepoBase
from triptych_backends.collections.catalog import Collection, Pair, Passing
from triptych_backends.collections.connection import PointId
from triptych_backends.collections.keyword_lane import CollectionPart, text_of
from triptych_backends.collections.source import CollectionSource
from triptych_backends.collections.vector_lane import find_nearest
from triptych_backends.in_place import (
    ReadOnlyChunks,
    Row,
    Text,
    best_of,
    find_by_keyword,
    found_in_pairs,
    query_words,
)

__all__ = ["CollectionChunks", "PointKey"]

NEAREST: Final = 200
"""So many of the nearest points are looked through where there is no text index."""

SCANNED: Final = 5_000
"""Up to so many points Qdrant's text match needs no index."""


@attrs.frozen
class PointKey:
    """A text of a point. ``filter`` is what the point passed when it was found: it must still."""

    dataset_id: str
    point: PointId
    pair: int
    filter: Filter = attrs.field(eq=False, repr=False)


@attrs.frozen(eq=False)
class CollectionChunks(ReadOnlyChunks, ChunkRepoBase):
    """A `ChunkRepo` over collections: it reads and searches them where they are."""

    _source: CollectionSource

    def config(self, dataset_id: str) -> DatasetConfig | None:
        """See `ChunkRepo.config`."""
        return self._source.config(dataset_id)

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> DerivedSig | None:
        """See `ChunkSigReader.get_doc_sig`."""
        return self.get_doc_sigs(dataset_id, [doc_name]).get(doc_name)

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, DerivedSig]:
        """See `ChunkSigReader.get_doc_sigs`."""
        return {row.name: self._sig(row) for row in self._named(dataset_id, doc_names)}

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        """See `ChunkSigReader.doc_names`. Every point is read."""
        return sorted(row.name for row in self._all(dataset_id))

    def count_sets(self, dataset_ids: Sequence[str]) -> int:
        """See `ChunkRepo.count_sets`: each row is one, as `DocumentRepo.count` counts them."""
        return sum(map(self._source.count_rows, self._source.of(dataset_ids)))

    def pending(self, dataset_id: str, embed_sig: str) -> Sequence[str]:
        """See `ChunkRepo.pending`: a vector that a point lacks is not ours to make."""
        return []

    def known_vectors(
        self, dataset_id: str, embed_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, Vector]:
        """See `ChunkRepo.known_vectors`: vectors of collections are found by point."""
        return {}

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[DerivedChunk]:
        """See `ChunkRepo.iter_chunks`; without vectors."""
        if doc_name is not None:
            rows = self._named(dataset_id, [doc_name])
        else:
            rows = sorted(self._all(dataset_id), key=lambda row: row.name)
        return (chunk for row in rows for _, chunk in row.chunks(self._sig(row)))

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `ChunkRepo.search`. What is found by keyword is the best of what was looked at."""
        if query.top_k <= 0:
            return []
        return self._by_vector(query) if query.mode is Mode.VECTOR else self._by_keyword(query)

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `ChunkRepo.fetch`. A point that does not pass the search's filter any more is
        gone."""
        asked: dict[tuple[str, Filter], list[PointKey]] = {}
        for key in keys:
            if isinstance(key, PointKey):
                asked.setdefault((key.dataset_id, key.filter), []).append(key)
        found: dict[Hashable, StoredUnit] = {}
        for (dataset_id, filter_), several in asked.items():
            collection = self._source.collection(dataset_id)
            if collection is None:
                continue
            passing = Passing.of(collection, all_of(filter_.tree, filter_.within))
            ids = list(dict.fromkeys(key.point for key in several))
            rows = {point.id: row for point, row in self._source.by_ids(passing, ids)}
            for key in several:
                row = rows.get(key.point)
                if row is None:
                    continue
                sig = self._sig(row)
                chunk = dict(row.chunks(sig)).get(key.pair)
                if chunk is not None:
                    found[key] = StoredUnit(key=key, sig=sig, document=row.info, chunk=chunk)
        return found

    def _sig(self, row: Row) -> DerivedSig:
        spec = self._source.specs[row.dataset_id]
        return row.sig(self._source.chunker_sig, self._source.embed_sig(spec))

    def _named(self, dataset_id: str, names: Sequence[str]) -> list[Row]:
        collection = self._source.collection(dataset_id)
        if collection is None or not names:
            return []
        rows = [row for _, row in self._source.by_names(collection, names)]
        return sorted(rows, key=lambda row: row.name)

    def _all(self, dataset_id: str) -> Iterator[Row]:
        collection = self._source.collection(dataset_id)
        if collection is not None:
            for _, row in self._source.scan(Passing.of(collection, None)):
                yield row

    def _by_vector(self, query: ChunkQuery) -> list[Candidate]:
        assert query.vector is not None
        tree = all_of(query.filter.tree, query.filter.within)

        def nearest(collection: Collection, pair: Pair) -> list[Candidate]:
            assert query.vector is not None
            passing = Passing.of(collection, tree)
            return [
                _candidate(row.dataset_id, row.name, pair.index, point.id, score, query)
                for point, row, score in find_nearest(
                    self._source.reader, passing, pair, query.vector, query.top_k
                )
            ]

        found = found_in_pairs(
            (
                _label(collection, pair),
                partial(nearest, collection, pair),
            )
            for collection in self._source.of(query.dataset_ids)
            if self._source.embed_sig(collection.spec) == query.embed_sig
            for pair in collection.pairs
            if pair.vector is not None
        )
        return best_of(found, query.top_k)

    def _by_keyword(self, query: ChunkQuery) -> list[Candidate]:
        source = self._source
        tree, within = all_of(query.filter.tree, query.filter.within), query.filter.within
        words = query_words(source.analyzer, query.text)
        if not words:
            return []
        vector: Vector | None = None
        parts: list[CollectionPart] = []
        nearest: list[tuple[str, Callable[[], list[Text]]]] = []
        reach = max(NEAREST, 2 * query.top_k)

        def texts_near(passing: Passing, pair: Pair) -> list[Text]:
            assert vector is not None
            there = find_nearest(source.reader, passing, pair, vector, reach)
            texts = (text_of(pair, point, row) for point, row, _ in there)
            return [text for text in texts if text is not None]

        for collection in source.of(query.dataset_ids):
            passing = Passing.of(collection, tree)
            for pair in collection.pairs:
                if not _looks_among_nearest(collection, pair):
                    part = CollectionPart.of(source, collection, pair, words, tree, within)
                    parts.append(part)
                    continue
                if vector is None:
                    vector = source.embedded(query.text)
                nearest.append((_label(collection, pair), partial(texts_near, passing, pair)))
        near = found_in_pairs(nearest)
        found = find_by_keyword(source.analyzer, parts, near, words, query.text, query.top_k)
        return best_of(
            (
                _candidate(each.dataset_id, each.name, each.index, each.key, score, query)
                for each, score in found
            ),
            query.top_k,
        )


def _candidate(
    dataset_id: str, name: str, pair: int, point: Hashable, score: float, query: ChunkQuery
) -> Candidate:
    assert isinstance(point, int | str)
    return Candidate(
        dataset_id=dataset_id,
        doc_name=name,
        index=pair,
        key=PointKey(dataset_id, point, pair, query.filter),
        score=round(score, 6),
    )


def _label(collection: Collection, pair: Pair) -> str:
    return f"{collection.spec.columns[pair.index].text!r} of {collection.spec.name!r}"


def _looks_among_nearest(collection: Collection, pair: Pair) -> bool:
    """Whether keywords are looked for among the nearest vectors."""
    if pair.vector is None or collection.spec.keywords == "text-search":
        return False
    if collection.spec.keywords == "nearest":
        return True
    return not pair.indexed and collection.layout.points > SCANNED
