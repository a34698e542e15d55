"""Whether a result answers: signals, the model, and what a search says by it."""

from __future__ import annotations

import math
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import triptych
from triptych import Query, Service
from triptych.errors import ValidationError
from triptych.records import Candidate, Evidence, RankedList, Result
from triptych.search import Calibration, HeldOut, LaneModel, lanes_key
from triptych.search.calibration import (
    calibration_text,
    parse_calibration,
    save_calibration,
    signals_of,
)
from triptych.text import corpus_stats
from triptych_evaluation import Collection, JudgedQuery, calibrate, read_golden
from triptych_evaluation.calibration import JudgedSignals, area_under_curve, fit_model
from triptych_testing.fakes import ScriptedLLM

THINGS = (
    *("harbour", "lighthouse", "keeper", "storm", "signal", "lantern"),
    *("tide", "ferry", "captain", "anchor", "rope", "sail"),
)
NOWHERE = (
    *("quantum", "enzyme", "mortgage", "parliament", "volcano"),
    *("cartridge", "opera", "violin", "glacier"),
)
HELD_OUT = HeldOut(
    auc=0.5, precision=0.5, recall=0.5, f1=0.5, nothing_precision=0.5, nothing_recall=0.5, refused=0
)


def documents() -> dict[str, str]:
    return {
        f"{thing}.md": f"# The {thing}\n\nThe {thing} is kept by the {other} near the shore."
        for thing, other in zip(THINGS, THINGS[1:] + THINGS[:1], strict=True)
    }


def questions() -> Collection:
    there = [
        JudgedQuery(query_id=f"a{at}", text=f"who keeps the {thing}", grades={f"{thing}.md": 1})
        for at, thing in enumerate(THINGS)
    ]
    absent = [
        JudgedQuery(query_id=f"n{at}", text=f"who explains the {left} {right}", unanswerable=True)
        for at, (left, right) in enumerate(
            (left, right) for left in NOWHERE for right in NOWHERE[:2] if left != right
        )
    ]
    return Collection(name="shore", queries=(*there, *absent))


@pytest.fixture
def kb() -> Service:
    service = triptych.open("memory://", embedder="hash")
    service.put_documents("shore", documents())
    return service


def lane(name: str, *scores: float) -> RankedList:
    found = [
        Candidate(dataset_id="d", doc_name=f"{at}", index=0, score=score)
        for at, score in enumerate(scores)
    ]
    return RankedList(lane=name, candidates=found)


def test_signals_are_read_off_the_lanes_own_scores() -> None:
    stats = corpus_stats([["storm"], ["storm", "tide"], ["tide"], ["rope"]])
    found = signals_of([lane("bm25", 1.2, 0.4), lane("vector", 0.7, 0.6)], ["storm", "gone"], stats)
    idf = math.log(1 + 2.5 / 2.5) + math.log(1 + 4.5 / 0.5)
    assert found == {"bm25_best": 1.2, "bm25_share": pytest.approx(1.2 / idf), "vector_best": 0.7}
    assert signals_of([lane("bm25")], [], stats) == {"bm25_best": 0.0, "bm25_share": 0.0}
    assert signals_of([lane("bm25", 2.0), lane("own", 1.0)], ["storm"], None) == {"bm25_best": 2.0}


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(-5, 40), st.booleans()), min_size=4, max_size=80)
)
def test_a_higher_signal_never_lowers_the_probability(
    rows: list[tuple[float, float, bool]],
) -> None:
    rows += [(0.5, 3.0, True), (0.4, 2.0, False)]
    samples = [
        JudgedSignals(
            question=str(at),
            signals={"bm25_share": share, "bm25_best": best},
            answered=answered,
        )
        for at, (share, best, answered) in enumerate(rows)
    ]
    model = fit_model(samples, ["bm25_share", "bm25_best"])
    assert min(model.weights.values()) >= 0
    assert 0 <= model.nothing <= model.enough <= 1
    low = model.probability({"bm25_share": 0.2, "bm25_best": 1.0})
    high = model.probability({"bm25_share": 0.3, "bm25_best": 1.5})
    assert 0 <= low <= high <= 1


