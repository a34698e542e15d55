"""The query language: how a text is read, what a condition holds, what it costs."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

import triptych
from support.rows import each_row
from triptych import Query, ValidationError
from triptych.records import Candidate, EmbedKind, ResolvedQuery
from triptych.search import ParsedQuery, TextConditions, parse_query
from triptych_testing.fakes import FakeEmbedder


def parsed(text: str) -> ParsedQuery:
    return parse_query(Query(text=text))


@each_row(
    ("text", "words", "conditions", "where"),
    [
        ("how do I start", "how do I start", {}, {}),
        ('"to be" or not', "to be or not", {"phrases": ("to be",)}, {}),
        ("“curly” quotes", "curly quotes", {"phrases": ("curly",)}, {}),
        ('cats -dogs -"big dogs"', "cats", {"excluded": ("dogs", "big dogs")}, {}),
        ("retr* -ca*", "retr", {"prefixes": ("retr",), "excluded_prefixes": ("ca",)}, {}),
        ("x lang:en lang:de", "x", {}, {"lang": ("en", "de")}),
        ('x name:"a b.md" in:docs/', "x", {}, {"doc_name": ("a b.md",), "doc_prefix": ("docs/",)}),
        ("x heading:Setup section:Use", "x", {}, {"heading": ("Setup", "Use")}),
        # Signs that ask for nothing
        ('an "open quote', 'an "open quote', {}, {}),
        ('"" and "--"', '"" and "--"', {}, {}),
        ("a - b -5 --flag f* *", "a - b -5 --flag f* *", {}, {}),
        ("http://x 12:30 std::vec C:\\a", "http://x 12:30 std::vec C:\\a", {}, {}),
        ("error: no", "error: no", {}, {}),
        ("well-known C++", "well-known C++", {}, {}),
        # Dots, hyphens and other signs in prefixes and exclusions
        ("3.11* C+* a/b*", "3.11 C+ a/b", {"prefixes": ("3.11", "C+", "a/b")}, {}),
        (
            "x -node.j* -kebab-ca* -3.11* -.NET -draft, -dra*.",
            "x",
            {
                "excluded_prefixes": ("node.j", "kebab-ca", "3.11", "dra"),
                "excluded": (".NET", "draft"),
            },
            {},
        ),
    ],
)
def test_a_text_is_read(
    text: str, words: str, conditions: dict[str, tuple[str, ...]], where: dict[str, object]
) -> None:
    assert attrs.evolve(parsed(text), warnings=()) == ParsedQuery(
        text=words,
        conditions=TextConditions(**conditions),
        where=where,  # type: ignore[arg-type]  # as short as the cases are written
    )


@each_row(
    ("text", "does", "where"),
    [
        ("-draft", "excludes", ""),
        ("-dra*", "excludes", ""),
        ("lang:en", "names fields", "lang='en'"),
        ('in:"a b/" lang:en', "names fields", "doc_prefix='a b/'"),
        ("-draft lang:en", "names fields and excludes", "lang='en'"),
    ],
)
def test_a_query_without_words_is_refused_by_what_it_has(text: str, does: str, where: str) -> None:
    with pytest.raises(ValidationError) as refused:
        parsed(text)
    listed = f"; or list all that match, by `where` (--where) {where} without a query"
    assert str(refused.value) == (
        f"the query {text!r} only {does}: add a word or a phrase to search for"
        + (listed if where else "")
    )


def test_the_error_of_a_long_field_is_short() -> None:
    with pytest.raises(ValidationError) as refused:
        parsed(f"{'k' * 5_000}:{'v' * 5_000}")
    assert len(str(refused.value)) < 400


@pytest.mark.property
@given(st.text() | st.text(alphabet='ab"-*: \n', max_size=30))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    try:
        found = parsed(text)
    except ValidationError:
        return
    # Nothing is lost: each letter is a word to rank by, or part of a condition.
    kept = [
        found.text,
        *found.conditions.excluded,
        *found.conditions.excluded_prefixes,
        *found.where,
        *(value for values in found.where.values() for value in values),
    ]
    assert {c for c in text if c.isalnum()} <= {c for part in kept for c in part}


@each_row(
    ("phrase", "text", "holds"),
    [
        ("failed request", "A FAILED\n  **request**.", True),
        ("failed request", "failed requests", False),
        ("don", "don't", False),
        ("don't", "I don't.", True),
        ("quoted", "it is 'quoted' so", True),
        ("1.2", "version 1.2.3", False),
        ("C++", "in c++, of course", True),
        ("a -b", "run a -b now", True),
        ("a -b", "run a b now", False),
        ("知识库", "我的知识库很大", True),
        ("café", "CAFE\u0301", True),
        ("straße", "STRASSE", True),
        # Emphasis, which is not part of a name
        *(
            ("a failed request", f"a {mark}failed{mark} request", True)
            for mark in ("_", "__", "*", "**", "***", "~~", "`")
        ),
        ("a failed request", "a **_failed_** _**request**_", True),
        ("a failed request", "a _failed request_, b", True),
        ("failed request", "a __failed__ _request_.", True),
        ("failed request", "[failed request](x)", True),
        ("run -b", "to **run** `-b` now", True),
        ("my_handler", "the `my_handler`, the _my_handler_", True),
        ("my_handler", "not_my_handler my_handler_two my_handler2", False),
        ("handler", "my_handler handler_two self._handler", False),
        ("__init__", "def __init__(self)", True),
        ("__init__", "def init(self)", False),
        # What a reader sees
        ("my_handler_name", r"call my\_handler\_name", True),
        ("the café of Müller", "the caf&eacute; of M&uuml;ller", True),
        ("Überraschung", r'"\u00dcberraschung"', True),
        ("profit and loss", "profit&nbsp;and loss", True),
        ("line next", r'"line\nnext"', True),
        ("C:\\new", r"C:\new", True),
        ("29125 cars", "29,125 cars", True),
        ("29,125 cars", "29125 cars", True),
        ("200", "100,200,300", True),
        # A star makes a prefix of a word
        ("failed requ*", "failed **requests**", True),
        ("fail* request", "a failed request", True),
        ("failed requ*", "failed at requests", False),
        ("A* search", "and search", False),
        ("A* search", "the A* search", True),
    ],
)
def test_a_phrase_is_words_as_they_are_spelt(phrase: str, text: str, holds: bool) -> None:
    assert TextConditions(phrases=(phrase,)).admits(text) is holds
    assert TextConditions(excluded=(phrase,)).admits(text) is not holds


@each_row(
    ("prefix", "text", "words"),
    [
        ("3.11", "Python 3.11.2, 3.11 and 3.110; 13.11", ["3.11.2", "3.11", "3.110"]),
        ("3.1", "1.3.1.2", []),
        ("node.j", "Node.js", ["node.js"]),
        ("kebab-ca", "in `kebab-case-name`", ["kebab-case"]),
        ("c+", "C++", ["c+"]),
        ("don'", "I don't", ["don't"]),
        ("guide/sta", "see guide/start.md", ["guide/start"]),
        ("requ", "__request__ _requests_ _re_requ", ["request", "requests"]),
        ("my_ha", r"my\_handler\_name", ["my_handler_name"]),
        ("2912", "29,125", ["29125"]),
        ("ne", r"line\nnext", ["next"]),
    ],
)
def test_a_prefix_is_the_begin_of_a_word_as_it_is_seen(
    prefix: str, text: str, words: list[str]
) -> None:
    asked = TextConditions(prefixes=(prefix,))
    assert list(asked.words_of(text)) == words
    assert asked.admits(text) is bool(words)
    assert TextConditions(excluded_prefixes=(prefix,)).admits(text) is not bool(words)


@each_row(
    ("text", "said"),
    [
        ("tea f*", "the star at 'f*' makes no prefix"),
        ("tea (retr*)", "the star at '(retr*)' makes no prefix"),
        ("tea -f*", "the star at '-f*' makes no prefix"),
        ("tea -3.11", "'-3.11' was searched as a number"),
        ("tea -2.5.1", "'-2.5.1' was searched as a number"),
        ("tea -5", ""),
        ("tea **bold** *args a*b * **", ""),
        ('tea te* 3.1* -te.a* -"3.11"', ""),
    ],
)
def test_a_sign_that_does_nothing_is_named_in_a_warning(text: str, said: str) -> None:
    warnings = parsed(text).warnings
    assert [said in each for each in warnings] == [True] * bool(said)


@pytest.mark.parametrize("word", ["'x' -y", 1, None])
def test_syntax_is_a_switch(word: object) -> None:
    with triptych.open("memory://", embedder="none") as kb:
        kb.dataset("d").put("a", "x")
        with pytest.raises(ValidationError, match="syntax is True or False"):
            kb.search("x", dataset_id="d", syntax=word)


class Counting(FakeEmbedder):
    """Counts what it embeds as queries."""

    queries = 0

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        if kind == "query":
            self.queries += len(texts)
        return super().embed(texts, kind=kind)


def test_a_query_is_embedded_once_however_deep_a_lane_looks() -> None:
    embedder = Counting()
    with triptych.open("memory://", embedder=embedder) as kb:
        docs = kb.dataset("d")
        docs.put_many({f"n{at:03}": "ferry storm" for at in range(200)} | {"z": "ferry tide"})
        assert [hit.doc_name for hit in docs.search("ferry -storm", syntax=True).hits] == ["z"]
    assert embedder.queries == 1


class ByPlace:
    """A lane of one's own that names chunks by document and index, all of them, in order."""

    name = "place"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def recall(self, query: ResolvedQuery) -> list[Candidate]:
        return [
            Candidate(dataset_id="d", doc_name=name, index=0, score=1.0 - at / 1000)
            for at, name in enumerate(self.names)
        ][: query.limit]


