from __future__ import annotations

import math
import unicodedata
from itertools import islice

import pytest
import regex
from hypothesis import example, given, settings, strategies as st

from support.examples import examples
from triptych.text import (
    WORD_CHARACTER,
    Analyzer,
    CJKTokenizer,
    SimpleTokenizer,
    corpus_stats,
    get_analyzer,
    languages,
    normalize,
    query_terms,
    score_text,
    snippet,
)
from triptych.text.tokens import _cost, _pieces, _texts, estimate_tokens
from triptych.text.words import MAX_WORD_LENGTH, fold, index_terms

pytestmark = pytest.mark.property

WORD = regex.compile(WORD_CHARACTER)
WORDS = """
    word Word getUserName HTTPServer2 snake_case don't o’clock C++ c# v1.2.3 U.S.A p53 the
    中 中国人民 使用 計算機 かな カタカナ 한국 ไทย हिन्दी é İ ß ﬁ Ａ １ 𠮷 🎉
    . .. ' ’ + ++ # - _ __ / @ … ´ ½ , 1,234 1'234 1_234 1.234.567 s3_x
    \\ \\_ \\. \\nx \\u00dc \\xc3\\xbc &eacute; &pi; &#252; &shy; & ;
"""
INVISIBLE = ["\u0301", "e\u0301", "\u200d", "\xad", "\x00", " ", "\n", "\u3000", "\ufeff", "\ud800"]
FRAGMENTS = st.sampled_from([*WORDS.split(), *INVISIBLE])
TEXTS = st.one_of(
    st.lists(FRAGMENTS, max_size=20).map("".join),
    st.text(st.characters(codec=None, exclude_categories=()), max_size=60),
    st.text(st.characters(max_codepoint=127), max_size=60),
)
ANY_LANGUAGE = st.sampled_from(languages()).map(get_analyzer)
relaxed = settings(deadline=None, max_examples=examples(200))


@relaxed
@given(TEXTS, TEXTS)
def test_text_cut_outside_words_has_the_terms_of_its_halves(first: str, second: str) -> None:
    text = unicodedata.normalize("NFKC", first + second)
    analyzer = get_analyzer()
    whole = analyzer.analyze(text)
    for cut in range(1, len(text)):
        if not WORD.match(text[cut - 1]) and not WORD.match(text[cut]):
            assert analyzer.analyze(text[:cut]) + analyzer.analyze(text[cut:]) == whole


CODE = st.text(st.sampled_from("abcsXYZ019_.'+# ,\n\t\x00\x1f\x7f"), max_size=80)


@relaxed
@given(st.lists(TEXTS | CODE, max_size=6), ANY_LANGUAGE, st.booleans())
def test_numbering_is_analyze_numbered(texts: list[str], analyzer: object, again: bool) -> None:
    assert isinstance(analyzer, type(get_analyzer()))
    vocabulary = {"the": 0, "word": 1}
    numbering = analyzer.numbering(vocabulary)
    for _ in range(1 + again):
        numbers, sizes = numbering.encode_all(texts)
        assert list(vocabulary.values()) == list(range(len(vocabulary)))
        words = list(vocabulary)
        found = iter([words[number] for number in numbers.tolist()])
        assert [list(islice(found, size)) for size in sizes] == [
            analyzer.analyze(text, "english") for text in texts
        ]
        assert next(found, None) is None


@relaxed
@given(st.lists(CODE | TEXTS, max_size=6), st.sampled_from(languages()))
def test_words_learnt_together_have_the_terms_of_each_alone(
    texts: list[str], language: str
) -> None:
    learnt, alone = Analyzer(language), Analyzer(language)
    learnt.numbering({}).encode_all(texts)
    assert [learnt.analyze(text) for text in texts] == [alone.analyze(text) for text in texts]


@relaxed
@given(TEXTS)
def test_a_query_asks_only_for_what_its_own_text_is_indexed_under(text: str) -> None:
    analyzer = get_analyzer()
    terms = analyzer.analyze(text)
    asked = analyzer.analyze_query(text)
    assert set(asked) <= set(terms)
    assert bool(asked) == bool(terms)
    assert all(0 < len(term) <= MAX_WORD_LENGTH for term in terms)


@relaxed
@given(TEXTS)
def test_ascii_and_unicode_text_take_the_same_way(text: str) -> None:
    analyzer = get_analyzer()
    # A non-ASCII separator sends the same text down the general path.
    assert analyzer.analyze(text) == analyzer.analyze(text + " …")


