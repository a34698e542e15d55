from __future__ import annotations

import pytest
from rank_bm25 import BM25Okapi  # type: ignore[import-untyped]  # it has no stubs

from support.rows import each_row
from triptych.errors import ValidationError
from triptych.text import (
    CJKTokenizer,
    SimpleTokenizer,
    Tokenizer,
    corpus_stats,
    detect_tokenizer,
    extract_keywords,
    get_analyzer,
    score_text,
    snippet,
)

TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "the dog sleeps",
    "a fox is not a dog is not a cat",
    "rain in Spain",
]
DOCUMENTS = [text.split() for text in TEXTS]


def test_simple_tokenizer_keeps_words_as_they_are_spelt() -> None:
    assert SimpleTokenizer().tokenize("The Dogs' getUserName, 3.14 编程") == [
        "the",
        "dogs",
        "getusername",
        "3.14",
        "编程",
    ]


def test_cjk_tokenizer_cuts_chinese_into_words_and_other_scripts_into_pairs() -> None:
    tokenize = CJKTokenizer().tokenize
    assert tokenize("我来到北京清华大学 Python") == [
        "我",
        "来到",
        "北京",
        "清华大学",
        "python",
    ]
    assert tokenize("コード 한국어 か") == ["コー", "ード", "한국", "국어", "か"]


@each_row(
    ("text", "kind"),
    [
        ("", SimpleTokenizer),
        ("123", SimpleTokenizer),
        ("plain English", SimpleTokenizer),
        ("an English sentence that mentions 北京 once and goes on", SimpleTokenizer),
        ("使用Python编程", CJKTokenizer),
        ("한국어", CJKTokenizer),
    ],
)
def test_the_share_of_cjk_letters_decides_the_tokenizer(text: str, kind: type) -> None:
    chosen: Tokenizer = detect_tokenizer(text)
    assert type(chosen) is kind


def test_keywords_come_by_frequency_then_by_first_appearance() -> None:
    text = "The cache holds terms. A cache of terms is a cache, 42 times; it isn’t a list."
    assert extract_keywords(text, limit=3) == ["cache", "terms", "holds"]
    assert extract_keywords(text, limit=0) == []
    assert "isn't" not in extract_keywords(text)
    assert extract_keywords("机器学习是学习的一种，学习很重要")[0] == "学习"
    with pytest.raises(ValueError, match="negative"):
        extract_keywords(text, limit=-1)


def test_corpus_stats_count_documents_once_a_term() -> None:
    stats = corpus_stats(iter(DOCUMENTS))
    assert stats.document_count == 4
    assert stats.average_length == pytest.approx((9 + 3 + 10 + 3) / 4)
    assert stats.document_frequencies["dog"] == 3
    assert stats.document_frequencies["not"] == 1


def test_score_text_without_statistics_takes_the_text_for_all_there_is() -> None:
    text = ["brown", "dog", "dog"]
    alone = corpus_stats([text])
    for query in (["dog"], ["fox"], ["brown", "dog"], []):
        assert (
            score_text(query, text, None)
            == score_text(query, text)
            == score_text(query, text, alone)
        )
    assert score_text(["dog"], text, None) > score_text(["brown"], text, None) > 0
    assert score_text(["dog"], [], None) == 0.0


def test_score_text_agrees_with_rank_bm25_under_lucenes_idf() -> None:
    stats = corpus_stats(DOCUMENTS)
    oracle = BM25Okapi(DOCUMENTS, k1=1.2, b=0.75)
    oracle.idf = {term: stats.idf(term) for term in stats.document_frequencies}
    for query in (["fox"], ["dog", "fox", "dog"], ["not", "a", "unseen"], ["Spain"], []):
        expected = oracle.get_scores(query) / 2.2  # Lucene leaves out the factor k1 + 1.
        scores = [score_text(query, document, stats) for document in DOCUMENTS]
        assert scores == pytest.approx(list(expected), abs=1e-12)


def test_the_idf_is_lucenes() -> None:
    assert corpus_stats(DOCUMENTS).idf("dog") == pytest.approx(0.3566749, abs=1e-6)  # ln(1+1.5/3.5)


def test_an_empty_collection_scores_nothing() -> None:
    assert score_text(["dog"], ["dog"], corpus_stats([])) == 0.0
    assert score_text(["dog"], [], corpus_stats(DOCUMENTS)) == 0.0


def test_a_snippet_covers_most_query_terms() -> None:
    text = "alpha " + "filler " * 60 + "the happiness of relational databases " + "filler " * 60
    terms = get_analyzer().analyze_query("alpha relations database happiness")
    start, end = snippet(text, terms, length=80)
    assert end - start <= 80
    assert "happiness of relational databases" in text[start:end]
    assert not text[start - 1].strip()
    assert not text[end].strip()


