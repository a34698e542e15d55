"""How far evidence supports what was found, in one record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

import triptych
from support.rows import each_row
from triptych.records import EmbedKind, Evidence, Query, RankedList, Strength
from triptych.search import Calibration, HeldOut, LaneModel
from triptych.search.calibration import save_calibration
from triptych.search.strength import LIMITS, Scale, query_stats
from triptych.service import Service
from triptych.text import AUTO, CorpusStats, get_analyzer
from triptych_adapters.cli.hits import render_hits, views_of
from triptych_adapters.cli.names import SourceFiles
from triptych_adapters.tools import knowledge_tools
from triptych_testing.builders import keyword_query
from triptych_testing.fakes import ScriptedLLM

WORDS: Sequence[Strength] = ("none", "weak", "fair", "strong")
TEXTS = {
    "kettle": "Turn the lid of the kettle to the left, and pull it off while the water is cold.",
    "stove": "The stove has four plates. The front plates heat faster than the others.",
    "broom": "A broom hangs behind the pantry door, next to the shovel and the whisk.",
    "cellar": "The cellar holds apples, potatoes and the wine of last autumn.",
}


@attrs.frozen
class Compass:
    """Embeds a text as a direction in a plane: by the first of its words that is an angle."""

    cosine_range: tuple[float, float] | None = (0.2, 0.6)
    signature: str = "compass"
    dimension: int = 2

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        angles = [next((float(w) for w in text.split() if w.isdecimal()), 0.0) for text in texts]
        turned = np.deg2rad(angles)
        return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder=None, llm=None) as service:
        service.put_documents("d", TEXTS)
        yield service


def level(kb: Service, query: str, **options: Any) -> str:
    evidence = kb.search(query, dataset_id="d", **options).evidence
    assert evidence is not None
    return evidence.level


def located(embedder: Compass) -> Service:
    kb = triptych.open("memory://", embedder=embedder, llm=None)
    kb.put_documents("d", {f"n{at}": f"{at} north" for at in (0, 5, 10)})
    return kb


def test_keywords_alone_tell_an_answer_from_another_subject(kb: Service) -> None:
    found = kb.search("turn the lid off the kettle", dataset_id="d")
    assert found.evidence is not None
    assert found.evidence.level in ("fair", "strong")
    assert "rare words" in found.evidence.numbers
    other = kb.search(
        "which plates does the central bank's interest rate policy turn on", dataset_id="d"
    )
    assert other.hits
    assert other.evidence == Evidence(
        level="none",
        reason="These are probably not about it.",
        numbers=other.evidence.numbers,
        weak_from=other.evidence.weak_from,
    )


def test_nothing_found_is_none(kb: Service) -> None:
    found = kb.search("zebra", dataset_id="d")
    assert found.evidence == Evidence(level="none", reason="Nothing was found.")


@each_row(
    ("angle", "mode", "word"),
    [(90, None, "none"), (90, "vector", "none"), (65, "vector", "fair"), (5, "vector", "strong")],
)
def test_vectors_are_read_by_the_embedders_range(angle: int, mode: str | None, word: str) -> None:
    with located(Compass()) as kb:
        found = kb.search(f"is it at {angle + 10} degrees", dataset_id="d", mode=mode)
        assert found.evidence.level == word
        assert f"cosine of {np.cos(np.deg2rad(angle)):.2f}" in found.evidence.numbers


def test_an_unknown_embedder_never_makes_it_none() -> None:
    with located(Compass(cosine_range=None)) as kb:
        found = kb.search("is it at 100 degrees", dataset_id="d")
        assert found.hits
        assert (found.evidence.level, found.evidence.weak_from) == ("weak", None)
        assert "not known" in found.evidence.numbers


def test_a_question_in_words_that_are_not_there_is_never_none() -> None:
    asked, terms = "wohin zeigt denn der Kompass", ["wohin", "zeigt", "denn", "der", "kompass"]
    stats = CorpusStats(document_count=2_000, total_length=9, document_frequencies={})
    scale = Scale({"bm25", "vector"}, (0.2, 0.6), asked, terms, stats)
    level, numbers = scale.level({"vector": 0.25})
    assert level == "weak"
    assert "hardly a word of the question occurs here" in numbers
    assert scale.level({"vector": 0.15})[0] == "none"  # nor is anything near


def test_texts_without_vectors_are_judged_by_keywords() -> None:
    with triptych.open("memory://", embedder=Compass(), llm=None) as kb:
        kb.put_documents("d", TEXTS, embed="later")
        assert level(kb, "turn the lid off the kettle") == "strong"


def test_hits_below_the_evidence_are_marked_and_stay() -> None:
    with triptych.open("memory://", embedder=Compass(), llm=None) as kb:
        kb.put_documents("d", {f"n{at}": f"{at} north" for at in (0, 20, 100, 110)})
        found = kb.search("0 degrees", dataset_id="d")
        assert [hit.doc_name for hit in found] == ["n0", "n20", "n100", "n110"]
        assert found.evidence.weak_from == 2
        views = views_of(found.hits, SourceFiles(kb))
        shown = render_hits(views, width=80, show_dataset=False, weak_from=found.evidence.weak_from)
        lines = [line.plain for line in shown]
        assert lines[lines.index("-- weak from here on --") + 1].startswith("n100")
        assert kb.search("0 degrees", dataset_id="d", offset=1).evidence.weak_from == 1
        assert kb.search("0 degrees", dataset_id="d", offset=3).evidence.weak_from == 0
        assert kb.search("0 degrees", dataset_id="d", top_k=2).evidence.weak_from is None


@pytest.mark.parametrize("angle", [0, 90])
def test_one_word_or_two_are_judged_by_where_they_stand(angle: int) -> None:
    with triptych.open("memory://", embedder=Compass(), llm=None) as kb:
        texts = {f"n{at}.md": f"# Note\n\n{at + 60} degrees of east wind" for at in range(20)}
        texts["ferry.md"] = f"# Harbour\n\n{angle} degrees, a paraffin lamp"
        kb.put_documents("d", texts)
        for query, expected, reason in (
            ("paraffin", "fair", "The word is in 1 passage."),
            ("Harbour", "strong", "The word is in a heading or a name."),
            ("ferry", "strong", "The word is in a heading or a name."),
            ("wind", "fair", "The word is in 20 passages."),
            ("paraffin lamp", "fair", "The words are in at most 1 passage."),
            ("paraffin wind", "weak", "No passage that was found holds both words."),
        ):
            found = kb.search(query, dataset_id="d").evidence
            assert found is not None
            assert found.reason == reason
            assert WORDS.index(found.level) >= WORDS.index(expected)  # vectors may say more
        assert kb.search("paraffin", dataset_id="d").evidence.weak_from == 1


def test_a_word_that_is_repeated_is_no_more_evidence() -> None:
    stats = CorpusStats(document_count=9, total_length=99, document_frequencies={"kettle": 3})
    for lanes in ({"bm25"}, {"bm25", "vector"}):
        once, often = (
            Scale(lanes, (0.2, 0.6), " ".join(words), words, stats).level(
                {"bm25": 0.7 * len(words), "vector": 0.1}
            )
            for words in (["kettle"], ["kettle"] * 50)
        )
        assert once == often


def test_hits_that_hold_one_of_two_words_are_weak_where_others_hold_both() -> None:
    with triptych.open("memory://", embedder=None) as kb:
        texts = {f"{at}": f"They return home on day {at}." for at in range(5)}
        kb.put_documents("d", {**texts, "tax": "The tax return is sent in May."})
        evidence = kb.search("tax return", dataset_id="d").evidence
        assert evidence is not None
        assert evidence.weak_from == 1


def test_what_is_usual_for_other_subjects_grows_with_the_store() -> None:
    def above(chunks: int) -> float:
        stats = CorpusStats(
            document_count=chunks, total_length=9, document_frequencies={"ship": 1, "leave": 1}
        )
        asked = "when does the ship leave"
        scale = Scale({"bm25", "vector"}, (0.25, 0.6), asked, ["ship", "leave"], stats)
        return scale.of({"vector": 0.3})

    assert above(6) > 0 > above(2_000)
    assert above(2_000) == above(100_000)  # what was not measured is taken to stay


def test_layers_and_whole_documents_have_no_word(kb: Service) -> None:
    assert kb.search("kettle", dataset_id="d", layer="L0").evidence is None
    assert kb.search_documents("kettle", dataset_id="d").evidence is None
    assert kb.search("", dataset_id="d", where={"doc_name": "stove"}).evidence is None


OTHER = "which plates does the central bank's interest rate policy turn on"


def test_ask_abstains_at_none_and_says_why(kb: Service) -> None:
    llm = ScriptedLLM("Four [1].")
    answer = kb.ask(OTHER, dataset_id="d", llm=llm)
    assert (answer.reason, answer.usage.calls) == ("nothing", 0)
    assert "no evidence: These are probably not about it." in answer.warnings
    pack = kb.context(OTHER, 500, dataset_id="d")
    assert pack.evidence.level == "none"
    assert answer.pack.pieces == pack.pieces  # what is nearest can still be shown
    forced = kb.ask(OTHER, dataset_id="d", llm=llm, answerability=lambda result: "enough")
    assert forced.reason == ""


def test_a_calibration_wins_over_the_word(kb: Service) -> None:
    always = HeldOut(
        auc=1, precision=1, recall=1, f1=1, nothing_precision=1, nothing_recall=1, refused=0
    )
    model = LaneModel(
        weights={"bm25_best": 1.0}, bias=1.0, nothing=0.1, enough=0.5, held_out=always
    )
    config = kb.store.chunks.config("d")
    assert config is not None
    calibration = Calibration(
        models={"bm25": model},
        embed_sig="",
        analyzer_sig=get_analyzer(config.language).signature,
        chunker_sig=config.chunker_sig,
        answered=10,
        unanswered=10,
        top_k=10,
    )
    save_calibration(kb.store.capabilities.settings, "d", calibration)
    found = kb.search(OTHER, dataset_id="d", mode="bm25")
    assert (found.evidence.level, found.evidence.calibrated) == ("strong", True)
    assert found.evidence.reason == "These probably answer it."
    assert kb.ask(OTHER, dataset_id="d", llm=ScriptedLLM("Four [1].")).reason == ""


def test_the_tools_say_the_word(kb: Service) -> None:
    tools = {tool.name: tool for tool in knowledge_tools(kb)}
    for name, arguments in (("knowledge_search", {}), ("knowledge_context", {"token_budget": 500})):
        said = json.loads(tools[name].call({"query": OTHER, **arguments}))
        assert said["evidence"] == "none"
        assert any("These are probably not" in warning for warning in said["warnings"])


scores = st.floats(0, 50)
cosines = st.floats(-1, 1)


@given(scores, cosines, scores, cosines, st.integers(0, 10**7), st.booleans())
def test_more_evidence_never_makes_a_weaker_word(
    score: float, cosine: float, other: float, nearer: float, texts: int, known: bool
) -> None:
    stats = CorpusStats(
        document_count=texts, total_length=9, document_frequencies={"lid": 1} if known else {}
    )
    for lanes in ({"bm25"}, {"vector"}, {"bm25", "vector"}):
        for span in ((0.25, 0.6), None):
            scale = Scale(lanes=lanes, cosines=span, text="lid", terms=["lid"], stats=stats)
            worse, better = (
                {"bm25": each(score, other), "vector": each(cosine, nearer)} for each in (min, max)
            )
            low, high = (scale.level(best)[0] for best in (worse, better))
            assert WORDS.index(low) <= WORDS.index(high)
            if scale.doubts(worse):
                assert low != "none"
    assert list(LIMITS.values()) == sorted(LIMITS.values())


def test_statistics_are_of_all_datasets_also_where_a_lane_searched_some(kb: Service) -> None:
    kb.put_documents("e", {"lid": "The lid of the pan is blue."})
    whole = kb.store.capabilities.document_search
    assert whole is not None
    resolved = kb.searches.resolver.resolve(Query(text="kettle lid", dataset_ids=("d", "e"))).query
    query = attrs.evolve(resolved, datasets_of={"vector": ("d",)})
    of_one = kb.chunks.search(keyword_query("kettle lid", "d"))
    of_both = kb.chunks.search(keyword_query("kettle lid", "d", "e"))
    terms = get_analyzer(AUTO).analyze_query(query.text)
    expected = query_stats(whole, AUTO, query, terms, [])
    assert expected.document_frequencies == {"kettl": 1, "lid": 2}
    for lane, found in (("vector", of_one), ("bm25", of_both), ("mine", list(of_both))):
        lists = [RankedList(lane=lane, candidates=found)]
        assert query_stats(whole, AUTO, query, terms, lists) == expected
