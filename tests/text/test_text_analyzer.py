from __future__ import annotations

import threading

import pytest

import triptych.text
from support.rows import each_row
from triptych.text import Analyzer, get_analyzer, languages
from triptych.text.words import MAX_WORD_LENGTH

PLAIN = get_analyzer("none")
ENGLISH = get_analyzer()


@each_row(
    ("text", "terms"),
    [
        ("getUserName", ["getusername", "get", "user", "name"]),
        ("HTTPServer2", ["httpserver2", "http", "server", "server2"]),
        ("URLs mRNAs", ["urls", "mrnas", "rnas"]),
        ("snake_case_name", ["snake_case_name", "snake", "case", "name"]),
        ("MAX_RETRIES", ["max_retries", "max", "retries"]),
        ("__init__ _emphasis_ ___", ["init", "emphasis"]),
        ("foo.bar", ["foo.bar", "foo", "bar"]),
        ("node.js.", ["node.js", "node", "js"]),
        ("C++ C# g++.", ["c++", "c", "c#", "c", "g++", "g"]),
        ("a+b++c ## x", ["a", "b", "c", "x"]),
        ("v1.2.3 3.14 192.168.0.1", ["v1.2.3", "1.2.3", "3.14", "192.168.0.1"]),
        ("utf8 p53 COVID-19", ["utf8", "utf", "p53", "53", "covid", "19"]),
        ("U.S.A. e.g.", ["usa", "eg"]),
        ("don't O’Reilly 'quoted'", ["don't", "don", "o'reilly", "reilly", "quoted"]),
        ("https://docs.python.org/3", ["https", "docs.python.org", "docs", "python", "org", "3"]),
        ("jo@example.com", ["jo", "example.com", "example", "com"]),
        ("3f2a9b1c8d7e6f5a4b3c2d1e", ["3f2a9b1c8d7e6f5a4b3c2d1e"]),
    ],
)
def test_identifiers_give_the_whole_and_its_parts(text: str, terms: list[str]) -> None:
    assert PLAIN.analyze(text) == terms


