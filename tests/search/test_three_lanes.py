"""Three lanes in fusion: the sparse one counts as the keyword lane does, not as nearness."""

from __future__ import annotations

import pytest

from triptych import Service, ServiceOptions
from triptych.records import Candidate, Layer, Mode, RankedList, ResolvedQuery
from triptych.search.fusion import RRFRanker, WeightedRanker, ZScoreRanker
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import FakeSparseEncoder

QUERY = ResolvedQuery(
    text="q", dataset_ids=("d",), mode=Mode.HYBRID, layer=Layer.DETAIL, top_k=10, limit=30
)


def lane(name: str, **scores: float) -> RankedList:
    found = [
        Candidate(dataset_id="d", doc_name=doc, index=0, key=doc, score=score, source=name)
        for doc, score in scores.items()
    ]
    return RankedList(lane=name, candidates=found)


NEAR = {f"n{at:02}": 0.9 - at / 100 for at in range(40)}


def test_a_sparse_lane_of_one_match_is_a_strong_vote_and_one_of_all_alike_is_none() -> None:
    one = ZScoreRanker().rank(QUERY, [lane("vector", **NEAR), lane("sparse", n07=9.0)])
    assert one[0].doc_name == "n07"
    assert one[0].scores == {"vector": pytest.approx(0.83), "sparse": 9.0}
    same = dict.fromkeys(NEAR, 3.0)
    alike = ZScoreRanker().rank(QUERY, [lane("vector", **NEAR), lane("sparse", **same)])
    assert [each.doc_name for each in alike][:5] == list(NEAR)[:5]


def test_what_two_lanes_agree_on_beats_what_one_prefers() -> None:
    words = {f"n{at:02}": 12.0 - at for at in range(3, 10)}
    sparse = {f"n{at:02}": 20.0 - at for at in range(3, 30)}
    lists = [lane("bm25", **words), lane("vector", **NEAR), lane("sparse", **sparse)]
    for ranker in (ZScoreRanker(), RRFRanker(), WeightedRanker()):
        first = ranker.rank(QUERY, lists)[0]
        assert first.doc_name == "n03"
        assert set(first.scores) == {"bm25", "vector", "sparse"}


def test_weights_name_the_lane() -> None:
    lists = [lane("bm25", a=9.0, b=1.0), lane("vector", b=0.9, a=0.1), lane("sparse", b=8.0, a=7.0)]
    only_words = ZScoreRanker(weights={"sparse": 0.0, "vector": 0.0}).rank(QUERY, lists)
    assert only_words[0].doc_name == "a"
    only_sparse = ZScoreRanker(weights={"bm25": 0.0, "vector": 0.0}).rank(QUERY, lists)
    assert only_sparse[0].doc_name == "b"


def test_three_lanes_are_on_the_scale_of_one() -> None:
    single = ZScoreRanker().rank(
        QUERY, [lane("sparse", **{name: 10 * s for name, s in NEAR.items()})]
    )
    triple = ZScoreRanker().rank(
        QUERY,
        [lane(name, **{doc: 10 * s for doc, s in NEAR.items()}) for name in ("a", "b", "sparse")],
    )
    assert [each.score for each in triple] == pytest.approx([each.score for each in single])


NOTES = {f"{at:02}.md": "\n\n".join([f"The owl {at}."] * 3) for at in range(30)}


def test_a_lane_that_a_service_leaves_out_has_no_say_in_the_mode() -> None:
    store = MemoryStore()
    with Service(store, options=ServiceOptions(sparse_encoder=FakeSparseEncoder())) as kb:
        kb.put_documents("d", NOTES)
        words = kb.search("owl", dataset_id="d", mode="bm25").hits
        options = ServiceOptions(sparse_encoder=FakeSparseEncoder(), lanes=["bm25"])
        assert Service(store, options=options).search("owl", dataset_id="d").hits == words


def test_a_search_that_goes_deeper_encodes_its_query_once() -> None:
    encoder = FakeSparseEncoder()
    options = ServiceOptions(sparse_encoder=encoder)
    with Service(MemoryStore(), options=options) as kb:
        kb.put_document("d", "long.md", "\n\n".join(f"The owl {at}." * 90 for at in range(99)))
        kb.put_documents("d", NOTES)
        encoder.texts.clear()
        found = kb.search("owl", dataset_id="d", mode="sparse", per_document=1, top_k=20)
        assert len(found.hits) == 20
        assert encoder.texts == ["owl"]
