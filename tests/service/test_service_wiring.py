"""What a Service refuses when it is wired."""

from __future__ import annotations

import pytest

from triptych import RRFRanker, Service, ServiceOptions, ValidationError
from triptych.search import SearchEngine, ZScoreRanker
from triptych.search.retrievers import BM25Retriever
from triptych_backends.memory import MemoryStore


def test_a_ranker_beside_an_engine_is_refused() -> None:
    with MemoryStore() as store:
        engine = SearchEngine([BM25Retriever(store.chunks)])
        with pytest.raises(ValidationError, match="give the ranker to the SearchEngine"):
            Service(store, engine, ServiceOptions(ranker=RRFRanker(k=1)))
        kb = Service(store, engine, ServiceOptions())
        assert kb.ranker is engine.ranker
        kb.put_document("d", "a.md", "tea")
        assert [hit.doc_name for hit in kb.search("tea", dataset_id="d").hits] == ["a.md"]


def test_the_ranker_in_use_is_the_options_or_the_one_that_ships() -> None:
    with MemoryStore() as store:
        ranker = RRFRanker(k=1)
        for options, expected in ((ServiceOptions(ranker=ranker), ranker), (None, ZScoreRanker())):
            kb = Service(store, options=options)
            assert kb.ranker == expected
