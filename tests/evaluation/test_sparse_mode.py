"""An evaluation asks the sparse lane like any other mode."""

from __future__ import annotations

import pytest

import triptych
from triptych.errors import ValidationError
from triptych_evaluation import Collection, JudgedQuery, evaluate
from triptych_testing.fakes import FakeSparseEncoder

QUERIES = (JudgedQuery(query_id="1", text="owl", grades={"a.md": 1}),)


def test_the_lane_is_a_mode_of_an_evaluation() -> None:
    collection = Collection(name="owls", queries=QUERIES)
    with triptych.open("memory://", embedder=None, sparse_encoder=FakeSparseEncoder()) as kb:
        kb.put_documents("d", {"a.md": "An owl.", "b.md": "A kettle."})
        found = evaluate(kb, collection, dataset_id="d")
        assert list(found.modes) == ["bm25", "hybrid", "sparse"]
        assert found.modes["sparse"].estimates["ndcg@10"].mean == 1.0
        assert found.configuration["sparse_encoder"] == "sparse/1"
        only = evaluate(kb, collection, dataset_id="d", modes=["sparse"])
        assert list(only.modes) == ["sparse"]
    with triptych.open("memory://", embedder="hash") as kb:
        kb.put_documents("d", {"a.md": "An owl."})
        with pytest.raises(ValidationError, match="sparse"):
            evaluate(kb, collection, dataset_id="d", modes=["sparse"])
        assert list(evaluate(kb, collection, dataset_id="d").modes) == ["bm25", "vector", "hybrid"]