def test_the_model_is_the_logistic_regression_that_the_data_follow() -> None:
    random = np.random.default_rng(3)
    signals = random.normal(size=(4000, 2))
    chance = 1 / (1 + np.exp(-(1.5 * signals[:, 0] + 0.5 * signals[:, 1])))
    answered = random.random(4000) < chance
    samples = [
        JudgedSignals(
            question=str(at),
            signals={"bm25_share": float(row[0]), "vector_best": float(row[1])},
            answered=bool(was),
        )
        for at, (row, was) in enumerate(zip(signals, answered, strict=True))
    ]
    model = fit_model(samples, ["bm25_share", "vector_best"])
    assert model.weights["bm25_share"] == pytest.approx(1.5, abs=0.12)
    assert model.weights["vector_best"] == pytest.approx(0.5, abs=0.12)
    # What the true model itself would have on such data.
    best = area_under_curve(chance[answered], chance[~answered])
    assert model.held_out.auc == pytest.approx(best, abs=0.01)
    assert model.held_out.precision > 0.85
    assert model.held_out.refused < 0.08


def test_a_signal_that_says_nothing_claims_nothing_on_held_out_questions() -> None:
    random = np.random.default_rng(5)
    samples = [
        JudgedSignals(
            question=str(at), signals={"vector_best": float(value)}, answered=bool(at % 2)
        )
        for at, value in enumerate(random.random(400))
    ]
    model = fit_model(samples, ["vector_best"])
    assert model.held_out.auc == pytest.approx(0.5, abs=0.1)
    assert model.held_out.refused < 0.15


def judged(result: Result) -> str | None:
    """What the calibration says; None where it says nothing."""
    evidence = result.evidence
    return evidence.level if evidence is not None and evidence.calibrated else None


def test_calibrated_searches_say_whether_they_answer(kb: Service) -> None:
    assert judged(kb.search("who keeps the ferry", dataset_id="shore")) is None
    found = calibrate(kb, questions(), dataset_id="shore", top_k=3)
    assert (found.calibration.answered, found.missed) == (12, 0)
    assert set(found.calibration.models) == {"bm25", "vector", "bm25+vector"}
    assert found.calibration.models["bm25"].held_out.auc > 0.9
    save_calibration(kb.capabilities.settings, "shore", found.calibration)
    assert kb.capabilities.settings is not None
    kept = calibration_text(kb.capabilities.settings, "shore")
    assert kept is not None
    assert parse_calibration(kept) == found.calibration
    for mode in ("hybrid", "bm25", "vector"):
        for top_k in (1, 5):
            asked = Query(text="who keeps the ferry", dataset_id="shore", mode=mode, top_k=top_k)
            assert judged(kb.search(asked)) == "strong"
    lost = kb.search("explain the parliament of the violin", dataset_id="shore")
    assert lost.hits
    assert judged(lost) == "none"
    # What is shown of it, and in which order, does not matter.
    page = kb.search("who keeps the ferry", dataset_id="shore", offset=2)
    assert judged(page) == "strong"
    assert judged(kb.search("ferry", dataset_id="shore", layer="L0")) is None
    assert judged(kb.search_documents("ferry", dataset_id="shore")) is None


def test_without_hits_there_is_nothing_calibrated_or_not(kb: Service) -> None:
    found = kb.search("glacier", dataset_id="shore", mode="bm25")
    assert found.hits == ()
    assert found.evidence == Evidence(level="none", reason="Nothing was found.")
    assert judged(kb.search("ferry", dataset_id="shore", offset=50)) is None


def test_a_calibration_of_another_configuration_is_not_used(kb: Service) -> None:
    made = calibrate(kb, questions(), dataset_id="shore").calibration
    for changed, words in (
        ({"embed_sig": "other"}, "it was made with the embedder 'other'"),
        ({"analyzer_sig": "old"}, "it was made with the analyzer 'old'"),
        ({"chunker_sig": "small"}, "it was made with the chunker 'small'"),
        ({"version": 0}, "it is of version 0"),
    ):
        save_calibration(kb.capabilities.settings, "shore", attrs.evolve(made, **changed))
        result = kb.search("who keeps the ferry", dataset_id="shore")
        assert judged(result) is None
        (warning,) = (each for each in result.warnings if "judged" in each)
        assert words in warning
        assert "eval calibrate" in warning
    settings = kb.capabilities.settings
    assert settings is not None
    key = "answerability/shore"
    assert settings.set_setting(key, "{", expected=settings.get_setting(key))
    result = kb.search("who keeps the ferry", dataset_id="shore")
    assert judged(result) is None
    assert any("cannot be read" in each for each in result.warnings)


