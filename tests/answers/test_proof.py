"""What an answer says word by word is looked up in the passages that it cites."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import assume, given, settings, strategies as st

import triptych
from support.examples import examples
from support.rows import each_row
from triptych.answers import (
    ESTIMATE,
    Answer,
    AnswerReceipt,
    Citation,
    Claim,
    Piece,
    ProofPolicy,
    prove as prove_pieces,
)
from triptych.answers.citations import CitationFilter
from triptych.errors import UnusableAnswerError, ValidationError
from triptych.records import Generation, Message
from triptych.records.serialization import from_dict, to_dict
from triptych.service import Service
from triptych_testing.fakes import FakeLLM, ScriptedLLM

PUMP = """# Pump

The pump works at **2.5 bar** and moves 1,200 litres an hour. Turn the lid to the left, and pull.
Never run it dry: the ceramic bearing fails after about ten minutes without water. It was made on
2 September 2026 by Acme Tools. Call `kb.open("x", embedder=None)`, or pass --force. The pres-
sure must not rise above 12%.

| Part | Interval |
|---|---|
| Shaft seal | 24 months |
"""
BOILER = """# Boiler

The boiler works at 6.0 bar, and Dampf AG looks after it twice a year.
It must be bled before the winter begins.
"""
ROOF = "# Roof\n\nThe roof carries 800 kg, as Marta Lindqvist measured on 5 May 2024.\n"


def piece(number: int, text: str, name: str = "", heading: Sequence[str] = ()) -> Piece:
    return Piece(
        number=number,
        citation=Citation(
            dataset_id="d",
            doc_name=name or f"{'abcdef'[number - 1]}.md",
            version=3,
            start=100,
            end=100 + len(text),
            heading_path=tuple(heading),
            text=text,
        ),
    )


def prove(answer: str, *texts: str, question: str = "") -> list[Claim]:
    pieces = [piece(number, text) for number, text in enumerate(texts, 1)]
    claims = prove_pieces(answer, pieces, question)
    text = CitationFilter({each.number for each in pieces}).feed(answer + " x")
    for claim in claims:
        assert text[claim.start : claim.end] == claim.text
        if claim.found is not None:
            source = texts[(claim.found.number or 0) - 1]
            assert 100 <= claim.found.start <= claim.found.end <= 100 + len(source)
    return list(claims)


def told(claims: Sequence[Claim]) -> list[tuple[str, str, str]]:
    return [(each.kind, each.text, each.status) for each in claims]


def wrong(claims: Sequence[Claim]) -> list[str]:
    return [str(each) for each in claims if each.status != "supported"]


@each_row(
    "sentence, kind",
    [
        ("It works at 2.5bar [1].", "figure"),
        ("It works at 2500 mbar [1].", "figure"),
        ("It moves 1200 litres [1].", "figure"),
        ("It lasts ten minutes, or 10 minutes [1].", "figure"),
        ("The seal lasts 24 months [1].", "figure"),
        ("The limit is 12 percent, so 0.12 [1].", "figure"),
        ("It is of 2026-09-02 [1].", "date"),
        ("It is of September 2, 2026 [1].", "date"),
        ("It is by Acme Tools [1].", "name"),
        ("It is by Acme's people [1].", "name"),
        ("Call `kb.open` or `--force` [1].", "code"),
        ('Call `kb.open("x")` [1].', "code"),
        ('It says "turn the lid to the left" [1].', "quotation"),
        ("It says “Never run it dry: the ceramic\nbearing fails” [1].", "quotation"),
        ("It says “works at 2.5 bar and moves” [1].", "quotation"),
        ("It says “Turn the lid […] and pull” [1].", "quotation"),
        ("It says “[The] pump works at … litres an hour” [1].", "quotation"),
        ("It says “The pressure must not rise” [1].", "quotation"),
        ("It says “Shaft seal 24 months” [1].", "quotation"),
        ("Es heißt „Turn the lid to the left“ [1].", "quotation"),
        ("«Turn the lid to the left» [1].", "quotation"),
        ("「Turn the lid to the left」[1]。", "quotation"),
        ("“Turn the lid to the left, and pull. Never run it dry.” [1]", "quotation"),
    ],
)
def test_supported(sentence: str, kind: str) -> None:
    claims = prove(sentence, PUMP, BOILER)
    assert kind in {each.kind for each in claims}
    assert wrong(claims) == []


@each_row(
    "sentence, kind, text, status, number",
    [
        ("It works at 6.0 bar [1].", "figure", "6.0 bar", "elsewhere", 2),
        ("It works at 7.5 bar [1].", "figure", "7.5 bar", "nowhere", None),
        ("It works at 2.5 psi [1].", "figure", "2.5 psi", "nowhere", None),
        ("It is of 5 May 2024 [1].", "date", "5 May 2024", "elsewhere", 3),
        ("It is of 3 September 2026 [1].", "date", "3 September 2026", "nowhere", None),
        ("It was by Marta Lindqvist [1].", "name", "Marta Lindqvist", "elsewhere", 3),
        ("It was by Zephyr Labs [1].", "name", "Zephyr Labs", "nowhere", None),
        ("It speaks MQTT [1].", "name", "MQTT", "nowhere", None),
        ("Pass `--forced` [1].", "code", "--forced", "nowhere", None),
        ("Pass `--forc` [1].", "code", "--forc", "nowhere", None),
        ("Call `kb.openx` [1].", "code", "kb.openx", "nowhere", None),
        ("It listens on `8400` [1].", "figure", "8400", "nowhere", None),
        (
            'It says "turn the lid to the right" [1].',
            "quotation",
            '"turn the lid to the right"',
            "nowhere",
            None,
        ),
        (
            "It says “The boiler works at 6.0 bar” [1].",
            "quotation",
            "“The boiler works at 6.0 bar”",
            "elsewhere",
            2,
        ),
        (
            "It says “The pump works after about ten minutes” [1].",
            "quotation",
            "“The pump works after about ten minutes”",
            "stitched",
            1,
        ),
        (
            "It must be bled before the winter begins [1].",
            "quotation",
            "It must be bled before the winter begins [1].",
            "elsewhere",
            2,
        ),
        ("The default is 9:", "figure", "9", "nowhere", None),
    ],
)
def test_not_supported(
    sentence: str, kind: str, text: str, status: str, number: int | None
) -> None:
    claims = [each for each in prove(sentence, PUMP, BOILER, ROOF) if each.text == text]
    assert told(claims) == [(kind, text, status)]
    place = claims[0].found
    assert (None if place is None else place.number) == number
    if status == "elsewhere":
        assert f"but in [{number}]" in str(claims[0])


@each_row(
    "sentence",
    [
        "Turn the lid, then pull [1].",
        "1. Turn the lid [1].\n2. Pull [1].",
        "Step 7: turn the lid [1].",
        "The “lid” is on the left [1].",
        "Der Deckel und die Kappe sind zu drehen, bevor man zieht [1].",
        "However, the lid is on the left [1]. It is there.",
        "**Lid**: on the left [1].",
        "```\nport = 99\n```\n\nTurn it [1].",
    ],
)
def test_what_is_no_claim(sentence: str) -> None:
    assert wrong(prove(sentence, PUMP)) == []


def test_parts_of_a_quotation_are_in_the_order_of_the_source() -> None:
    (claim,) = prove("It says “and pull […] Turn the lid” [1].", PUMP)
    assert claim.status == "stitched"


def test_a_sentence_that_two_passages_have_is_cited_rightly_by_either() -> None:
    for number in (1, 2):
        assert prove(f"It must be bled before the winter begins [{number}].", BOILER, BOILER) == []


def test_a_sentence_without_a_citation_is_looked_up_everywhere() -> None:
    assert wrong(prove("The boiler works at 6.0 bar.", PUMP, BOILER)) == []
    (claim,) = prove("The boiler works at 7 bar.", PUMP, BOILER)
    assert (claim.status, claim.numbers, claim.found) == ("nowhere", (), None)


def test_names_and_code_of_the_question_are_no_claims() -> None:
    asked = "Does Zephyr Labs support `mqtt_port` at 9 bar?"
    said = "For Zephyr Labs, `mqtt_port` is at 9 bar [1]."
    assert told(prove(said, PUMP, question=asked)) == [("figure", "9 bar", "nowhere")]


def test_headings_and_names_of_documents_are_shown_to_the_model_too() -> None:
    pieces = [piece(1, "It carries 800 kg.", "roof_plan.md", ["Hall 7", "Roof of Leeds"])]
    claims = prove_pieces("The roof in Leeds, of hall 7, is in `roof_plan.md` [1].", pieces)
    assert len(claims) == 3
    assert wrong(claims) == []


# Quotations, however they are dressed

WORDS = re.findall(
    r"\S+", "turn the lid to left and pull it out before water boils in cold kettle of zinc 40 %"
)
DRESS = st.sampled_from(
    [
        " ",
        "\n",
        " **",
        "** ",
        " _",
        "&nbsp; ",
        " | ",
        "\n> ",
        "  ",
        ", ",
        " `",
        "\\_ ",
        "<b> ",
        "](a.md) ",
    ]
)


@given(
    st.lists(st.sampled_from(WORDS), min_size=12, max_size=40),
    st.data(),
    st.sampled_from(['""', "“”", "„“", "«»", "»«", "「」", "『』"]),
)
@settings(max_examples=examples(300), deadline=None)
def test_a_run_of_a_passage_is_supported_in_any_dress(
    words: list[str], data: st.DataObject, marks: str
) -> None:
    joints = data.draw(st.lists(DRESS, min_size=len(words), max_size=len(words)))
    passage = "".join(word + joint for word, joint in zip(words, joints, strict=True))
    at = data.draw(st.integers(0, len(words) - 5))
    size = data.draw(st.integers(5, len(words) - at))
    said = data.draw(st.sampled_from([" ", "\n", "  "])).join(words[at : at + size])
    said = said.upper() if data.draw(st.booleans()) else said
    claims = prove(f"It says {marks[0]}{said}{marks[1]} [1].", passage)
    assert [(each.kind, each.status) for each in claims] == [("quotation", "supported")], passage


@given(st.lists(st.sampled_from(WORDS), min_size=8, max_size=30), st.data())
@settings(max_examples=examples(300), deadline=None)
def test_a_word_at_the_end_of_a_line_may_be_divided(words: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(words) - 1))
    assume(len(words[at]) > 3)
    divided = [*words[:at], f"{words[at][:2]}-\n{words[at][2:]}", *words[at + 1 :]]
    claims = prove(f"It says “{' '.join(words)}” [1].", " ".join(divided))
    assert [each.status for each in claims] == ["supported"]


@given(st.lists(st.sampled_from(WORDS), min_size=6, max_size=30), st.data())
@settings(max_examples=examples(300), deadline=None)
def test_a_changed_word_is_not_supported(words: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(words) - 1))
    changed = [*words[:at], data.draw(st.sampled_from(["never", "zebra", "50"])), *words[at + 1 :]]
    (claim,) = prove(f"It says “{' '.join(changed)}” [1].", " ".join(words))
    assert claim.status == "nowhere"


@given(st.text(max_size=200), st.text(max_size=200))
@settings(max_examples=examples(300), deadline=None)
def test_any_text_is_proven(answer: str, passage: str) -> None:
    prove(f"{answer} [1].", passage, BOILER)


# Through a Service


@pytest.fixture(params=["memory://", "kb.db"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    url = request.param if request.param == "memory://" else tmp_path / request.param
    with triptych.open(url, embedder=None, llm=None) as service:
        service.put_documents("d", {"pump.md": PUMP, "boiler.md": BOILER, "roof.md": ROOF})
        yield service


def ask(kb: Service, said: str, question: str = "how does the pump work", **options: Any) -> Answer:
    options = {"dataset_id": "d", "max_pieces": 1, "layers": ["L2"], "counter": ESTIMATE, **options}
    answer = kb.ask(question, llm=ScriptedLLM(said), **options)
    with kb.ask_stream(question, llm=ScriptedLLM(said), **options) as stream:
        pieces = list(stream)
    assert "".join(pieces) == stream.answer.text == answer.text
    assert stream.answer.proof == answer.proof
    assert stream.answer.warnings == answer.warnings
    return answer


def test_an_answer_names_what_its_sources_do_not_say(kb: Service) -> None:
    said = "The pump works at 6.0 bar [1]. Turn the lid to the left [1]. "
    said += "Acme Tools says “pull it hard and fast” [1]."
    answer = ask(kb, said)
    assert answer.text == said
    assert told(answer.proof) == [
        ("figure", "6.0 bar", "elsewhere"),
        ("name", "Tools", "supported"),
        ("quotation", "“pull it hard and fast”", "nowhere"),
    ]
    assert answer.warnings == tuple(
        str(each) for each in answer.proof if each.status != "supported"
    )
    found = answer.proof[0].found
    assert found is not None
    # It was in no piece: a search by keyword found the document.
    assert (found.number, found.doc_name, found.version) == (None, "boiler.md", 1)
    assert BOILER[found.start : found.end] == "6.0 bar"
    assert "not in [1], but in boiler.md" in answer.warnings[0]
    where = answer.proof[1].found
    assert where is not None
    assert PUMP[where.start : where.end] == "Tools"


def test_a_sound_answer_has_no_warnings(kb: Service) -> None:
    answer = ask(kb, "The pump works at 2.5 bar [1].")
    assert answer.warnings == ()
    assert [each.status for each in answer.proof] == ["supported"]


def test_what_a_filter_hides_is_not_found(kb: Service) -> None:
    kb.put_document("d", "boiler.md", BOILER, metadata={"secret": True})
    said = "The pump works at 6.0 bar [1]."
    assert ask(kb, said).proof[0].status == "elsewhere"
    assert ask(kb, said, where={"$not": {"secret": True}}).proof[0].status == "nowhere"
    assert ask(kb, said, where={"doc_name": "pump.md"}).proof[0].status == "nowhere"


def test_a_past_answer_is_looked_up_in_the_past(kb: Service) -> None:
    kb.put_document("d", "boiler.md", BOILER.replace("6.0", "9.0"))
    assert ask(kb, "The pump works at 6.0 bar [1].").proof[0].status == "nowhere"
    assert ask(kb, "The pump works at 6.0 bar [1].", as_of=1).proof[0].status == "elsewhere"


def test_few_searches_are_made_for_one_answer(kb: Service) -> None:
    many = " ".join(f"It is {n} bar [1]." for n in range(500, 560))
    answer = ask(kb, many)
    assert len(answer.proof) == 60
    assert len(answer.warnings) == 6
    assert "55 more" in answer.warnings[-1]


def test_an_unproven_sentence_is_dropped(kb: Service) -> None:
    said = "Turn the lid [1]. It works at 6.0 bar [1]. Then pull [1].\n\n"
    said += "- It is at 9 bar [1].\n- It is at 2.5 bar [1]."
    answer = ask(kb, said, proof="drop")
    assert answer.text == "Turn the lid [1]. Then pull [1].\n\n- It is at 2.5 bar [1]."
    assert [each.status for each in answer.proof] == ["supported"]
    assert len(answer.warnings) == 2
    assert all(each.startswith("left out: the figure") for each in answer.warnings)
    assert [each.text for each in answer.sentences][1] == "Then pull [1]."
    assert kb.replay(answer.receipt, answer=answer.text).proven is True


def test_an_answer_of_which_nothing_is_left_abstains(kb: Service) -> None:
    answer = ask(kb, "It works at 6.0 bar [1].", proof="drop")
    assert (answer.abstained, answer.reason) == (True, "unproven")
    assert answer.text == answer.prompt.abstention
    assert kb.replay(answer.receipt, answer=answer.text).proven is True


def test_an_unproven_answer_is_refused(kb: Service) -> None:
    said = "Turn the lid [1]. It works at 6.0 bar [1]. Then pull [1]."
    with pytest.raises(UnusableAnswerError, match=re.escape("6.0 bar")) as caught:
        kb.ask("pump", dataset_id="d", llm=ScriptedLLM(said), proof="refuse")
    assert caught.value.reason == "unproven"
    stream = kb.ask_stream("pump", dataset_id="d", llm=ScriptedLLM(said), proof="refuse")
    shown = []
    with stream, pytest.raises(UnusableAnswerError):
        shown += stream
    assert "6.0" not in "".join(shown)
    assert ask(kb, "Turn the lid [1].", proof="refuse").text == "Turn the lid [1]."


def test_an_unknown_policy_is_refused(kb: Service) -> None:
    with pytest.raises(ValidationError, match="'mark', 'drop' or 'refuse'"):
        kb.ask("pump", dataset_id="d", llm=ScriptedLLM("Yes."), proof="hope")  # type: ignore[arg-type]  # what is tested


PARTS = st.lists(
    st.sampled_from(
        [
            "Turn the lid [1]. ",
            "It works at 6.0 bar [1]. ",
            "It works at 2.5 bar.",
            " [1] ",
            "\n\n",
            "\n- ",
            "## Head\n",
            "“Turn the lid. Then ",
            "pull it out” [1]. ",
            "and pull.” [1] ",
            '"',
            "`a. B` ",
            "`",
            "```\nx = 1\n```\n",
            "As follows: ",
            "On 2. September 2026 [1] ",
            "Dampf AG. ",
            "1. Pull\n",
            "e.g. 7 [9] ",
            "NO_ANSWER ",
        ]
    ),
    min_size=1,
    max_size=12,
)


class CutLLM(FakeLLM):
    """A model that streams its answer in the given pieces."""

    def __init__(self, pieces: Iterable[str]) -> None:
        super().__init__(lambda prompt, text: "")
        self._pieces = pieces

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int | None = None
    ) -> Iterator[str | Generation]:
        yield from self._pieces


@pytest.fixture(scope="module")
def shared() -> Iterator[Service]:
    with triptych.open("memory://", embedder=None, llm=None) as service:
        service.put_documents("d", {"pump.md": PUMP})
        yield service


@given(PARTS, st.data())
@settings(max_examples=examples(300), deadline=None)
def test_the_same_is_dropped_however_a_stream_is_cut(
    shared: Service, parts: list[str], data: st.DataObject
) -> None:
    said = "Well. " + "".join(parts)

    def through(cuts: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        llm, options = CutLLM(cuts), {"dataset_id": "d", "counter": ESTIMATE, "layers": ["L2"]}
        with shared.ask_stream("pump", llm=llm, proof="drop", **options) as stream:
            out = "".join(stream)
        answer = stream.answer
        assert out == answer.text
        if said.count("“") == said.count("”") and '"' not in said:
            assert {each.status for each in answer.proof} <= {"supported"}
        assert shared.replay(answer.receipt, answer=answer.text).proven is True
        return out, answer.warnings

    whole = through([said])
    places = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=30)))
    assert (
        through([said[a:b] for a, b in zip([0, *places], [*places, len(said)], strict=True)])
        == whole
    )
    assert through(list(said)) == whole


def test_a_quotation_whose_end_stands_alone_so_far_is_held_back(shared: Service) -> None:
    said = 'Well. "Turn the lid [1]. Turn the lid [1]. " [1] '
    for cut in range(len(said)):
        llm = CutLLM([said[:cut], said[cut:]])
        with shared.ask_stream("pump", dataset_id="d", llm=llm, proof="drop") as stream:
            assert "".join(stream) == "Well."


def test_a_stream_holds_back_one_sentence_only(shared: Service) -> None:
    seen = []

    def words() -> Iterator[str]:
        for word in ("Turn the lid ", "[1]. ", "It ", "works ", "at ", "2.5 bar [1]."):
            yield word
            seen.append(word)

    policies: list[tuple[ProofPolicy, int]] = [("drop", 3), ("mark", 1)]
    for policy, whole in policies:
        seen.clear()
        llm = CutLLM(words())
        with shared.ask_stream("pump", dataset_id="d", llm=llm, proof=policy) as stream:
            shown = ""
            while "[1]." not in shown:
                shown += next(stream)
        assert shown.startswith("Turn the lid [1].")
        assert len(seen) <= whole


# Receipts


def kept(answer: Answer) -> AnswerReceipt:
    return from_dict(AnswerReceipt, json.loads(json.dumps(to_dict(answer.receipt))))


def test_a_third_party_repeats_the_proof_without_a_model(kb: Service) -> None:
    said = "It works at 6.0 bar [1]. It is by Acme Tools [1], of 5 May 2024 [1]. "
    said += "“Pull it hard and fast” [1]."
    answer = ask(kb, said)
    receipt = kept(answer)
    assert {each.text for each in receipt.proof} == {""}
    assert "Acme" not in json.dumps(to_dict(receipt.proof))
    kb.put_document("d", "boiler.md", "# Boiler\n\nGone.\n")
    kb.put_document("d", "pump.md", "# Pump\n\nNew.\n")
    again = kb.replay(receipt, answer=answer.text)
    assert again.proven is True
    assert again.proof == answer.proof
    assert kb.replay(receipt).proven is None
    # What was recorded falsely is noticed.
    lied = [attrs.evolve(each, status="supported") for each in receipt.proof]
    assert kb.replay(attrs.evolve(receipt, proof=tuple(lied)), answer=answer.text).proven is False
    kb.delete_document("d", "boiler.md")
    assert kb.replay(receipt, answer=answer.text).proven is False


def test_another_text_is_not_the_answer_of_a_receipt(kb: Service) -> None:
    answer = ask(kb, "It works at 2.5 bar [1].")
    with pytest.raises(ValidationError, match=r"Answer\.text"):
        kb.replay(answer.receipt, answer="It works at 6.0 bar [1].")
    with pytest.raises(ValidationError, match="a context has no answer"):
        kb.replay(answer.pack.receipt, answer=answer.text)


# The set of the bench


def test_the_measured_set_is_made_again_and_found() -> None:
    import importlib.util
    import sys

    place = Path(__file__).parents[2] / "bench/proof.py"
    spec = importlib.util.spec_from_file_location("bench_proof", place)
    assert spec is not None
    assert spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    sys.modules["bench_proof"] = bench
    spec.loader.exec_module(bench)
    assert bench.make() == bench.read(bench.DATA / "proof.jsonl")
    counted = bench.measure(0)["counted"]
    clean = counted["clean"]
    assert clean["tune"] + clean["test"] == 500
    assert clean["tune found"] + clean["test found"] <= 10
    of = sum(counted[kind][half] for kind in bench.FAULTS for half in ("tune", "test"))
    found = sum(
        counted[kind][f"{half} found"] for kind in bench.FAULTS for half in ("tune", "test")
    )
    assert of == 500
    assert found >= 475
