"""Embedding queries: many in one call, and those that rewriters probe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import attrs

from triptych import deadlines
from triptych.derivation.deriver import Deriver
from triptych.errors import ProviderError
from triptych.records import Mode
from triptych.search.engine import SearchEngine
from triptych.search.query import has_words
from triptych.search.request import SearchRequest
from triptych.vectors.embedding import embed_each, embed_query, mean_vector

_EMBEDDED = (Mode.HYBRID, Mode.VECTOR)


def embed_queries(derivation: Deriver, requests: Sequence[SearchRequest]) -> list[SearchRequest]:
    """The requests with a vector for each variant that wants one, by one call for each kind.

    After a failure each lane embeds its own text, and says what became of it.
    """
    by_space: dict[str, list[int]] = {}
    for at, request in enumerate(requests):
        by_space.setdefault(request.query.embed_sig, []).append(at)
    made = list(requests)
    for embed_sig, places in by_space.items():
        some = _embedded(derivation.of_space(embed_sig), [requests[at] for at in places])
        for at, request in zip(places, some, strict=True):
            made[at] = request
    return made


def _embedded(derivation: Deriver, requests: Sequence[SearchRequest]) -> Sequence[SearchRequest]:
    embedder, admits = derivation.embedder, derivation.coverage.admits
    if embedder is None:
        return requests
    need = {
        (number, at): [each for each in variant.embedded if has_words(each[1]) and admits(each[1])]
        for number, request in enumerate(requests)
        for at, variant in enumerate(request.variants)
        if variant.mode in _EMBEDDED and variant.vector_dataset_ids and variant.vector is None
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
                    variants[at] = attrs.evolve(variant, vector=vector)
            made.append(attrs.evolve(request, variants=variants))
        return made
    return requests


class SearchProbe:
    """The `QueryProbe` of one request: the vector of a text is kept in ``request.vectors``."""

    def __init__(self, engine: SearchEngine, derivation: Deriver, request: SearchRequest) -> None:
        self._engine = engine
        self._derivation = derivation.of_space(request.query.embed_sig)
        self._request = request

    @property
    def searches_vectors(self) -> bool:
        """See `QueryProbe.searches_vectors`."""
        query = self._request.query
        return (
            self._derivation.embedder is not None
            and query.mode in _EMBEDDED
            and bool(query.vector_dataset_ids)
        )

    def best_vector_score(self, text: str) -> float | None:
        """See `QueryProbe.best_vector_score`."""
        embedder = self._derivation.embedder
        if embedder is None or not self.searches_vectors:
            return None
        if not has_words(text) or not self._derivation.coverage.admits(text):
            return None
        deadlines.check("the search")
        vectors = self._request.vectors
        if ("query", text) not in vectors:
            vectors["query", text] = embed_query(embedder, text)
        query = attrs.evolve(self._request.query, text=text, vector=vectors["query", text])
        return self._engine.best_score(self._request.target, Mode.VECTOR, query)
