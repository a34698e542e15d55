"""The keyword boost: which words count, what a score becomes, and where in a search it acts."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

import triptych
from support.rows import each_row
from triptych import Hit, Layer, Service, ValidationError
from triptych.records import DerivedSig
from triptych.search.postprocessing import boost_scores, query_keywords


def hit(content: str, score: float, name: str = "a", index: int = 0, dataset: str = "d") -> Hit:
    return Hit(
        dataset_id=dataset,
        doc_name=name,
        layer=Layer.DETAIL,
        content=content,
        score=score,
        chunk_index=index,
        sig=DerivedSig(),
    )


@each_row(
    ("query", "words"),
    [
        ("How do RETRIES work, retries?", ("how", "retries", "work")),
        ("a an ox C++ id", ("c++",)),
        ("getUserName", ("getusername",)),
        ("茶壶怎么重启", ("茶壶", "怎么", "重启")),
        ("カタカナ", ("カタ", "タカ", "カナ")),
        ("重启 restart 的", ("重启", "restart")),
        ("ＦＵＬＬ wıdth İstanbul", ("full", "wıdth", "istanbul")),
        ("?!", ()),
    ],
)
def test_the_words_that_count(query: str, words: tuple[str, ...]) -> None:
    assert query_keywords(query) == words


def test_a_score_rises_by_its_share_for_each_word_that_is_there() -> None:
    found = boost_scores(
        [hit("nothing", 1.0, "a"), hit("The Retries, retries", 0.9, "b"), hit("both", 0.5, "c")],
        ("retries", "the", "missing"),
        0.1,
    )
    assert [(each.doc_name, each.score) for each in found] == [("b", 1.08), ("a", 1.0), ("c", 0.5)]


def test_words_are_found_inside_words_and_in_any_spelling() -> None:
    found = boost_scores(
        [hit("UNTRIED ＲＥＴＲＩＥＳ İSTANBUL", 1.0)], ("tried", "retries", "istanbul"), 1
    )
    assert found[0].score == 4.0


def test_a_negative_score_moves_up_too() -> None:
    found = boost_scores([hit("", -0.1, "a"), hit("word", -0.1, "b")], ("word",), 0.5)
    assert [(each.doc_name, each.score) for each in found] == [("b", -0.05), ("a", -0.1)]


def test_ties_come_by_name_index_and_dataset() -> None:
    hits = [
        hit("", 1.1, "b", 0, "d"),
        hit("word", 1.0, "a", 2, "d"),
        hit("word", 1.0, "a", 1, "e"),
        hit("word", 1.0, "a", 1, "d"),
    ]
    found = boost_scores(hits, ("word",), 0.1)
    places = [(each.doc_name, each.chunk_index, each.dataset_id) for each in found]
    assert places == [("a", 1, "d"), ("a", 1, "e"), ("a", 2, "d"), ("b", 0, "d")]
    assert [each.score for each in hits] == [1.1, 1.0, 1.0, 1.0]


# In a search

TEXTS = {
    "often.md": "kettle kettle",
    "both.md": "a kettle with handlebars",
    "other.md": "nothing of the kind",
}


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder=None) as service:
        service.put_documents("d", TEXTS)
        yield service


def names(service: Service, **fields: object) -> list[str]:
    hits = service.search("kettle handlebar", dataset_id="d", **fields).hits
    return [each.doc_name for each in hits]


def test_it_is_off_unless_asked_for(kb: Service) -> None:
    # "handlebar" is no whole word of either text, so that BM25 does not count it ...
    kb.configure_dataset("d", language="none")
    assert names(kb) == ["often.md", "both.md"]
    plain = kb.search("kettle handlebar", dataset_id="d").hits
    assert [each.score for each in plain] == [each.scores["bm25"] for each in plain]
    # ... while the boost finds it inside one.
    assert names(kb, keyword_boost=5) == ["both.md", "often.md"]


def test_a_hit_from_below_top_k_can_come_up(kb: Service) -> None:
    kb.configure_dataset("d", language="none")
    assert names(kb, top_k=1) == ["often.md"]
    assert names(kb, top_k=1, keyword_boost=5) == ["both.md"]


def test_the_threshold_sees_the_score_before_the_boost(kb: Service) -> None:
    best = kb.search("kettle", dataset_id="d").hits[0]
    assert not kb.search(
        "kettle", dataset_id="d", threshold=best.score * 1.01, keyword_boost=1.0
    ).hits
    (raised, *_) = kb.search("kettle", dataset_id="d", threshold=best.score, keyword_boost=1.0).hits
    assert raised.score == pytest.approx(2 * best.score)
    assert raised.scores == best.scores


def test_layers_are_boosted_and_whole_documents_refuse_it(kb: Service) -> None:
    for name in ("often.md", "both.md"):
        kb.put_document_layer("d", name, "L0", TEXTS[name])
    plain = kb.search("kettle", dataset_id="d", layer="L0").hits
    raised = kb.search("kettle", dataset_id="d", layer="L0", keyword_boost=0.1).hits
    assert [each.score for each in raised] == [
        pytest.approx(1.1 * each.score, abs=1e-6) for each in plain
    ]
    with pytest.raises(ValidationError, match="beginning"):
        kb.search_documents("kettle", dataset_id="d", keyword_boost=0.1)
    assert kb.search_documents("kettle", dataset_id="d").hits


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), True, "0.1", None])
def test_an_invalid_share_is_refused(kb: Service, value: object) -> None:
    with pytest.raises(ValidationError, match="keyword_boost"):
        kb.search("kettle", dataset_id="d", keyword_boost=value)


def test_many_queries_and_a_boosted_query_record(kb: Service) -> None:
    query = triptych.Query(text="kettle", dataset_id="d", keyword_boost=1.0)
    (one,) = kb.search_many([query])
    assert one == kb.search(query)
    assert one.hits[0].score == pytest.approx(
        2 * kb.search(attrs.evolve(query, keyword_boost=0.0)).hits[0].score
    )