@relaxed
@example("ﬁ1,234")
@given(TEXTS)
def test_compatible_spellings_have_the_same_terms(text: str) -> None:
    analyzer = get_analyzer("none")
    assert analyzer.analyze(unicodedata.normalize("NFKC", text)) == analyzer.analyze(text)
    assert analyzer.analyze(unicodedata.normalize("NFD", text)) == analyzer.analyze(text)


@relaxed
@given(st.text(max_size=40))
def test_folding_is_stable(word: str) -> None:
    assert fold(fold(normalize(word))) == fold(normalize(word))


@relaxed
@given(st.text(st.sampled_from("中国人民使用計算機かカナ한국ไทย𠮷"), min_size=1, max_size=20))
def test_no_span_of_a_run_is_counted_twice(run: str) -> None:
    spans = len(run) - 1 + len(run)
    short = [term for term in index_terms(run) if len(term) <= 2]
    assert len(short) <= spans
    for term in set(index_terms(run)):
        assert index_terms(run).count(term) <= len(regex.findall(term, run, overlapped=True))
    assert set(query_terms(run)) <= set(index_terms(run))


@relaxed
@given(TEXTS, st.integers(1, 40), st.integers(0, 30))
def test_a_snippet_lies_in_its_text(text: str, length: int, repeat: int) -> None:
    text = text * repeat
    query = get_analyzer().analyze_query(text[-10:])
    start, end = snippet(text, query, length=length)
    assert 0 <= start <= end <= len(text)
    assert end - start <= length
    assert end > start or not text


@relaxed
@given(TEXTS)
def test_tokenizers_take_any_text(text: str) -> None:
    for tokenizer in (SimpleTokenizer(), CJKTokenizer()):
        assert all(isinstance(token, str) for token in tokenizer.tokenize(text))


@relaxed
@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=8), max_size=8))
def test_scores_are_never_negative_and_zero_without_a_match(documents: list[list[str]]) -> None:
    stats = corpus_stats(documents)
    for document in documents:
        assert score_text(["z"], document, stats) == 0
        assert (score_text(["a"], document, stats) > 0) == ("a" in document)


_COLLECTIONS = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=6), max_size=8)


@given(_COLLECTIONS, _COLLECTIONS, st.randoms(use_true_random=False))
def test_corpus_stats_grow_and_shrink_to_what_is_counted_at_once(first, second, random) -> None:
    whole = first + second
    random.shuffle(whole)
    assert corpus_stats(first).with_documents(second) == corpus_stats(whole)
    assert corpus_stats(whole).without_documents(second) == corpus_stats(first)
    assert corpus_stats(whole).without_documents(whole) == corpus_stats([])


@given(TEXTS | st.text(st.characters(max_codepoint=127)))
def test_the_texts_that_are_counted_are_the_pieces_that_have_a_kind(text: str) -> None:
    pieces = [found[0] for found in _pieces().finditer(text)]
    assert _texts(False)(text) == pieces
    assert _texts(text.isascii())(text) == pieces


@given(TEXTS | st.text(st.characters(max_codepoint=127)) | st.text('aaaaaB1.  \t\f\n"é'))
def test_a_text_is_estimated_as_its_pieces_are_whatever_stands_between_them(text: str) -> None:
    costs = [_cost(found[0]) for found in _pieces().finditer(text)]
    assert estimate_tokens(text) == math.ceil(round(sum(costs), 6))


@given(TEXTS | st.text('aaZZ1. \t\n\0"éдü漢'), TEXTS | st.text('aaZZ1. \t\n\0"éдü漢'))
def test_an_estimate_grows_with_the_text_and_hardly_passes_its_bytes(text: str, more: str) -> None:
    assert estimate_tokens(text) <= estimate_tokens(text + more)
    assert estimate_tokens(text) <= math.ceil(1.05 * len(text.encode("utf-8", "surrogatepass")))


def test_half_a_pair_of_surrogates_is_estimated_too() -> None:
    assert estimate_tokens("\ud800") == 3


@pytest.mark.parametrize(("count", "tokens"), [(20, 20), (22, 23), (10_000, 10_499)])
def test_a_long_row_of_capitals_is_estimated_above_its_bytes(count: int, tokens: int) -> None:
    assert estimate_tokens("A" * count) == tokens
