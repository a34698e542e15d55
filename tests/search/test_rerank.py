"""`Rerank`: what the model reads, how many hits, how its scores and those before are combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

import triptych
from support.examples import examples
from support.hit_readers import ReaderKeeper
from support.rows import each_row
from triptych import Hit, ProviderError, Query, Rerank, ValidationError
from triptych.chunking import ChunkerSet, SentenceWindowChunker
from triptych.contracts import HitReader, Reranker
from triptych.records import DerivedSig, Layer, Mode, ResolvedQuery


@attrs.define
class Keyed:
    """A model that knows the scores of texts by a word in them, and notes what it is asked."""

    words: Mapping[str, float]
    asked: list[list[str]] = attrs.field(factory=list)
    signature: str = "keyed"

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        return np.array(
            [
                max((s for word, s in self.words.items() if word in text), default=0)
                for text in texts
            ],
            dtype=np.float32,
        )


def resolved(top_k: int = 10) -> ResolvedQuery:
    return ResolvedQuery(
        text="q", dataset_ids=("d",), mode=Mode.BM25, layer=Layer.DETAIL, top_k=top_k, limit=30
    )


def hits_of(scores: Sequence[float]) -> list[Hit]:
    return [
        Hit(
            dataset_id="d",
            doc_name=f"{at:03}",
            layer=Layer.DETAIL,
            content=f"<{at}>",
            score=score,
            chunk_index=0,
            sig=DerivedSig(source_version=1),
            scores={"bm25": score},
        )
        for at, score in enumerate(sorted(scores, reverse=True))
    ]


def reader() -> HitReader:
    keeper = ReaderKeeper()
    with triptych.open("memory://", embedder=None, postprocessors=[keeper]) as kb:
        kb.put_document("d", "a", "tea")
        kb.search("tea", dataset_id="d")
    return keeper.readers[0]


def names(hits: Sequence[Hit]) -> list[str]:
    return [hit.doc_name for hit in hits]


def test_the_model_sees_twice_as_many_hits_as_are_asked_for() -> None:
    model = Keyed({})
    with triptych.open("memory://", embedder=None, reranker=model) as kb:
        kb.put_documents("d", {f"{n}.md": f"tea {n}" for n in range(30)})
        assert len(kb.search("tea", dataset_id="d", top_k=4)) == 4
        assert len(kb.search("tea", dataset_id="d", top_k=4, offset=3)) == 4
        assert len(kb.search("tea", dataset_id="d", top_k=20)) == 20
    assert [len(texts) for texts in model.asked] == [8, 14, 30]


def test_the_model_reads_the_window_of_a_chunk() -> None:
    model = Keyed({})
    text = "First comes one. Then comes the kettle. Last comes three. And four is far."
    chunkers = ChunkerSet(default=SentenceWindowChunker(window=1))
    with triptych.open("memory://", embedder=None, chunkers=chunkers, reranker=model) as kb:
        kb.put_document("d", "a.md", text)
        (hit,) = kb.search("kettle", dataset_id="d").hits
    assert model.asked == [[hit.window]]
    assert hit.window == "First comes one. Then comes the kettle. Last comes three."
    assert hit.content.strip() == "Then comes the kettle."


def test_the_model_reads_title_and_headings_without_a_window() -> None:
    model = Keyed({})
    with triptych.open("memory://", embedder=None, reranker=model) as kb:
        kb.put_document(
            "d", "a.md", "# Kitchen\n\n## Kettle\n\nIt whistles.\n", metadata={"title": "House"}
        )
        kb.search("whistles", dataset_id="d")
    ((text,),) = model.asked
    assert text.startswith("House > Kitchen")
    assert "It whistles." in text


def test_a_rerank_changes_the_order_and_keeps_the_score_from_before() -> None:
    model = Keyed({"<2>": 3.0, "<0>": 1.0})
    found = Rerank(model)(resolved(), hits_of([0.9, 0.5, 0.1]), reader())
    assert names(found) == ["002", "000", "001"]
    assert [hit.score for hit in found] == [3.0, 1.0, 0.0]
    assert found[0].scores == {"bm25": 0.1, "fused": 0.1, "rerank": 3.0}


def test_hits_that_the_model_did_not_see_come_after_with_lower_scores() -> None:
    model = Keyed({"<1>": -5.0, "<0>": -6.0})
    found = Rerank(model, candidates=2)(resolved(), hits_of([0.9, 0.5, 0.3, 0.1]), reader())
    assert names(found) == ["001", "000", "002", "003"]
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert round(scores[2] - scores[3], 6) == 0.2
    assert found[3].scores["fused"] == 0.1


@each_row(
    ("blend", "expected"),
    [
        # Before: 1, .5, 0 when scaled; the model's: 0, .25, 1.
        (0.0, {"002": 1.0, "001": 0.25, "000": 0.0}),
        (1.0, {"000": 1.0, "001": 0.5, "002": 0.0}),
        (0.5, {"000": 0.5, "002": 0.5, "001": 0.375}),
        # 1, 1/2 and 1/3, of which three quarters count.
        ("position", {"000": 0.75, "002": 0.5, "001": 0.4375}),
    ],
)
def test_blends(blend: float | str, expected: Mapping[str, float]) -> None:
    model = Keyed({"<0>": 2.0, "<1>": 3.0, "<2>": 6.0})
    found = Rerank(model, blend=blend)(resolved(), hits_of([0.6, 0.4, 0.2]), reader())
    assert {hit.doc_name: hit.score for hit in found} == pytest.approx(expected)
    assert names(found) == list(expected)
    assert found[0].scores["rerank"] in (2.0, 6.0)


def test_by_position_the_last_ranks_count_less() -> None:
    model = Keyed({f"<{at}>": float(at) for at in range(1, 12)})
    found = Rerank(model, blend="position")(resolved(12), hits_of(range(12)), reader())  # type: ignore[arg-type]
    scores = {hit.doc_name: hit.score for hit in found}
    assert scores["002"] == pytest.approx(0.75 / 3 + 0.25 * 2 / 11)
    assert scores["003"] == pytest.approx(0.6 / 4 + 0.4 * 3 / 11)
    assert scores["010"] == pytest.approx(0.4 / 11 + 0.6 * 10 / 11)


@settings(max_examples=examples(100), deadline=None)
@given(
    scores=st.lists(st.floats(-10, 10), max_size=12),
    own=st.lists(st.floats(-10, 10, width=32), min_size=12, max_size=12),
    candidates=st.integers(1, 12) | st.none(),
    blend=st.sampled_from([None, 0, 0.3, 1, "position"]),
)
@pytest.mark.property
def test_hits_come_once_and_by_their_scores(
    scores: list[float], own: list[float], candidates: int | None, blend: float | str | None
) -> None:
    before = hits_of(scores)
    model = Keyed({f"<{at}>": score for at, score in enumerate(own)})
    found = Rerank(model, candidates=candidates, blend=blend)(resolved(5), before, reader())
    assert sorted(names(found)) == names(before)
    after = [hit.score for hit in found]
    assert after == sorted(after, reverse=True)
    assert all(
        hit.scores.get("fused", hit.score) == before[int(hit.doc_name)].score for hit in found
    )


def test_a_model_that_fails_fails_the_search_unless_it_is_optional() -> None:
    class Away(Keyed):
        def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
            raise ProviderError("away")

    model: Reranker = Away({})
    with pytest.raises(ProviderError, match="away"):
        Rerank(model)(resolved(), hits_of([1.0]), reader())
    notes = reader()
    assert Rerank(model, optional=True)(resolved(), hits_of([1.0]), notes) == hits_of([1.0])
    assert notes.warnings == ["the hits are not reranked: away"]
    assert Rerank(model)(resolved(), [], reader()) == []


def test_arguments_that_make_no_sense_are_refused() -> None:
    for candidates in (0, 1001):
        with pytest.raises(ValidationError, match="1 to 1000 candidates"):
            Rerank(Keyed({}), candidates=candidates)
    for blend in (-0.1, 1.1, "rank", True, float("nan")):
        with pytest.raises(ValidationError, match="blend is None"):
            Rerank(Keyed({}), blend=blend)


def test_a_context_keeps_the_order_of_the_model() -> None:
    model = Keyed({"kettle": 9.0})
    texts = {f"{n}.md": f"tea tea tea number {n}" for n in range(5)} | {"k.md": "tea in a kettle"}
    with triptych.open("memory://", embedder="hash", reranker=model) as kb:
        kb.put_documents("d", texts)
        pack = kb.context("tea", 60, dataset_id="d")
        assert "k.md" in [piece.citation.doc_name for piece in pack.pieces[:2]]
        assert kb.search_many([Query(text="tea", dataset_id="d")])[0].hits[0].doc_name == "k.md"


@pytest.mark.parametrize("made", ["high", 1 + 2j, None])
def test_scores_that_are_no_numbers_are_refused(made: object) -> None:
    class Odd:
        signature = "odd/1"

        def scores(self, query: str, texts: Sequence[str]) -> Any:
            return [made] * len(texts)

    with triptych.open("memory://", embedder=None, postprocessors=[Rerank(Odd())]) as kb:
        kb.put_document("d", "a.md", "water")
        with pytest.raises(ValidationError, match="'odd/1' must return 1 finite scores"):
            kb.search("water", dataset_id="d")
