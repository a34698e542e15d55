"""What docs/reference/flowcraft.md says and no other test shows: departures, small functions."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

import triptych
from support.ranking import fuse_lanes
from triptych import (
    ChunkConfig,
    NotAvailableError,
    NotFoundError,
    RRFRanker,
    Service,
    ServiceOptions,
    ValidationError,
)
from triptych.contracts import Chunker
from triptych.layers.prompts import (
    ABSTRACT_PROMPT,
    DATASET_OVERVIEW_PROMPT,
    DEFAULT_PROMPT_INPUT_LIMIT,
    OVERVIEW_PROMPT,
)
from triptych.records import Candidate, DerivedSig, Layer, Mode, ResolvedQuery, cosine_similarity
from triptych.search import (
    DEFAULT_RRF_K,
    BM25Retriever,
    LayerRetriever,
    SearchEngine,
    VectorRetriever,
)
from triptych.text import corpus_stats, detect_tokenizer, extract_keywords, score_text
from triptych_backends.memory import MemoryStore
from triptych_testing import lacking

DIRECTIONS = {"up": (0.0, 1.0), "side": (1.0, 0.0), "down": (0.0, -1.0), "query": (0.0, 1.0)}


class Compass:
    """An embedder of two dimensions, whose cosines are 1, 0 and -1."""

    signature = "compass/2"
    dimension = 2

    def embed(self, texts: Sequence[str], *, kind: str) -> NDArray[np.float32]:
        return np.array([DIRECTIONS[text] for text in texts], dtype=np.float32).reshape(-1, 2)


@pytest.fixture
def kb() -> Iterator[Service]:
    store = MemoryStore()
    options = ServiceOptions(embedder=Compass())
    with Service(store, options) as service:
        yield service


def resolved(mode: Mode, layer: Layer = Layer.DETAIL) -> ResolvedQuery:
    return ResolvedQuery(
        text="query",
        dataset_ids=("d",),
        datasets_of={"vector": ("d",)},
        embed_sig=Compass.signature,
        mode=mode,
        layer=layer,
        top_k=5,
        limit=5,
    )


# Functions and constants


def test_cosine_similarity_is_0_where_there_is_no_angle() -> None:
    cosine = cosine_similarity
    assert cosine([3.0, 4.0], [6.0, 8.0]) == pytest.approx(1.0)
    assert cosine([1.0, 0.0], [0.0, 1.0]) == 0.0
    assert cosine([1.0, 0.0], [-2.0, 0.0]) == pytest.approx(-1.0)
    assert cosine([], []) == cosine([1.0], [1.0, 2.0]) == cosine([0.0, 0.0], [1.0, 2.0]) == 0.0


@given(hnp.arrays(np.float64, 5, elements=st.floats(-1e3, 1e3)), st.floats(1e-3, 1e3))
def test_cosine_similarity_is_of_directions_alone(
    vector: NDArray[np.float64], factor: float
) -> None:
    if np.linalg.norm(vector) > 1e-3:
        assert cosine_similarity(vector, vector * factor) == pytest.approx(1.0)
        assert cosine_similarity(vector, -vector) == pytest.approx(-1.0)


def test_the_constant_of_rank_fusion() -> None:
    assert DEFAULT_RRF_K == RRFRanker().k == 60


def test_the_prompts_are_shown_to_people_and_models() -> None:
    assert DEFAULT_PROMPT_INPUT_LIMIT == 8000
    prompts = (
        ABSTRACT_PROMPT,
        OVERVIEW_PROMPT,
        DATASET_OVERVIEW_PROMPT,
    )
    assert len(set(prompts)) == 3
    assert all(prompt.strip() for prompt in prompts)


def test_the_sizes_of_the_default_chunker() -> None:
    assert ChunkConfig() == ChunkConfig(size=512, overlap=64)
    for wrong in ({"size": 0}, {"overlap": -1}, {"size": 100, "overlap": 100}):
        with pytest.raises(ValidationError, match=f"chunk {max(wrong)}"):
            ChunkConfig(**wrong)


# Records


def test_a_signature_is_stale_by_each_of_its_parts() -> None:
    made = DerivedSig(source_version=2, chunker_sig="c", prompt_sig="p", embed_sig="e")
    assert not made.is_stale(made)
    assert made.is_stale(attrs.evolve(made, source_version=3))
    assert not made.is_stale(attrs.evolve(made, source_version=1))
    assert made.is_stale(attrs.evolve(made, chunker_sig="other"))
    assert made.is_stale(attrs.evolve(made, prompt_sig="other"))
    assert made.is_stale(attrs.evolve(made, embed_sig="other"))
    assert not made.is_stale(attrs.evolve(made, embed_sig=""))
    assert attrs.evolve(made, embed_sig="").is_stale(made)
    # Where both know what was fed in, that decides, and the version does not.
    fed = attrs.evolve(made, input_sig="i")
    assert not fed.is_stale(attrs.evolve(fed, source_version=9))
    assert fed.is_stale(attrs.evolve(fed, input_sig="j"))


def test_a_hit_says_what_it_is(kb: Service) -> None:
    stored = kb.put_document("d", "a.md", "up", {"lang": "en"})
    (hit,) = kb.search("query", dataset_id="d", mode="vector").hits
    assert (hit.dataset_id, hit.doc_name, hit.layer, hit.content) == ("d", "a.md", "L2", "up")
    assert (hit.score, hit.chunk_index, hit.metadata) == (1.0, 0, {"lang": "en"})
    assert hit.sig.source_version == stored.version
    assert hit.sig.embed_sig == Compass.signature
    kb.put_document_layer("d", "a.md", "L0", "side")
    (layer,) = kb.search("side", dataset_id="d", layer="L0", mode="bm25").hits
    assert (layer.layer, layer.chunk_index, layer.content) == ("L0", -1, "side")
    (document,) = kb.search_documents("up", dataset_id="d", mode="bm25").hits
    assert (document.layer, document.chunk_index, document.doc_name) == (None, -1, "a.md")


def test_options_have_defaults_and_an_embedder_names_its_space(kb: Service) -> None:
    defaults = ServiceOptions()
    assert (defaults.embedder, defaults.ranker, defaults.llm) == (None, None, None)
    assert not lacking(defaults.chunkers.for_document("a.txt", {}), Chunker)
    kb.put_document("d", "a.md", "up")
    (stats,) = kb.stats("d")
    assert stats.config is not None
    assert stats.config.embed_sig == Compass.signature


# Departures


def test_a_ranker_takes_k_as_it_is_given() -> None:
    lane = [Candidate(dataset_id="d", doc_name=name, index=0, key=name, score=1.0) for name in "ab"]
    assert [found.score for found in fuse_lanes(RRFRanker(k=0), {"bm25": lane})] == [1.0, 0.5]
    with pytest.raises(ValidationError, match="from 0 up"):
        RRFRanker(k=-1)


def test_a_retriever_runs_its_lane_in_any_mode_and_the_engine_chooses_by_name(kb: Service) -> None:
    kb.put_document("d", "a.md", "query")
    keyword, vector = BM25Retriever(kb.chunks), VectorRetriever(kb.chunks, Compass())
    assert keyword.chunks is kb.chunks
    assert (keyword.name, vector.name) == ("bm25", "vector")
    for mode in Mode:
        assert len(keyword.recall(resolved(mode))) == len(vector.recall(resolved(mode))) == 1
    engine = SearchEngine([keyword, vector])
    for mode, lanes in (("bm25", {"bm25"}), ("vector", {"vector"}), ("hybrid", {"bm25", "vector"})):
        (found,) = engine.retrieve("chunk", [resolved(Mode(mode))]).candidates
        assert set(found.scores) == lanes
    engine.close()
    with pytest.raises(NotAvailableError, match="no vector lane is wired"):
        SearchEngine([keyword]).retrieve("chunk", [resolved(Mode.VECTOR)])


def test_the_engine_has_its_lanes_by_tier_and_its_own_ranker(kb: Service) -> None:
    kb.put_document("d", "a.md", "query")
    kb.put_document_layer("d", "a.md", "L0", "query")
    keyword, vector = BM25Retriever(kb.chunks), VectorRetriever(kb.chunks, Compass())
    layers = LayerRetriever(kb.layer_repo, Mode.BM25)
    engine = SearchEngine(chunk=[keyword, vector], layer=[layers], ranker=RRFRanker(k=0))
    (chunk,) = engine.retrieve("chunk", [resolved(Mode.HYBRID)]).candidates
    assert (chunk.index, chunk.score) == (0, 2.0)
    (layer,) = engine.retrieve("layer", [resolved(Mode.BM25, Layer.ABSTRACT)]).candidates
    assert layer.index == -1
    with pytest.raises(NotAvailableError, match="no bm25 lane is wired for document search"):
        engine.retrieve("document", [resolved(Mode.BM25)])
    engine.close()


def test_a_vector_lane_without_an_embedder_says_so(kb: Service) -> None:
    lanes = [
        (VectorRetriever(kb.chunks, None), Layer.DETAIL),
        (LayerRetriever(kb.layer_repo, Mode.VECTOR), Layer.ABSTRACT),
    ]
    for lane, layer in lanes:
        assert lane.name == "vector"
        with pytest.raises(NotAvailableError, match="needs an embedder"):
            lane.recall(resolved(Mode.VECTOR, layer))


def test_one_lane_alone_gives_its_own_scores(kb: Service) -> None:
    kb.put_document("d", "a.md", "up")
    (hit,) = kb.search("query", dataset_id="d", mode="vector").hits
    assert hit.score == hit.scores["vector"] == 1.0
    (hit,) = kb.search("up", dataset_id="d", mode="hybrid").hits
    # The one keyword match among 50 candidates, and a vector lane of one.
    assert hit.score == pytest.approx((50 / math.sqrt(49) + 1) / 2)


def test_rank_fusion_is_a_named_choice() -> None:
    with triptych.open("memory://", embedder=Compass(), ranker="rrf") as kb:
        kb.put_document("d", "a.md", "up")
        (hit,) = kb.search("up", dataset_id="d", mode="hybrid").hits
        assert hit.score == pytest.approx(2 / 61)


def test_cosines_of_0_and_below_are_found_unless_a_floor_is_asked_for(kb: Service) -> None:
    kb.put_documents("d", {text[0]: text for text in ("down", "side", "up")})

    def found(**fields: Any) -> list[tuple[str, float]]:
        hits = kb.search("query", dataset_id="d", mode="vector", **fields).hits
        return [(hit.doc_name, hit.score) for hit in hits]

    assert found() == [("u", 1.0), ("s", 0.0), ("d", -1.0)]
    assert found(min_scores={"vector": 1e-6}) == [("u", 1.0)]


def test_a_threshold_of_0_is_a_floor_and_none_is_none(kb: Service) -> None:
    kb.put_documents("d", {"d": "down", "u": "up"})

    def found(threshold: float | None) -> list[str]:
        result = kb.search("query", dataset_id="d", mode="vector", threshold=threshold)
        return [hit.doc_name for hit in result.hits]

    assert found(None) == ["u", "d"]
    assert found(0) == ["u"]


def test_zero_values_are_refused_by_name(kb: Service) -> None:
    kb.put_document("d", "a.md", "up")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"top_k": 0}, "top_k must be a whole number from 1 to "),
        ({"mode": ""}, "there is no mode ''"),
        ({"layer": ""}, "'' is not a layer"),
        ({"text": ""}, "the query is empty"),
        ({"dataset_id": ""}, "name a dataset_id"),
    ]
    for fields, said in wrong:
        query = triptych.Query(**{"text": "up", "dataset_id": "d", **fields})
        with pytest.raises(ValidationError, match=said):
            kb.search(query)


def test_a_dataset_has_no_layer_before_its_first_document(kb: Service) -> None:
    with pytest.raises(NotFoundError, match="no dataset 'd'"):
        kb.put_dataset_layer("d", "L0", "up")
    assert kb.list_datasets() == []
    kb.put_document("d", "a.md", "up")
    assert kb.list_datasets() == ["d"]
    kb.put_dataset_layer("d", "L0", "up")
    layer = kb.dataset_layer("d", "L0")
    assert layer is not None
    assert layer.content == "up"
    kb.create_dataset("empty")
    kb.put_dataset_layer("empty", "L0", "up")
    assert kb.dataset_layer("empty", "L0") is not None


def test_a_document_that_is_not_there_is_no_work_for_a_rebuild(kb: Service) -> None:
    kb.put_document("d", "a.md", "up")
    assert kb.rebuild(dataset_id="d", doc_name="gone").checked == 0


def test_signatures_name_the_maker_that_was_wanted_and_the_embedder_in_use(kb: Service) -> None:
    kb.put_document("d", "a.md", "up")
    by_hand = kb.put_document_layer("d", "a.md", "L0", "up")
    assert (by_hand.sig.prompt_sig, by_hand.sig.chunker_sig) == ("", "")
    by_model = kb.put_document_layer("d", "a.md", "L1", "", prompt_sig="prompt/1")
    assert (by_model.vector, by_model.sig.prompt_sig) == (None, "prompt/1")
    assert by_model.sig.embed_sig == Compass.signature
    kb.put_document("d", "blank.md", "")
    sig = kb.chunks.get_doc_sig("d", "blank.md")
    assert sig is not None
    assert (sig.embed_sig, sig.prompt_sig) == (Compass.signature, "")
    assert list(kb.chunks.iter_chunks("d", "blank.md")) == []
    assert kb.stats("d")[0].stale == 0


def test_the_query_has_the_defaults_of_the_table() -> None:
    query = triptych.Query(text="x", dataset_id="d")
    assert (query.top_k, query.mode, query.layer, query.scope, query.threshold) == (
        10,
        None,
        "L2",
        "single",
        None,
    )


def test_a_service_has_all_its_parts() -> None:
    required = [
        parameter.name
        for parameter in inspect.signature(Service).parameters.values()
        if parameter.default is inspect.Parameter.empty
    ]
    assert required == ["store"]


def test_keywords_of_a_text_are_ranked_and_the_terms_of_a_query_are_the_tokenizers() -> None:
    text = "The cats and the cats chase 2 dogs"
    assert extract_keywords(text) == ["cats", "chase", "dogs"]
    tokenizer = detect_tokenizer(text)
    assert list(dict.fromkeys(tokenizer.tokenize(text))) == [
        "the",
        "cats",
        "and",
        "chase",
        "2",
        "dogs",
    ]


def test_score_text_is_lucenes_bm25_of_terms() -> None:
    stats = corpus_stats([["green", "tea"], ["milk", "tea", "tea"]])
    length, mean = 3, 2.5
    expected = math.log(1 + 0.5 / 2.5) * 2 / (2 + 1.2 * (0.25 + 0.75 * length / mean))
    assert score_text(["tea"], ["milk", "tea", "tea"], stats) == pytest.approx(expected)