def test_the_earliest_of_equal_snippets_wins() -> None:
    text = "filler " * 30 + "first target " + "filler " * 30 + "second target " + "filler " * 30
    start, end = snippet(text, ["target"], length=60)
    assert "first target" in text[start:end]


def test_a_snippet_without_a_match_is_the_start() -> None:
    text = "filler " * 100
    start, end = snippet(text, ["absent"], length=50)
    assert (start, text[start:end].split()) == (0, ["filler"] * 7)
    assert snippet("short", ["absent"]) == (0, 5)
    assert snippet("", []) == (0, 0)


def test_a_snippet_finds_words_not_their_insides() -> None:
    text = "concatenate " * 20 + "the cat sat " + "filler " * 20
    start, end = snippet(text, ["cat"], length=40)
    assert "the cat" in text[start:end]


def test_a_snippet_finds_a_final_y_that_the_stemmer_wrote_as_i() -> None:
    text = "filler " * 40 + "the library " + "filler " * 40
    start, end = snippet(text, get_analyzer().analyze_query("libraries"), length=40)
    assert "library" in text[start:end]


def test_snippet_positions_survive_case_folding_that_changes_length() -> None:
    text = "İ" * 300 + " needle " + "ß" * 300
    start, end = snippet(text, ["needle"], length=40)
    assert "needle" in text[start:end]


def test_a_snippet_of_chinese_needs_no_spaces() -> None:
    text = "山" * 300 + "机器学习" + "水" * 300
    start, end = snippet(text, get_analyzer().analyze_query("机器学习"), length=50)
    assert "机器学习" in text[start:end]
    assert end - start == 50


def test_a_snippet_needs_a_length() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        snippet("text", [], length=0)


def test_a_snippet_finds_the_irregular_forms_of_the_query() -> None:
    text = "Nothing here. " * 40 + "She bought two mice there. " + "Nor here, mentally. " * 40
    terms = get_analyzer().analyze_query("buy a mouse")
    start, end = snippet(text, terms, length=60)
    assert "bought two mice" in text[start:end]


def test_a_snippet_takes_no_longer_word_for_an_irregular_form() -> None:
    text = "Nothing. " * 40 + "The mentor came. " + "Nothing. " * 40 + "Three men came. "
    start, end = snippet(text, get_analyzer().analyze_query("man"), length=60)
    assert "men came" in text[start:end]


def test_keywords_are_index_terms_when_an_analyzer_cuts() -> None:
    analyzer = get_analyzer()
    text = "She buys caches. He bought a cache; they are buying it, 42 times. 机器学习"
    keywords = extract_keywords(text, tokenizer=analyzer)
    assert keywords[:2] == ["buy", "cach"]
    assert set(keywords) <= set(analyzer.analyze(text))
    assert extract_keywords("to be or not to be", tokenizer=analyzer) == []


def test_keywords_take_any_tokenizer() -> None:
    class Letters:
        def tokenize(self, text: str) -> list[str]:
            return [text[at : at + 2] for at in range(0, len(text), 2)]

    assert extract_keywords("xyxyzz", tokenizer=Letters()) == ["xy", "zz"]


@pytest.mark.parametrize("tokenizer", [get_analyzer(), SimpleTokenizer()])
def test_score_text_and_corpus_stats_cut_texts_with_a_tokenizer(tokenizer: Tokenizer) -> None:
    analyzer = get_analyzer()
    cut = analyzer.analyze if tokenizer is analyzer else tokenizer.tokenize
    terms = [cut(text) for text in TEXTS]
    stats = corpus_stats(TEXTS, tokenizer=tokenizer)
    assert stats == corpus_stats(terms)
    for text, its in zip(TEXTS, terms, strict=True):
        found = score_text("dog fox", text, stats, tokenizer=tokenizer)
        assert found == score_text(["dog", "fox"], its, stats)


def test_a_text_without_a_tokenizer_is_refused() -> None:
    stats = corpus_stats(DOCUMENTS)
    with pytest.raises(TypeError, match="tokenizer"):
        score_text("dog", ["dog"], stats)
    with pytest.raises(TypeError, match="tokenizer"):
        corpus_stats(["dog"])


def test_documents_that_a_collection_cannot_hold_do_not_leave_it() -> None:
    stats = corpus_stats(DOCUMENTS)
    for gone in ([["unseen"]], [*DOCUMENTS, ["dog"]], [["dog"] * 100]):
        with pytest.raises(ValidationError, match="does not hold"):
            stats.without_documents(gone)
    assert stats == corpus_stats(DOCUMENTS)
