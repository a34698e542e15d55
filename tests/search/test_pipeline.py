"""The steps of a search, each replaced through public names: one class, and one argument."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

import triptych
from support.rows import each_row
from triptych import Hit, ProviderError, Query, Rerank, Service, ValidationError
from triptych.contracts import HitReader
from triptych.records import Candidate, QueryVariant, RankedList, ResolvedQuery
from triptych.search import WeightedRanker, ZScoreRanker

TEXTS = {
    "kettle.md": "# Kettle\n\nThe lid of the kettle whistles when the water boils.\n",
    "teapot.md": "# Teapot\n\nA pot of porcelain keeps the tea warm.\n",
    "engine.md": "# Engine\n\nSteam drives the pistons of the locomotive.\n",
}


def filled(**options: object) -> Service:
    kb = triptych.open("memory://", embedder="hash", **options)  # type: ignore[arg-type]
    kb.put_documents("d", TEXTS)
    return kb


def names(hits: Sequence[Hit]) -> list[str]:
    return [hit.doc_name for hit in hits]


# A fusion


class LastFirst:
    """Every candidate once, in the opposite order of the first list."""

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> list[Candidate]:
        assert query.text
        found = {each.key: each for ranked in ranked_lists for each in ranked.candidates}
        several = list(reversed(found.values()))
        return [attrs.evolve(each, score=1 / (at + 1)) for at, each in enumerate(several)]


def test_a_ranker_of_ones_own_fuses() -> None:
    with filled() as kb, filled(ranker=LastFirst()) as other:
        query = "the kettle, the tea, the pistons"
        assert names(other.search(query, dataset_id="d").hits) != names(
            kb.search(query, dataset_id="d").hits
        )
        assert isinstance(other.ranker, LastFirst)


def test_a_ranker_has_a_name_in_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "triptych.toml").write_text('ranker = "min-max"\n')
    with triptych.open("memory://", embedder="hash") as kb:
        assert kb.ranker == WeightedRanker()
    with triptych.open("memory://", ranker="rrf") as kb:
        assert kb.ranker == triptych.RRFRanker()
    (tmp_path / "triptych.toml").unlink()
    with triptych.open("memory://") as kb:
        assert kb.ranker == ZScoreRanker()
    with pytest.raises(ValidationError, match="no ranker is called 'mean': use one of z-score"):
        triptych.open("memory://", ranker="mean")


# A lane that stores nothing


@attrs.frozen
class Suggestions:
    """A lane that knows which documents people liked, and no key of the store."""

    liked: Sequence[str]
    name: str = "liked"

    def recall(self, query: ResolvedQuery) -> list[Candidate]:
        return [
            Candidate(dataset_id=dataset, doc_name=name, index=0, score=1.0)
            for dataset in query.dataset_ids
            for name in self.liked
        ]


def test_a_lane_of_ones_own_takes_part_and_is_a_mode() -> None:
    with filled(retrievers=[Suggestions(["engine.md", "gone.md"])]) as kb:
        assert kb.lanes == ("bm25", "vector", "liked")
        found = kb.search("zzz", dataset_id="d").hits
        assert "engine.md" in names(found)
        found = kb.search("kettle", dataset_id="d").hits
        liked = next(hit for hit in found if hit.doc_name == "engine.md")
        assert liked.scores["liked"] == 1.0
        assert liked.content.startswith("# Engine")
        assert liked.chunk_id
        only = kb.search("kettle", dataset_id="d", mode="liked")
        assert names(only.hits) == ["engine.md"]
        assert kb.search("kettle", dataset_id="d", mode="liked", min_scores={"liked": 2}).hits == ()
        with pytest.raises(ValidationError, match="'bm25', 'vector', 'hybrid', 'liked'"):
            kb.search("kettle", dataset_id="d", mode="best")
        with pytest.raises(ValidationError, match="the lanes are bm25 and vector and liked"):
            kb.search("kettle", dataset_id="d", min_scores={"sparse": 1})


def test_one_chunk_found_by_key_and_by_place_is_one_hit() -> None:
    with filled(retrievers=[Suggestions(["kettle.md"])]) as kb:
        found = kb.search("kettle", dataset_id="d").hits
        assert names(found).count("kettle.md") == 1
        assert set(found[0].scores) == {"bm25", "vector", "liked"}


def test_what_is_found_by_place_alone_stays_apart() -> None:
    with triptych.open(
        "memory://",
        embedder=None,
        retrievers=[Suggestions(["kettle.md", "engine.md"])],
        ranker="rrf",
    ) as kb:
        kb.put_documents("d", TEXTS)
        found = kb.search("porcelain", dataset_id="d", mode="hybrid")
        assert names(found.hits) == ["kettle.md", "teapot.md", "engine.md"]
        kb.delete_document("d", "kettle.md")
        found = kb.search("porcelain", dataset_id="d", mode="hybrid")
        assert names(found.hits) == ["teapot.md", "engine.md"]


def test_two_lanes_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="2 chunk retrievers are called 'bm25'"):
        triptych.open("memory://", retrievers=[Suggestions([], name="bm25")])
    with pytest.raises(ValidationError, match="no method recall"):
        triptych.open("memory://", retrievers=[object()])  # type: ignore[list-item]


# A reranker


class Longest:
    """The longer a text, the better."""

    signature = "longest"
    fails = False

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.fails:
            raise ProviderError("the model is away")
        return np.array([len(text) for text in texts], dtype=np.float32)


def test_a_reranker_orders_the_best_hits() -> None:
    model = Longest()
    with filled(reranker=model) as kb:
        found = kb.search("water tea steam", dataset_id="d", top_k=2)
        assert names(found.hits) == sorted(TEXTS, key=lambda name: -len(TEXTS[name]))[:2]
        assert found.hits[0].scores["rerank"] == found.hits[0].score
        model.fails = True
        with pytest.raises(ProviderError, match="the model is away"):
            kb.search("water tea steam", dataset_id="d")
    with filled(postprocessors=[Rerank(model, optional=True)]) as kb:
        found = kb.search("water tea steam", dataset_id="d")
        assert len(found.hits) == 3
        assert found.warnings == ("the hits are not reranked: the model is away",)


def test_a_reranker_chooses_from_more_than_are_asked_for() -> None:
    with filled(postprocessors=[Rerank(Longest())]) as kb:
        for mode in ("bm25", "vector", "hybrid"):
            (hit,) = kb.search("the", dataset_id="d", top_k=1, mode=mode).hits
            assert hit.doc_name == max(TEXTS, key=lambda name: len(TEXTS[name]))


def test_bad_scores_are_refused() -> None:
    class Nonsense(Longest):
        def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.full(len(texts), np.nan, dtype=np.float32)

    with filled(reranker=Nonsense()) as kb, pytest.raises(ValidationError, match="finite scores"):
        kb.search("the", dataset_id="d")
    with pytest.raises(ValidationError, match="has no method scores"):
        Rerank(object())  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="1 to 1000"):
        Rerank(Longest(), candidates=0)
    with pytest.raises(ValidationError, match="no reranker is called 'best'"):
        triptych.open("memory://", reranker="best")


# A postprocessor


class OneOfEach:
    """The best hit of each document."""

    def depth(self, query: ResolvedQuery) -> int:
        return 3 * query.top_k

    def __call__(self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader) -> list[Hit]:
        return list({hit.doc_name: hit for hit in reversed(hits)}.values())[::-1]


def test_a_postprocessor_may_leave_hits_out() -> None:
    with triptych.open("memory://", embedder=None, postprocessors=[OneOfEach()]) as kb:
        kb.put_document("d", "long.md", "\n\n".join(f"# Part {n}\n\nthe word" for n in range(9)))
        kb.put_document("d", "short.md", "# Short\n\nthe word, once, in more words than there")
        found = kb.search("word", dataset_id="d", top_k=4).hits
        assert sorted(names(found)) == ["long.md", "short.md"]
        assert len(kb.search_documents("word", dataset_id="d").hits) == 2


# A query rewriter


@attrs.define
class Synonyms:
    """The query as it is, and with another word for one of its own."""

    asked: int = 0

    def rewrite(self, query: Query) -> Sequence[QueryVariant]:
        self.asked += 1
        return [
            QueryVariant(text=query.text),
            QueryVariant(text=query.text.replace("train", "locomotive"), weight=0.5),
        ]


def test_a_rewriter_asks_the_lanes_in_other_words() -> None:
    rewriter = Synonyms()
    with filled(rewriter=rewriter) as kb:
        for mode in ("bm25", "hybrid"):
            found = kb.search("train", dataset_id="d", mode=mode)
            assert found.hits[0].doc_name == "engine.md"
            assert found.warnings == ()
        assert rewriter.asked == 2
        kb.context("train", 500, dataset_id="d")
        assert rewriter.asked == 3


def test_what_is_embedded_may_be_another_text() -> None:
    class Hypothetical:
        def rewrite(self, query: Query) -> Sequence[QueryVariant]:
            text = TEXTS["teapot.md"]
            return [QueryVariant(text=query.text, embed_text=text, embed_kind="document")]

    with filled(rewriter=Hypothetical()) as kb:
        found = kb.search("whatever", dataset_id="d", mode="vector", top_k=1)
        assert names(found.hits) == ["teapot.md"]
        assert [names(each.hits) for each in kb.search_many(["a", "b"], dataset_id="d", top_k=1)]


@each_row("answer", [[], ["text"], [QueryVariant(text="a")] * 33, None])
def test_a_rewriter_that_fails_is_a_warning(answer: object) -> None:
    class Broken:
        def rewrite(self, query: Query) -> object:
            return answer

    with filled(rewriter=Broken()) as kb:
        found = kb.search("kettle", dataset_id="d")
        assert found.hits[0].doc_name == "kettle.md"
        (warning,) = found.warnings
        assert warning.startswith("the query was not rewritten (")


def test_a_variant_says_something() -> None:
    for text, weight in (("", 1.0), (" ", 1.0), ("a", 0.0), ("a", float("inf"))):
        with pytest.raises(ValidationError):
            QueryVariant(text=text, weight=weight)


@pytest.fixture
def kb() -> Iterator[Service]:
    with filled() as kb:
        yield kb


def test_a_plain_service_has_the_lanes_that_ship(kb: Service) -> None:
    assert kb.lanes == ("bm25", "vector")
