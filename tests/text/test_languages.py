"""Each text in its own language: what is found, what is named, and that English stays as it is."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples
from support.rows import each_row
from triptych.text import AUTO, corpus_stats, get_analyzer
from triptych.text.function_words import function_words, recognised_languages

ROOT = Path(__file__).parents[2]
FOUND = get_analyzer(AUTO)
ENGLISH = get_analyzer("english")
NOTES: dict[str, list[tuple[str, str]]] = defaultdict(list)
for line in (ROOT / "tests/fixtures/inflections.tsv").read_text(encoding="utf-8").splitlines():
    language, note, question = line.split("\t")
    NOTES[language].append((note, question))

# Of ten notes of a sentence each. The rest is not told from English, or its stemmer keeps two forms
# apart.
LEAST = {
    **dict.fromkeys(["german", "french", "spanish", "russian", "hindi", "japanese", "korean"], 10),
    "portuguese": 9,
    "greek": 9,
    "italian": 8,
    "dutch": 8,
    "arabic": 7,
    "swedish": 6,
    "turkish": 5,
}


def found_by_words(notes: Sequence[tuple[str, str]], beside: Sequence[str] = ()) -> int:
    """How many notes their queries find first."""
    with triptych.open("memory://", embedder=None) as kb:
        texts = [*(text for text, _ in notes), *beside]
        kb.put_documents("notes", {f"{at:03}": text for at, text in enumerate(texts)})
        results = [kb.search(query, mode="bm25", top_k=1).hits for _, query in notes]
    return sum(bool(hits) and hits[0].doc_name == f"{at:03}" for at, hits in enumerate(results))


@each_row("language", NOTES)
def test_a_note_is_found_by_another_form_of_its_words(language: str) -> None:
    assert found_by_words(NOTES[language]) >= LEAST[language]


def test_german_and_english_notes_lie_in_one_dataset() -> None:
    english = [
        ("The trees in the garden are cut before the winter.", "tree cutting"),
        ("The contract begins on the first of January.", "contracts"),
        ("The windows leak, and the caretaker comes tomorrow.", "leaking window"),
    ]
    texts = [text for text, _ in NOTES["german"]]
    assert found_by_words(NOTES["german"], [text for text, _ in english]) == 10
    assert found_by_words(english, texts) == 3


def test_five_notes_together_are_in_their_language() -> None:
    for language in recognised_languages().keys() & NOTES.keys():
        texts = [text for text, _ in NOTES[language]]
        for five in (texts[:5], texts[5:]):
            assert FOUND.language_of("\n".join(five)) == language


def test_english_documents_have_no_other_language() -> None:
    paragraphs = [
        each
        for path in sorted((ROOT / "docs").rglob("*.md"))
        for each in re.split(r"\n\n", path.read_text(encoding="utf-8"))
        if len(each) > 200 and each.isascii()
    ]
    assert len(paragraphs) > 500
    assert [each for each in paragraphs if FOUND.language_of(each) != "english"] == []


@pytest.mark.parametrize(
    "note", ["# Sea\n\nTea in a pot.", "The dove and the nun lie in hay.", "A tout drinks ale."]
)
def test_english_words_that_another_language_has_do_not_name_it(note: str) -> None:
    assert get_analyzer(AUTO).language_of(note) == "english"


def test_english_is_searched_as_by_english() -> None:
    texts = {
        path.name: path.read_text(encoding="utf-8")
        for path in islice(sorted((ROOT / "docs/how-to").glob("*.md")), 20)
    }
    questions = ["how do I sync folders", "keys", "what is stale", "get_analyzer s3_bucket 3.14"]
    ranked = []
    for language in ("english", AUTO):
        with triptych.open("memory://", embedder=None, language=language) as kb:
            kb.put_documents("docs", texts)
            results = [kb.search(each, mode="bm25") for each in questions]
            ranked.append([[(h.doc_name, h.chunk_index, h.score) for h in r.hits] for r in results])
    assert ranked[0] == ranked[1]


def test_a_label_is_in_the_language_of_its_text() -> None:
    numbering = FOUND.numbering(terms := {})
    texts, labels = ["Die Verträge sind nicht da.", "Contracts"], ["Verträge", "Verträge"]
    encoded = [numbering.encode_all(each) for each in (texts, labels)]
    found = numbering.in_language(texts, encoded[0], labels, encoded[1])
    names = list(terms)
    assert [names[number] for number in found[1][0]] == [":ge:vertrag", "verträg"]
    assert FOUND.analyze("Verträge", "german") == [":ge:vertrag"]


@pytest.mark.parametrize(("others", "prefix"), [(46, ":ge:"), (47, "")])
def test_a_text_is_in_the_language_of_so_many_of_its_words(others: int, prefix: str) -> None:
    text = " ".join(["und", "nicht", "auch", "wird", *["zebra"] * others])
    numbering = FOUND.numbering(terms := {})
    known = numbering.encode_all([text])
    (numbers, _), _ = numbering.in_language([text], known, [text], known)
    assert [list(terms)[at] for at in numbers.tolist()] == FOUND.analyze(text)
    assert FOUND.analyze(text)[0] == f"{prefix}und"


def test_numbers_names_and_scripts_have_one_term_in_all_languages() -> None:
    for text in ("3.14", "s3_bucket", "договор", "計算機", "2026"):
        assert set(ENGLISH.analyze(text)) - {"bucket"} <= set(FOUND.analyze(text, "german"))


@each_row(
    ("text", "query"),
    [
        ("условия договоров", "договор"),
        ("खिड़कियाँ", "खिड़की"),
        ("συμβόλαια", "συμβόλαιο"),
        ("الشوارع", "شوارع"),
    ],
)
@each_row("language", ["english", "german", AUTO])
def test_a_script_tells_the_stemmer(text: str, query: str, language: str) -> None:
    analyzer = get_analyzer(language)
    assert set(analyzer.analyze_query(query)) <= set(analyzer.analyze(text))


def test_a_language_stems_its_own_script_and_none_stems_nothing() -> None:
    assert get_analyzer("serbian").analyze("књиге") == get_analyzer("serbian").analyze("knjige")
    assert get_analyzer("none").analyze("договоров") == ["договоров"]


@each_row(
    ("run", "asked"),
    [
        ("車を洗う", ["車を", "を洗", "洗う", "車", "洗"]),
        ("計算機を", ["計算", "算機", "機を"]),
        ("책을", ["책을", "책"]),
        ("책상을", ["책상", "상을"]),
        ("コード", ["コー", "ード"]),
    ],
)
def test_a_word_of_one_character_before_a_particle_is_asked_for(run: str, asked: list[str]) -> None:
    assert ENGLISH.analyze_query(run) == asked


def test_stop_words_are_those_of_the_language() -> None:
    question = "Quelle est la capitale de la France"
    assert get_analyzer("french").analyze_query(question) == ["capital", "franc"]
    assert FOUND.analyze_query(question) == ENGLISH.analyze_query(question)
    assert ENGLISH.analyze_query("die Welt") == ["die", "welt"]


def test_statistics_count_a_text_once_whatever_variant_it_holds() -> None:
    texts = ["Das Haus ist nicht da.", "Die Häuser sind nicht da.", "a haus", "nothing"]
    stats = corpus_stats(texts, tokenizer=FOUND)
    assert stats.pooled(FOUND.variants("Haus")).document_frequencies == {"haus": 3}


MIXED = st.lists(
    st.sampled_from(
        [
            *sorted(
                {word for language in recognised_languages() for word in function_words(language)}
            ),
            *("the", "of", "and", "Häuser", "3.14", "getUserName", "казна", "車を", "x"),
        ]
    ),
    max_size=25,
).map(" ".join)


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(MIXED, max_size=5))
def test_numbers_are_those_of_analyze(texts: list[str]) -> None:
    numbering = FOUND.numbering(terms := {})
    for _ in range(2):
        known = numbering.encode_all(texts)
        (numbers, sizes), labels = numbering.in_language(texts, known, texts, known)
        names = list(terms)
        found = iter([names[number] for number in numbers.tolist()])
        assert [list(islice(found, size)) for size in sizes] == [*map(FOUND.analyze, texts)]
        assert labels[0].tolist() == numbers.tolist()


@settings(deadline=None, max_examples=examples(200))
@given(MIXED)
def test_a_text_is_found_by_each_word_of_itself(text: str) -> None:
    counts = Counter(FOUND.analyze(text))
    variants = FOUND.variants(text)
    assert list(variants) == list(dict.fromkeys(FOUND.analyze_query(text)))
    for term, some in variants.items():
        assert some[0] == term
        assert any(counts[each] for each in some)
