"""What a rewriter may learn of the search that it rewrites for, before the search runs."""

from __future__ import annotations

import attrs

from triptych import deadlines
from triptych.derivation.deriver import Deriver
from triptych.records import Mode
from triptych.search.engine import SearchEngine
from triptych.search.query import has_words
from triptych.search.request import SearchRequest
from triptych.vectors.embedding import embed_query

_EMBEDDED = (Mode.HYBRID, Mode.VECTOR)


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