def test_a_lane_of_ones_own_is_held_to_the_conditions() -> None:
    names = [f"n{at:03}" for at in range(100)]
    with triptych.open("memory://", embedder="none", retrievers=[ByPlace(names)]) as kb:
        docs = kb.dataset("d")
        docs.put_many(dict.fromkeys(names[:-1], "ferry storm") | {names[-1]: "ferry tide"})
        for mode in ("place", "hybrid"):
            result = docs.search("ferry -storm", syntax=True, mode=mode)
            assert [hit.doc_name for hit in result.hits] == [names[-1]]
            assert docs.search('x "no such words"', syntax=True, mode=mode).hits == ()


def test_a_short_prefix_says_that_it_stands_for_too_many_words() -> None:
    with triptych.open("memory://", embedder="none") as kb:
        docs = kb.dataset("d")
        often = " ".join(f"tid{number:04}" for number in range(1000))
        docs.put_many({"a": often, "b": often, "c": "tidy"})
        result = docs.search("tid*", syntax=True)
        assert {hit.doc_name for hit in result.hits} == {"a", "b"}
        assert result.warnings == (
            "tid* stands for 1,001 words: the 1,000 most frequent are looked for; a longer prefix "
            "stands for fewer",
        )


@each_row(
    ("text", "named"),
    [
        ('"unclosed', '"unclosed'),
        ('tea "green leaves', '"green'),
        ('tea -"green leaves', '-"green'),
        ('kind:"green leaves', 'kind:"green'),
        ('"green tea" leaves"', 'leaves"'),
        ("“unclosed", '"unclosed'),
        ('a 15.6" screen', ""),
        ('צה"ל', ""),
        ('"" tea', ""),
        ('"green tea"', ""),
    ],
)
def test_a_quote_without_its_partner_is_named_in_a_warning(text: str, named: str) -> None:
    with triptych.open("memory://", embedder="none") as kb:
        kb.put_document("d", "a.md", 'Green tea leaves unclosed on a 15.6" screen. צה"ל')
        result = kb.search(text, dataset_id="d", syntax=True)
        said = [each for each in result.warnings if "has no partner" in each]
        assert [f"the quote at {named!r} " in each for each in said] == [True] * bool(named)
        assert result.hits
        assert kb.search(text, dataset_id="d").warnings == ()


@given(st.text(" \t\na1.,é\x1c\u3000()/'_", max_size=20))
def test_a_text_without_signs_is_read_as_any_other(text: str) -> None:
    # The colon, last and alone, is a word and nothing else: with it, the text is taken apart.
    assert parsed(f"{text} :").text == " ".join(filter(None, (parsed(text).text, ":")))


@each_row("item", ['"tea {}"', "-x{}", "te{}*", "-te{}*", '-"tea {}"'])
def test_conditions_are_bounded(item: str) -> None:
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_document("d", "a.md", "Tea.")
        for count, refused in ((63, False), (64, False), (65, True)):
            text = " ".join(("tea", *(item.format(number) for number in range(count))))
            if refused:
                with pytest.raises(ValidationError, match=r"65 phrases, .*the maximum is 64"):
                    kb.search(text, dataset_id="d", syntax=True)
            else:
                kb.search(text, dataset_id="d", syntax=True)
        assert kb.search(text, dataset_id="d").hits  # words alone


def test_a_query_that_is_too_long_is_refused_before_it_is_read() -> None:
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_document("d", "a.md", "Tea.")
        with pytest.raises(ValidationError, match="characters long"):
            kb.search('"tea" ' * 100_000, dataset_id="d", syntax=True)
