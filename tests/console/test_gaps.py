"""The page of questions that nothing answered, and of old documents that answers use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import attrs
import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import HOSTILE, post
from triptych.question_log import LoggedQuestion, QuestionLog
from triptych.service import Service
from triptych_server.console.gaps import Old, grouped
from triptych_server.http import create_app
from triptych_server.keys import KeyAuthenticator, KeyStore

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(tmp_path / "kb.db", embedder="none", question_log=True) as opened:
        opened.create_dataset("docs")
        opened.create_dataset("texte", language="german")
        yield opened


def rows(kb: Service) -> list[list[list[str]]]:
    page = Client(create_app(kb, console=True))("GET", "/console/gaps").text
    found = [re.findall(r"<t[hd][ >].*?</t[hd]>", row) for row in page.split("<tr>")[2:]]
    return [[unescape(re.sub("<[^>]+>", " ", cell)).split() for cell in row] for row in found]


def test_questions_with_the_same_words_are_one_row_with_their_wordings(kb: Service) -> None:
    for text in ("how do refunds work", "refund, how does it work?", "how do refunds work"):
        kb.search(text, dataset_id="docs")
    kb.search("refund", dataset_id="docs")
    kb.search("refund", dataset_id="texte")
    first, *others = rows(kb)
    assert " ".join(first[0]) == "how do refunds work"
    assert " ".join(first[1]) == "2 how do refunds work (2) refund, how does it work? (1)"
    assert first[2] == ["3"]
    assert [row[0] for row in others] == [["refund"]] * 2


def test_a_question_to_all_is_one_row_before_and_after_a_dataset_is_added(kb: Service) -> None:
    kb.search("refund", scope="all")
    kb.create_dataset("more")
    kb.search("refund", scope="all")
    (row,) = rows(kb)
    assert row[2] == ["2"]


def test_words_are_those_of_the_dataset_s_language(kb: Service) -> None:
    for dataset in ("docs", "texte"):
        for text in ("Häuser", "Häusern"):
            kb.search(text, dataset_id=dataset)
    assert sorted(row[2] for row in rows(kb)) == [["1"], ["1"], ["2"]]


def test_a_group_has_its_first_and_last_moment(kb: Service) -> None:
    def asked(text: str, days: int, first: int | None, times: int = 1) -> LoggedQuestion:
        return LoggedQuestion(
            text=text,
            dataset_ids=("docs",),
            answerability="nothing",
            hits=0,
            found=(),
            asked_at=NOW - timedelta(days=days),
            times=times,
            first_at=None if first is None else NOW - timedelta(days=first),
        )

    (gap,) = grouped(kb, [asked("refund", 1, 5), asked("refunds", 3, None, times=4)])
    assert [each.text for each in gap.questions] == ["refunds", "refund"]
    assert (gap.first_at, gap.asked_at) == (NOW - timedelta(days=5), NOW - timedelta(days=1))
    assert gap.times == 5
    weak = attrs.evolve(asked("refunding", 1, None), answerability="weak")
    (gap,) = grouped(kb, [asked("refund", 1, None), weak])
    assert gap.answerability == "weak"


def test_questions_without_words_are_told_apart(kb: Service) -> None:
    question = LoggedQuestion(
        text="?!", dataset_ids=("docs",), answerability="nothing", hits=0, found=(), asked_at=NOW
    )
    assert len(grouped(kb, [question, attrs.evolve(question, text="!")])) == 2


def test_no_wording_becomes_part_of_the_page(kb: Service) -> None:
    for text in (HOSTILE, f"{HOSTILE} {HOSTILE}"):
        kb.search(text, dataset_id="docs")
    page = Client(create_app(kb, console=True))("GET", "/console/gaps").text
    assert "<img" not in page
    assert "<summary>2</summary>" in page


def test_opening_a_listed_question_is_not_counted(kb: Service) -> None:
    kb.search("how do refunds work", scope="all")
    kb.search("zebra", dataset_id="docs")
    ask = Client(create_app(kb, write=True, console=True))
    post(ask, "/console/golden", q="quagga", dataset="docs", verdict="keep")
    links = [
        unescape(each)
        for path in ("gaps", "golden")
        for each in re.findall(r'href="(/\?[^"]*)" dir="auto"', ask("GET", f"/console/{path}").text)
    ]
    assert len(links) == 3
    before = QuestionLog(kb.capabilities.settings).questions()
    for link in links:
        for more in ("", "&lanes=1", "&steps=1"):
            page = ask("GET", link + more).text
            assert '<input type="hidden" name="listed" value="1">' in page
    assert QuestionLog(kb.capabilities.settings).questions() == before
    # No URL hides a question that is on no list.
    for query in ("q=okapi&d=docs", "q=zebra&d=texte", "q=refunds&plain=1"):
        ask("GET", f"/?listed=1&{query}")
    assert len(QuestionLog(kb.capabilities.settings).questions()) == len(before) + 3


def test_a_key_that_reads_no_list_hides_no_question(kb: Service) -> None:
    kb.search("zebra", dataset_id="docs")
    keys = KeyStore.of(kb)
    app = create_app(kb, authenticate=KeyAuthenticator(kb, keys), console=True)
    for dataset_ids, times in ((["docs"], 2), (None, 2)):
        token = keys.add("reader", dataset_ids=dataset_ids).token
        assert Client(app, Authorization=f"Bearer {token}")("GET", "/?listed=1&q=zebra&d=docs")
        assert [each.times for each in QuestionLog(kb.capabilities.settings).questions()] == [times]


def test_a_lane_that_finds_nothing_is_no_gap(kb: Service) -> None:
    with triptych.open("memory://", embedder="hash", question_log=True) as both:
        both.put_document("docs", "tea.md", "Tea.")
        page = Client(create_app(both, console=True))("GET", "/?q=zebra&lanes=1").text
        assert 'id="hit-1"' in page
        assert QuestionLog(both.capabilities.settings).questions() == []


def test_damage_is_days_times_uses_and_is_explained(kb: Service) -> None:
    for name in ("tea.md", "pot.md", "gone.md", "unused.md"):
        kb.put_document("docs", name, "Tea.")
    log = QuestionLog(kb.capabilities.settings)
    hits = [hit for hit in kb.search("tea", dataset_id="docs") if hit.doc_name == "tea.md"]
    for text in ("old tea", "older tea"):
        assert log.note(text, ["docs"], "weak", hits) is None
    for _ in range(3):
        assert log.note_cited([("docs", "pot.md"), ("docs", "gone.md"), ("none", "a")]) is None
    kb.delete_document("docs", "gone.md")
    (info, *_) = kb.list_documents("docs")
    assert Old(info, 7, 3, 2).damage == 35
    assert rows(kb)[-2:] == [
        [["pot.md"], ["0"], ["3"], ["0"], ["0"]],
        [["tea.md"], ["0"], ["0"], ["2"], ["0"]],
    ]
    page = Client(create_app(kb, console=True))("GET", "/console/gaps").text
    assert "Damage is the days since a document changed, times its uses" in page


def test_a_use_is_counted_for_its_dataset_alone(kb: Service) -> None:
    for dataset in ("docs", "texte"):
        kb.put_document(dataset, "tea.md", "Tea.")
    hits = kb.search("tea", dataset_id="docs").hits
    assert (
        QuestionLog(kb.capabilities.settings).note("old tea", ["docs", "texte"], "weak", hits)
        is None
    )
    page = Client(create_app(kb, console=True))("GET", "/console/gaps").text
    links = re.findall(r'href="(/console/documents/[^"]*)"', page)
    assert links == ["/console/documents/docs/tea.md"]


@pytest.mark.parametrize("on", [True, False])
def test_it_says_whether_the_log_is_on_and_what_it_keeps(on: bool) -> None:
    with triptych.open("memory://", embedder="none", question_log=on) as kb:
        kb.put_document("docs", "tea.md", "Tea.")
        ask = Client(create_app(kb, console=True))
        for asked in (False, True):
            if asked:
                QuestionLog(kb.capabilities.settings).note("zebra", ["docs"], "nothing", [])
            page = ask("GET", "/console/gaps").text
            assert ("The log is on." in page) is on
            assert ("The log is off" in page) is not on
            assert "questions without a hit" in page
            assert "<code>triptych eval calibrate</code>" in page
            assert ("No question is logged" in page) is not asked


def test_a_key_is_not_told_of_the_log(kb: Service) -> None:
    keys = KeyStore.of(kb)
    app = create_app(kb, authenticate=KeyAuthenticator(kb, keys), console=True)
    token = keys.add("reader", dataset_ids=["docs"]).token
    page = Client(app, Authorization=f"Bearer {token}")("GET", "/console/gaps").text
    assert "not available to restricted callers" in page
    assert "The log is" not in page


def test_a_key_to_everything_reads_the_log_and_an_agent_s_does_not(kb: Service) -> None:
    keys = KeyStore.of(kb)
    kb.search("refund", dataset_id="docs")
    app = create_app(kb, authenticate=KeyAuthenticator(kb, keys), console=True)
    for agent in (False, True):
        token = keys.add("all", can_write=agent, agent=agent).token
        page = Client(app, Authorization=f"Bearer {token}")("GET", "/console/gaps").text
        assert ("refund" in page) is not agent
