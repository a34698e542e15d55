"""Receipts: what was considered and why, and the same text again from the versions kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples
from support.extractive_layers import build_layers
from triptych.answers import ESTIMATE, AnswerReceipt, ContextReceipt
from triptych.errors import ValidationError
from triptych.records import Layer, Message, Prices
from triptych.records.serialization import from_dict, to_dict
from triptych.service import Service
from triptych_testing.fakes import ScriptedLLM

KETTLE = "# Kettle\n\nTurn the lid to the left, and pull. Never lift it while the water boils.\n"
PAST = datetime(2020, 1, 1, tzinfo=UTC)
FORMATS = ("text", "markdown", "xml", "json")
LONG = "\n\n".join(f"The kettle's part {n} is made of steel number {n}." for n in range(60))


@pytest.fixture(params=["memory://", "kb.db", "files"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    place = {"memory://": "memory://", "files": f"files://{tmp_path / 'files'}"}
    url = place.get(request.param, str(tmp_path / "kb.db"))
    with triptych.open(url, embedder="hash", llm=None) as service:
        service.put_documents("d", {"kettle.md": KETTLE, "stove.md": "# Stove\n\nFour plates.\n"})
        yield service


def again(kind: Any, receipt: Any) -> Any:
    """A receipt that went through JSON."""
    read = from_dict(kind, json.loads(json.dumps(to_dict(receipt), allow_nan=False)))
    assert read == receipt
    return read


@pytest.mark.parametrize("fence", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_a_context_is_made_again_byte_for_byte(kb: Service, format: str, fence: bool) -> None:
    if fence and format == "json":
        with pytest.raises(ValidationError, match="JSON"):
            kb.context("lid", 500, dataset_id="d", format=format, fence=fence)
        return
    build_layers(kb, "d")
    pack = kb.context("kettle lid", 500, dataset_id="d", format=format, fence=fence)
    text = pack.render()
    receipt = again(ContextReceipt, pack.receipt)
    assert {piece.layer for piece in receipt.pieces} >= {Layer.DETAIL}
    assert KETTLE.strip() not in json.dumps(to_dict(receipt))
    for _ in range(2):
        made = kb.replay(receipt)
        assert (made.text, made.identical, made.missing) == (text, True, ())
        assert made.pieces == pack.pieces
        kb.put_document("d", "kettle.md", "# Kettle\n\nAnother text altogether.\n")


def test_an_answer_s_messages_are_made_again(kb: Service) -> None:
    turns = (Message("user", "Hello."), Message("assistant", "Hello [1]."))
    answer = kb.ask(
        "kettle lid",
        dataset_id="d",
        llm=ScriptedLLM("kettle lid, please", "Pull [1]. Wait [9]."),
        conversation=turns,
        prices=Prices(input=1, output=1),
    )
    receipt = again(AnswerReceipt, answer.receipt)
    kb.put_document("d", "kettle.md", "Another text.")
    made = kb.replay(receipt)
    assert made.identical
    assert made.messages == answer.sent
    assert (receipt.question, receipt.standalone) == ("kettle lid", "kettle lid, please")
    assert receipt.cited == (1,)
    assert receipt.removed == (9,)
    assert receipt.model == "scripted/1"
    assert receipt.usage == answer.usage
    assert receipt.context.mark == answer.pack.mark


def test_an_abstention_has_a_receipt(kb: Service) -> None:
    answer = kb.ask("quagga", dataset_id="d", mode="bm25", layers=["L2"], llm=ScriptedLLM())
    receipt = again(AnswerReceipt, answer.receipt)
    assert (receipt.abstained, receipt.sent, receipt.context.pieces) == ("nothing", "", ())
    made = kb.replay(receipt)
    assert made.identical
    assert made.messages == ()


def test_what_is_gone_is_named(kb: Service) -> None:
    pack = kb.context("kettle lid stove", 500, dataset_id="d")
    receipt = pack.receipt
    kb.delete_document("d", "kettle.md")
    made = kb.replay(receipt)
    assert not made.identical
    (missing,) = made.missing
    assert missing.piece.doc_name == "kettle.md"
    assert "is gone" in missing.reason
    assert "Four plates." in made.text
    assert "lid" not in made.text
    kb.put_document("d", "kettle.md", KETTLE)
    (missing,) = kb.replay(receipt).missing
    assert "version 1 of 'kettle.md' is not kept" in missing.reason


@pytest.mark.parametrize("version", [-(2**70), -1, 0, 2**63, 2**70])
def test_a_version_that_no_document_can_have_is_not_kept(kb: Service, version: int) -> None:
    receipt = kb.context("kettle lid", 500, dataset_id="d").receipt
    pieces = tuple(attrs.evolve(each, version=version) for each in receipt.pieces)
    made = kb.replay(attrs.evolve(receipt, pieces=pieces))
    assert len(made.missing) == len(pieces)
    assert f"version {version} of" in made.missing[0].reason


def test_a_version_that_is_not_kept_is_named(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=None, history=1) as kb:
        kb.put_document("d", "kettle.md", KETTLE)
        receipt = kb.context("kettle lid", 500, dataset_id="d").receipt
        kb.put_document("d", "kettle.md", "Two.")
        assert kb.replay(receipt).identical
        kb.put_document("d", "kettle.md", "Three.")
        (missing,) = kb.replay(receipt).missing
        assert missing.reason == "version 1 of 'kettle.md' is not kept; kept are: 3, 2"


def test_an_expired_document_is_gone(kb: Service) -> None:
    receipt = kb.context("kettle lid", 500, dataset_id="d").receipt
    kb.put_document("d", "kettle.md", KETTLE, expires_at=PAST)
    assert any("is gone" in each.reason for each in kb.replay(receipt).missing)


def test_a_layer_that_was_written_again_is_named(kb: Service) -> None:
    kb.put_document_layer("d", "kettle.md", "L0", "How to open the kettle.")
    pack = kb.context("open the kettle", 500, dataset_id="d", layers=["L0"])
    assert [piece.citation.layer for piece in pack.pieces] == [Layer.ABSTRACT]
    assert kb.replay(pack.receipt).identical
    kb.put_document_layer("d", "kettle.md", "L0", "Something else.")
    (missing,) = kb.replay(pack.receipt).missing
    assert "was written again" in missing.reason


def test_a_receipt_that_was_changed_is_not_believed(kb: Service) -> None:
    receipt = kb.context("kettle lid", 500, dataset_id="d").receipt
    (first, *rest) = receipt.pieces
    forged = attrs.evolve(receipt, pieces=(attrs.evolve(first, end=first.end - 3), *rest))
    assert "another text" in kb.replay(forged).missing[0].reason
    other = attrs.evolve(receipt, sha256="0" * 64)
    assert not kb.replay(other).identical
    for wrong in (None, "receipt", {}, kb.context("lid", 99, dataset_id="d")):
        with pytest.raises(ValidationError, match="receipt"):
            kb.replay(wrong)  # type: ignore[arg-type]


# What was considered


def fates(receipt: ContextReceipt) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for each in receipt.considered:
        found.setdefault(each.doc_name, set()).add(each.fate)
    return found


def test_what_was_considered_and_why_it_is_not_there(kb: Service) -> None:
    kb.put_documents("d", {"copy.md": KETTLE, "long.md": LONG})
    pack = kb.context("kettle lid", 130, dataset_id="d", mode="bm25", counter=ESTIMATE)
    receipt = again(ContextReceipt, pack.receipt)
    told = fates(receipt)
    assert told["kettle.md"] | told["copy.md"] == {"taken", "repeated"}
    assert told["long.md"] & {"budget", "cut", "skipped"}
    numbers = {piece.number for piece in pack.pieces}
    for each in receipt.considered:
        assert (each.number in numbers) is (each.fate in ("taken", "cut"))
        assert each.version == 1
        assert each.scores
    assert {each.number for each in receipt.considered} >= numbers


def test_a_passage_beside_a_hit_counts_where_it_was_looked_at(kb: Service) -> None:
    kb.put_document("d", "long.md", LONG.replace("part 30", "part zebra"))
    pack = kb.context("zebra", 900, dataset_id="d", mode="bm25", layers=["L2"])
    told = pack.receipt.considered
    assert {each.fate for each in told} <= {"taken", "cut", "repeated", "budget", "skipped"}
    assert len({each.chunk for each in told}) > 1
    assert all(each.start is not None for each in told if each.fate == "taken")


def test_what_a_receipt_says_of_the_call(kb: Service) -> None:
    pack = kb.context(
        "lid",
        300,
        dataset_id="d",
        layers=["L2"],
        where={"day": {"$gte": PAST}},
        min_scores={"bm25": 0.5},
        threshold=0.1,
    )
    receipt = again(ContextReceipt, pack.receipt)
    assert receipt.query.text == "lid"
    assert json.loads(receipt.query.where)["day"]["$gte"]["$date"].startswith("2020")
    assert receipt.query.min_scores == {"bm25": 0.5}
    assert receipt.layers == (Layer.DETAIL,)
    assert receipt.configuration["embedder"].startswith("hash")
    assert receipt.configuration["ranker"] == "ZScoreRanker"
    assert {"analyzer", "chunker", "context", "lanes", "rewriter", "steps", "weights"} <= set(
        receipt.configuration
    )
    assert (receipt.budget, receipt.tokens) == (300, pack.tokens)


def test_what_is_below_the_threshold_was_considered(kb: Service) -> None:
    kb.put_document("d", "far.md", "A kettle, and many other words that are not about it at all.")
    asked = {"dataset_id": "d", "mode": "bm25", "layers": ["L2"]}
    scores = [hit.score for hit in kb.search("kettle lid", dataset_id="d", mode="bm25")]
    threshold = (scores[0] + scores[-1]) / 2
    pack = kb.context("kettle lid", 500, threshold=threshold, **asked)  # type: ignore[arg-type]
    assert {piece.citation.doc_name for piece in pack.pieces} == {"kettle.md"}
    told = again(ContextReceipt, pack.receipt).considered
    (below,) = [each for each in told if each.fate == "threshold"]
    assert (below.doc_name, below.chunk, below.number, below.start) == ("far.md", 0, None, None)
    assert below.score < threshold
    assert below.scores
    without = kb.context("kettle lid", 500, **asked)  # type: ignore[arg-type]
    assert "threshold" not in {each.fate for each in without.receipt.considered}


def test_a_pack_made_by_hand_has_a_receipt(kb: Service) -> None:
    pack = attrs.evolve(kb.context("kettle lid", 300, dataset_id="d"), trace=None)
    assert kb.replay(pack.receipt).identical
    assert pack.receipt.considered == ()


@settings(max_examples=examples(40), deadline=None)
@given(
    texts=st.lists(
        st.text("ab \n\r\t#`<>&]['\u2028\x0b\u202e中。", min_size=1), min_size=1, max_size=4
    ),
    budget=st.integers(0, 200),
    format=st.sampled_from(FORMATS),
    fence=st.booleans(),
)
def test_any_context_is_made_again(texts: list[str], budget: int, format: str, fence: bool) -> None:
    fence = fence and format != "json"
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_documents("d", {f"{n}.md": f"{text} kettle" for n, text in enumerate(texts)})
        pack = kb.context(
            "kettle", budget, dataset_id="d", format=format, fence=fence, counter=ESTIMATE
        )
        assert ESTIMATE.count(pack.render()) <= budget
        receipt = again(ContextReceipt, pack.receipt)
        made = kb.replay(receipt)
        assert made.identical
        assert made.text == pack.render()