def test_it_goes_with_its_dataset(kb: Service) -> None:
    made = calibrate(kb, questions(), dataset_id="shore").calibration
    save_calibration(kb.capabilities.settings, "shore", made)
    kb.delete_dataset("shore")
    assert kb.capabilities.settings is not None
    assert calibration_text(kb.capabilities.settings, "shore") is None


def test_a_lane_without_a_model_leaves_the_result_unjudged(kb: Service) -> None:
    made = calibrate(kb, questions(), dataset_id="shore").calibration
    only = attrs.evolve(made, models={"bm25": made.models["bm25"]})
    save_calibration(kb.capabilities.settings, "shore", only)
    ask = "who keeps the ferry"
    assert judged(kb.search(ask, dataset_id="shore", mode="bm25")) == "strong"
    assert judged(kb.search(ask, dataset_id="shore")) is None


def test_few_questions_are_refused(kb: Service) -> None:
    few = attrs.evolve(questions(), queries=questions().queries[:15])
    with pytest.raises(ValidationError, match="3 questions without an answer"):
        calibrate(kb, few, dataset_id="shore")
    none = attrs.evolve(questions(), queries=questions().queries[8:])
    with pytest.raises(ValidationError, match="4 questions whose answer was found"):
        calibrate(kb, none, dataset_id="shore")


def test_bad_models_are_refused() -> None:
    model = LaneModel(
        weights={"bm25_best": 1.0}, bias=0.0, nothing=0.2, enough=0.6, held_out=HELD_OUT
    )
    assert model.probability({"bm25_best": 0.0}) == 0.5
    assert [model.verdict(each) for each in (0.1, 0.2, 0.6)] == ["nothing", "weak", "enough"]
    for wrong in (
        {"weights": {"fused": 1.0}},
        {"weights": {"bm25_best": -1.0}},
        {"bias": math.inf},
        {"nothing": 0.7},
    ):
        with pytest.raises(ValidationError):
            attrs.evolve(model, **wrong)
    assert lanes_key(["vector", "own", "bm25"]) == "bm25+vector"
    assert attrs.fields(Calibration).version.default == 1


def test_questions_without_an_answer_in_a_golden_set(tmp_path: Path) -> None:
    file = tmp_path / "golden.yaml"
    file.write_text(
        "reviewed: false\n"
        "queries:\n"
        "  - {question: one, expected_files: [a.md], expected_keywords: [deploy, 'to the']}\n"
        "  - {question: two, answerable: false, reviewed: true}\n"
    )
    one, two = read_golden(file).queries
    assert (one.keywords, one.unanswerable, one.reviewed) == (("deploy", "to the"), False, False)
    assert (two.grades, two.unanswerable, two.reviewed) == ({}, True, True)
    for text, words in (
        ("- {question: q, expected_files: [a.md], answerable: false}", "names files"),
        ("- {question: q, answerable: maybe}", "answerable is true or false"),
        ("- {question: q}", "or answerable: false where none does"),
    ):
        file.write_text(text)
        with pytest.raises(ValidationError, match=words):
            read_golden(file)
    with pytest.raises(ValidationError, match="marked as unanswerable"):
        JudgedQuery(query_id="q", text="q", grades={"a.md": 1}, unanswerable=True)


def test_ask_abstains_by_the_calibration(kb: Service) -> None:
    made = calibrate(kb, questions(), dataset_id="shore").calibration
    save_calibration(kb.capabilities.settings, "shore", made)
    llm = ScriptedLLM("The lantern [1].")
    lost = kb.ask("explain the parliament of the violin", dataset_id="shore", llm=llm)
    assert (lost.abstained, lost.reason, llm.requests) == (True, "nothing", [])
    assert kb.ask("who keeps the ferry", dataset_id="shore", llm=llm).text == "The lantern [1]."


def test_a_cached_answer_is_judged_by_the_calibration_of_now() -> None:
    with triptych.open("memory://", embedder="hash", semantic_cache=True) as kb:
        kb.put_documents("shore", documents())
        ask = "who keeps the ferry"
        assert judged(kb.search(ask, dataset_id="shore")) is None
        made = calibrate(kb, questions(), dataset_id="shore").calibration
        save_calibration(kb.capabilities.settings, "shore", made)
        assert judged(kb.search(ask, dataset_id="shore")) == "strong"