@each_row(
    ("text", "terms"),
    [
        ("", []),
        (" \t\n\u3000", []),
        ("\x00", []),
        ("a\x00b", ["a", "b"]),
        ("\ud800abc\udfff", ["abc"]),
        ("\ud800中\udfff", ["中"]),
        ("🎉", []),
        ("𝒜𝓁𝓅𝒽𝒶", ["alpha"]),
        ("ＡＢＣ", ["abc"]),
        ("ﬁsh", ["fish"]),
        ("straße STRASSE", ["strasse", "strasse"]),
        ("İstanbul ISTANBUL ıslak", ["istanbul", "istanbul", "ıslak"]),
        ("cafe\u0301 CAFÉ", ["café", "café"]),
        ("co\u00adoperate\ufeff", ["cooperate"]),
        ("می\u200cخواهم", ["میخواهم"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ΣΊΣΥΦΟΣ σίσυφος", ["σίσυφοσ", "σίσυφοσ"]),
    ],
)
def test_unicode_is_folded(text: str, terms: list[str]) -> None:
    assert PLAIN.analyze(text) == terms


@each_row(
    ("text", "terms"),
    [
        ("猫", ["猫"]),
        ("黑猫", ["黑", "猫", "黑猫"]),
        ("使用Python编程", ["使", "用", "使用", "python", "编", "程", "编程"]),
        ("计算机", ["计", "算", "机", "计算", "算机", "计算机"]),
        ("東京で", ["東", "京", "東京", "京で"]),
        ("コード", ["コー", "ード"]),
        ("한국어", ["한", "국", "어", "한국", "국어"]),
        ("ไทย", ["ไท", "ทย"]),
        ("𠮷野", ["𠮷", "野", "𠮷野"]),
    ],
)
def test_unspaced_scripts_give_characters_pairs_and_chinese_words(
    text: str, terms: list[str]
) -> None:
    assert PLAIN.analyze(text) == terms


def test_a_query_asks_for_single_characters_only_where_a_word_is_one() -> None:
    assert ENGLISH.analyze_query("计算机") == ["计算", "算机", "计算机"]
    assert ENGLISH.analyze_query("我的猫") == ["我的", "的猫", "猫"]
    assert ENGLISH.analyze_query("猫") == ["猫"]


@each_row("query", ["猫", "黑猫", "人", "기", "国"])
def test_a_query_of_one_or_two_characters_finds_every_text_that_holds_it(query: str) -> None:
    text = f"一只小{query}人工智能공기중国民"
    assert set(ENGLISH.analyze_query(query)) <= set(ENGLISH.analyze(text))


def test_english_is_stemmed() -> None:
    assert ENGLISH.analyze("Relational databases' running") == ["relat", "databas", "run"]
    assert ENGLISH.analyze("the dog's") == ["the", "dog"]
    assert ENGLISH.analyze("getUserNames") == ["getusernam", "get", "user", "name"]
    assert get_analyzer("porter").analyze("this") == ["thi"]


@each_row("language", ["english", "porter"])
@each_row(
    ("form", "base"),
    [
        ("bought", "buy"),
        ("mice", "mouse"),
        ("women", "woman"),
        ("children's", "child"),
        ("Went", "go"),
        ("heard", "hear"),
        ("said", "saying"),
        ("drove", "drives"),
        ("repaid", "repay"),
        ("fled", "flee"),
        ("stuck", "stick"),
        ("WROTE", "writing"),
        ("overridden", "overrides"),
        ("criteria", "criterion"),
        ("vertices", "vertex"),
        ("hypotheses", "hypothesis"),
    ],
)
def test_irregular_forms_have_the_term_of_their_base(language: str, form: str, base: str) -> None:
    analyzer = get_analyzer(language)
    assert set(analyzer.analyze(base)) <= set(analyzer.analyze(form))
    assert analyzer.analyze(form)[0] == analyzer.analyze(base)[0]
    assert analyzer.analyze_query(form) == analyzer.analyze_query(base)


def test_irregular_forms_inside_identifiers_are_parts_as_well() -> None:
    assert ENGLISH.analyze("getChildren") == ["getchildren", "get", "child"]


@each_row(
    "word",
    [
        "saw",
        "left",
        "found",
        "felt",
        "rose",
        "ground",
        "wound",
        "led",
        "born",
        "lay",
        "data",
        "relaid",
        "staid",
    ],
)
def test_irregular_forms_that_are_words_of_their_own_keep_their_term(word: str) -> None:
    assert ENGLISH.analyze(word) == [word]


@pytest.mark.parametrize("language", ["german", "none", "french"])
def test_other_languages_know_no_english_forms(language: str) -> None:
    stem = {"german": "mic", "none": "mice", "french": "mic"}[language]
    assert get_analyzer(language).analyze("mice") == [stem]
    assert "irregular" not in get_analyzer(language).signature


def test_all_ways_to_a_term_know_irregular_forms() -> None:
    texts = ["the mice bought", "mice", "naïve mice", "bought bought"]
    numbers, sizes = ENGLISH.numbering(terms := {}).encode_all(texts)
    words = {number: term for term, number in terms.items()}
    assert [words[number] for number in numbers.tolist()] == [
        term for text in texts for term in ENGLISH.analyze(text)
    ]
    assert sizes.tolist() == [3, 1, 2, 2]
    assert "mice" not in terms


def test_stop_words_are_indexed_and_left_out_of_queries() -> None:
    assert ENGLISH.analyze("How do I start?") == ["how", "do", "i", "start"]
    assert ENGLISH.analyze_query("How do I start? I don't know") == ["start", "know"]


def test_a_word_that_only_shares_its_stem_with_a_stop_word_stays_in_the_query() -> None:
    assert ENGLISH.analyze_query("Jane Doe does") == ["jane", "doe"]


@each_row("query", ["to be or not to be", "The Who", "don't", "的", "我 的"])
def test_a_query_of_stop_words_alone_keeps_them(query: str) -> None:
    assert ENGLISH.analyze_query(query)
    assert ENGLISH.analyze_query(query) == ENGLISH.analyze(query)


def test_no_language_means_no_stems_and_no_stop_words() -> None:
    assert PLAIN.analyze_query("the databases") == ["the", "databases"]


@each_row("language", languages())
def test_every_language_analyzes(language: str) -> None:
    analyzer = get_analyzer(language)
    assert analyzer.analyze("Москва naïve 中国 getUserName 123")
    assert language in analyzer.signature


def test_signatures_differ_by_language() -> None:
    assert len({get_analyzer(language).signature for language in languages()}) == len(languages())


def test_an_unknown_language_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match=r"'klingon'.*english.*none"):
        get_analyzer("klingon")


def test_an_analyzer_is_made_once() -> None:
    assert get_analyzer() is get_analyzer()
    assert isinstance(get_analyzer(), Analyzer)


@each_row(
    "text",
    [
        "a" * 1_000_000,
        "aB" * 500_000,
        "a1" * 500_000,
        "a." * 500_000,
        ".".join(["a" * 300] * 50),
        "_" * 1_000_000,
        "+" * 1_000_000,
        "a" + "\u0301\u0323" * 500_000,
        "\ufdfa" * 20_000,
    ],
    ids=[
        "letters",
        "camel",
        "digits",
        "dots",
        "pieces",
        "underscores",
        "plus",
        "marks",
        "expanding",
    ],
)
def test_a_word_without_end_gives_bounded_terms_in_bounded_time(text: str) -> None:
    terms = PLAIN.analyze(text)
    assert max(map(len, terms), default=0) <= MAX_WORD_LENGTH
    assert sum(map(len, terms)) <= 3 * 20 * len(text)


def test_what_the_cache_cannot_hold_is_analyzed_all_the_same() -> None:
    fresh = Analyzer("english")
    long_run = "word-" * 100
    # The dash of the ASCII path separates; the non-ASCII one sees one long run.
    assert fresh.analyze(long_run + "é") == ["word"] * 100 + ["é"]
    assert fresh.analyze(long_run) == ["word"] * 100


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triptych.text.analyzer.CACHE_RUNS", 10)
    fresh = Analyzer("english")
    for number in range(100):
        assert fresh.analyze(f"word{number}")[0] == f"word{number}"
        assert len(fresh._runs) <= 10


def test_numbering_numbers_terms_in_order_of_appearance() -> None:
    vocabulary = {"dog": 0}
    numbers, sizes = ENGLISH.numbering(vocabulary).encode_all(["A dog, a cat", "", "dog's cats"])
    assert numbers.tolist() == [1, 0, 1, 2, 0, 2]
    assert sizes.tolist() == [4, 0, 2]
    assert vocabulary == {"dog": 0, "a": 1, "cat": 2}


def test_lines_in_ascii_of_another_text_are_looked_up_in_arrays() -> None:
    numbering = ENGLISH.numbering(vocabulary := {})
    texts = [
        "caf\u00e9 dog\nself.name = cat\n\n\u2028",
        "\u00a0",
        "dog\n\u5927\u5b66\ncats don't",
        "",
        "cat",
    ]
    numbers, sizes = numbering.encode_all(texts)
    terms = list(vocabulary)
    at = 0
    for text, size in zip(texts, sizes.tolist(), strict=True):
        assert [terms[number] for number in numbers[at : at + size]] == ENGLISH.analyze(text)
        at += size
    assert at == len(numbers)
    # The others went into the dictionary that is asked for one run after the other.
    assert set(numbering) == {"caf\u00e9", "dog", "\u5927\u5b66"}


def test_numbering_looks_up_more_runs_than_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triptych.text.term_ids.CACHE_RUNS", 5000)
    vocabulary: dict[str, int] = {}
    numbering = Analyzer("none").numbering(vocabulary)
    for start in range(0, 20_000, 1_500):
        # Two words apart from their neighbours, one of them too long for the table.
        texts = [f"w{number} x{number:030}y don't" for number in range(start, start + 3_000)]
        numbers, sizes = numbering.encode_all(texts)
        terms = list(vocabulary)
        found = [terms[number] for number in numbers.tolist()]
        expected = [term for text in texts for term in Analyzer("none").analyze(text)]
        assert found == expected
        assert int(sizes.sum()) == len(found)
        assert len(numbering) <= 5000


def test_threads_share_an_analyzer() -> None:
    analyzer = Analyzer("english")
    text = " ".join(f"running{number}s databases{number}" for number in range(2000))
    expected = ENGLISH.analyze(text)
    results: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: results.append(analyzer.analyze(text))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_the_public_names_are_sorted_and_exist() -> None:
    names = triptych.text.__all__
    assert all(hasattr(triptych.text, name) for name in names)
    constants, classes, functions = (
        [name for name in names if name.isupper()],
        [name for name in names if not name.isupper() and name[0].isupper()],
        [name for name in names if name.islower()],
    )
    assert names == sorted(constants) + sorted(classes) + sorted(functions)


def test_what_a_caller_does_with_the_terms_of_a_query_changes_no_later_answer() -> None:
    analyzer = get_analyzer("english")
    terms = analyzer.analyze_query("running dogs")
    terms.clear()
    assert analyzer.analyze_query("running dogs") == ["run", "dog"]
