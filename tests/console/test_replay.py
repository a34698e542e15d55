"""What a context held and left out, and a receipt that is pasted or sent to be replayed."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import HOSTILE, post, read
from support.servers import served
from triptych.records.serialization import to_json
from triptych.service import Service
from triptych_server.http import create_app
from triptych_testing.fakes import FakeLLM

QUESTION = "How long does green tea steep?"
TEA = "# Tea\n\nGreen tea steeps for three minutes."
ASKED = "/console/ask?q=How+long+does+green+tea+steep?"


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Service]:
    llm = FakeLLM(lambda prompt, text: "Three minutes [1].")
    with triptych.open(tmp_path / "kb.db", embedder="hash", llm=llm) as opened:
        opened.put_document("docs", "tea.md", TEA)
        for number in range(30):
            text = f"# Tea {number}\n\n" + f"Green tea number {number} has steeped too long. " * 12
            opened.put_document("docs", f"more/{number}.md", text)
        yield opened


@pytest.fixture
def ask(kb: Service) -> Client:
    return Client(create_app(kb, console=True))


def receipt_of(page: str) -> str:
    found = re.search(r'<textarea[^>]*name="receipt"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert found
    return html.unescape(found[1])


def test_the_context_says_what_it_held_and_what_it_left_out(ask: Client, kb: Service) -> None:
    text = ask("GET", f"{ASKED}&budget=300").text
    held, _, left_out = text.partition('id="left-out"')
    pack = kb.context(QUESTION, 300, scope="all", fence=True)
    rows = re.findall(r'<tr class="held">(.*?)</tr>', held, re.DOTALL)
    assert len(rows) == len(pack.pieces) > 0
    tokens = [int(each) for row in rows for each in re.findall(r"<td>(\d+)</td>", row)]
    assert len(tokens) == len(rows)
    # Each is counted with its header; an estimate of parts is not the sum of the whole.
    assert sum(tokens) == pytest.approx(pack.tokens, rel=0.1)
    assert "no room in the budget" in left_out
    gone = [each for each in pack.receipt.considered if each.number is None]
    shown = len(re.findall(r'<tr class="left-out">', left_out))
    assert 0 < shown == min(len(gone), 50)


def test_a_receipt_is_replayed_by_a_reader(ask: Client, kb: Service) -> None:
    page = ask("GET", ASKED).text
    assert 'action="/console/replay"' in page
    receipt = receipt_of(page)
    assert json.loads(receipt)["question"] == QUESTION
    again = post(ask, "/console/replay", receipt=receipt).text
    assert "byte for byte" in again
    assert read(again).open == []
    assert "three minutes" in again
    assert receipt_of(again) == receipt


def test_a_replay_says_what_has_changed(ask: Client, kb: Service) -> None:
    receipt = receipt_of(ask("GET", ASKED).text)
    kb.put_document("docs", "tea.md", TEA.replace("three", "four"))
    again = post(ask, "/console/replay", receipt=receipt).text
    assert "byte for byte" in again  # from the version that is kept
    assert '<span class="badge warn">changed</span>' in again
    assert '<span class="added">+Green tea steeps for four minutes.</span>' in again
    kb.delete_document("docs", "tea.md")
    again = post(ask, "/console/replay", receipt=receipt).text
    assert "cannot be made again" in again
    assert "the document &#39;tea.md&#39; is gone" in again


def test_a_context_s_receipt_is_replayed_too(ask: Client, kb: Service) -> None:
    receipt = json.dumps(to_json(kb.context("green tea", 300, scope="all").receipt))
    assert "byte for byte" in post(ask, "/console/replay", receipt=receipt).text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Paste a receipt"),
        ("{", "not JSON"),
        ("[]", "one JSON object"),
        ('{"question": 1}', "receipt"),
        (HOSTILE, "not JSON"),
        (json.dumps({"question": HOSTILE}), "receipt"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_receipt_is_named(ask: Client, text: str, said: str) -> None:
    answer = post(ask, "/console/replay", receipt=text)
    assert answer.status_code == 400
    assert said in re.findall(r'role="alert">(.*?)</', answer.text, re.DOTALL)[0]
    assert len(read(answer.text).active) == 1
    assert receipt_of(answer.text) == text


def test_a_receipt_is_taken_from_this_console_alone(ask: Client) -> None:
    assert ask("POST", "/console/replay", data={"receipt": "{}"}).status_code == 403


def test_the_page_works_over_another_server(kb: Service) -> None:
    receipt = json.dumps(to_json(kb.ask(QUESTION, scope="all").receipt))
    with served(kb) as url, triptych.open(url) as remote:
        ask = Client(create_app(remote, console=True))
        assert ask("GET", "/console/replay").status_code == 200
        assert "byte for byte" in post(ask, "/console/replay", receipt=receipt).text
