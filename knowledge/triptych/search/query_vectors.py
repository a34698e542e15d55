"""Embedding queries: many in one call, and those that rewriters probe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import attrs

from triptych import deadlines
from triptych.contracts import QueryProbe
from triptych.errors import ProviderError
from triptych.records import Mode, ResolvedQuery, Vector
from triptych.search.engine import SearchEngine
from triptych.search.query import has_words
from triptych.search.request import SearchRequest
from triptych.vectors.embedding import embed_each, embed_query, mean_vector
from triptych.vectors.lanes import ModelSet


def is_embedded(query: ResolvedQuery) -> bool:
    """Return whether a search embeds the query."""
    searched = query.datasets_of.get(Mode.VECTOR)
    return query.mode in (Mode.HYBRID, Mode.VECTOR) and bool(searched)


def with_vector(query: ResolvedQuery, vector: Vector) -> ResolvedQuery:
    """Return the query with what vector lanes search for."""
    return attrs.evolve(query, vectors={**query.vectors, Mode.VECTOR: vector})


def embed_queries(models: ModelSet, requests: Sequence[SearchRequest]) -> Sequence[SearchRequest]:
    """The requests with a vector for each variant that wants one, by one call for each kind.

    After a failure each lane embeds its own text, and says what became of it.
    """
    embedder, admits = models.embedder, models.coverage.admits
    if embedder is None:
        return requests
    need = {
        (number, at): [each for each in variant.embedded if has_words(each[1]) and admits(each[1])]
        for number, request in enumerate(requests)
        for at, variant in enumerate(request.variants)
        if is_embedded(variant) and Mode.VECTOR not in variant.vectors
    }
    known = {key: row for request in requests for key, row in request.vectors.items()}
    new = [each for texts in need.values() for each in texts if each not in known]
    with suppress(ProviderError):
        known |= embed_each(embedder, list(dict.fromkeys(new)))
        made = []
        for number, request in enumerate(requests):
            variants = list(request.variants)
            for at, variant in enumerate(variants):
                if texts := need.get((number, at)):
                    vector = mean_vector([known[each] for each in texts])
                    variants[at] = with_vector(variant, vector)
            made.append(attrs.evolve(request, variants=variants))
        return made
    return requests


class SearchProbe(QueryProbe):
    """The `QueryProbe` of one request: the vector of a text is kept in ``request.vectors``."""

    def __init__(self, engine: SearchEngine, models: ModelSet, request: SearchRequest) -> None:
        self._engine = engine
        self._models = models
        self._request = request

    @property
    def searches_vectors(self) -> bool:
        """See `QueryProbe.searches_vectors`."""
        return is_embedded(self._request.query)

    def best_vector_score(self, text: str) -> float | None:
        """See `QueryProbe.best_vector_score`."""
        embedder = self._models.embedder
        if embedder is None or not self.searches_vectors:
            return None
        if not has_words(text) or not self._models.coverage.admits(text):
            return None
        deadlines.check("the search")
        vectors = self._request.vectors
        if ("query", text) not in vectors:
            vectors["query", text] = embed_query(embedder, text)
        query = attrs.evolve(self._request.query, text=text)
        query = with_vector(query, vectors["query", text])
        return self._engine.best_score(self._request.target, Mode.VECTOR, query)
