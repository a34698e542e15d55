"""The plain word for how far evidence supports what was found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

import triptych
from triptych.records import EmbedKind, Strength
from triptych.search.answerability import Calibration, HeldOut, LaneModel, save_calibration
from triptych.search.strength import LIMITS, Evidence
from triptych.service import Service
from triptych.testing.fakes import ScriptedLLM
from triptych.text import CorpusStats, get_analyzer
from triptych_adapters.cli.hits import render_hits, views_of
from triptych_adapters.cli.names import SourceFiles
from triptych_adapters.tools import knowledge_tools

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


def located(embedder: Compass) -> Service:
    kb = triptych.open("memory://", embedder=embedder, llm=None)
    kb.put_documents("d", {f"n{at}": f"{at} north" for at in (0, 5, 10)})
    return kb


def test_keywords_alone_tell_an_answer_from_another_subject(kb: Service) -> None:
    found = kb.search("turn the lid off the kettle", dataset_id="d")
    assert found.strength in ("fair", "strong")
    assert "rare words" in found.strength_reason
    other = kb.search(
        "which plates does the central bank's interest rate policy turn on", dataset_id="d"
    )
    assert other.hits
    assert other.strength == "none"
    assert "rare words" in other.strength_reason


def test_nothing_found_is_none(kb: Service) -> None:
    found = kb.search("zebra", dataset_id="d")
    assert (found.strength, found.strength_reason) == ("none", "nothing was found")
    assert found.weak_from is None


@pytest.mark.parametrize(
    ("angle", "mode", "word"),
    [(90, None, "none"), (90, "vector", "none"), (60, "vector", "fair"), (5, "vector", "strong")],
)
def test_vectors_are_read_by_the_embedders_range(angle: int, mode: str | None, word: str) -> None:
    with located(Compass()) as kb:
        found = kb.search(f"is it at {angle + 10} degrees", dataset_id="d", mode=mode)
        assert found.strength == word
        assert f"cosine of {np.cos(np.deg2rad(angle)):.2f}" in found.strength_reason


def test_an_unknown_embedder_never_makes_it_none() -> None:
    with located(Compass(cosine_range=None)) as kb:
        found = kb.search("is it at 100 degrees", dataset_id="d")
        assert found.hits
        assert (found.strength, found.weak_from) == ("weak", None)
        assert "not known" in found.strength_reason


def test_a_question_in_words_that_are_not_there_is_never_none() -> None:
    with located(Compass()) as kb:
        found = kb.search("wohin zeigt denn der 100 Kompass", dataset_id="d")
        assert found.strength == "weak"
        assert "hardly a word of the question occurs here" in found.strength_reason


def test_texts_without_vectors_are_judged_by_keywords() -> None:
    with triptych.open("memory://", embedder=Compass(), llm=None) as kb:
        kb.put_documents("d", TEXTS, embed="later")
        assert kb.search("turn the lid off the kettle", dataset_id="d").strength == "strong"


def test_hits_below_the_evidence_are_marked_and_stay() -> None:
    with triptych.open("memory://", embedder=Compass(), llm=None) as kb:
        kb.put_documents("d", {f"n{at}": f"{at} north" for at in (0, 20, 85, 89)})
        found = kb.search("0 degrees", dataset_id="d")
        assert [hit.doc_name for hit in found] == ["n0", "n20", "n85", "n89"]
        assert found.weak_from == 2
        views = views_of(found.hits, SourceFiles(kb))
        shown = render_hits(views, width=80, show_dataset=False, weak_from=found.weak_from)
        lines = [line.plain for line in shown]
        assert lines[lines.index("-- weak from here on --") + 1].startswith("n85")
        assert kb.search("0 degrees", dataset_id="d", offset=1).weak_from == 1
        assert kb.search("0 degrees", dataset_id="d", offset=3).weak_from == 0
        assert kb.search("0 degrees", dataset_id="d", top_k=2).weak_from is None


def test_layers_and_whole_documents_have_no_word(kb: Service) -> None:
    assert kb.search("kettle", dataset_id="d", layer="L0").strength is None
    assert kb.search_documents("kettle", dataset_id="d").strength is None
    assert kb.search("", dataset_id="d", where={"doc_name": "stove"}).strength is None


OTHER = "which plates does the central bank's interest rate policy turn on"


def test_ask_abstains_at_none_and_says_why(kb: Service) -> None:
    llm = ScriptedLLM("Four [1].")
    answer = kb.ask(OTHER, dataset_id="d", llm=llm)
    assert (answer.reason, answer.usage.calls) == ("nothing", 0)
    assert any("rare words" in warning for warning in answer.warnings)
    assert kb.context(OTHER, 500, dataset_id="d").strength == "none"
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
    assert (found.strength, found.answerability) == ("none", "enough")
    assert kb.ask(OTHER, dataset_id="d", llm=ScriptedLLM("Four [1].")).reason == ""


def test_the_tools_say_the_word(kb: Service) -> None:
    tools = {tool.name: tool for tool in knowledge_tools(kb)}
    for name, arguments in (("knowledge_search", {}), ("knowledge_context", {"token_budget": 500})):
        said = json.loads(tools[name].call({"query": OTHER, **arguments}))
        assert said["strength"] == "none"
        assert any("evidence is none" in warning for warning in said["warnings"])


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
            evidence = Evidence(lanes=lanes, cosines=span, text="lid", terms=["lid"], stats=stats)
            low, high = (
                evidence.word({"bm25": each(score, other), "vector": each(cosine, nearer)})[0]
                for each in (min, max)
            )
            assert WORDS.index(low) <= WORDS.index(high)
            if evidence.doubts:
                assert low != "none"
    assert list(LIMITS.values()) == sorted(LIMITS.values())
