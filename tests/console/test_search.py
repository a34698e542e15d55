"""The search page: query language, plain words, what is weak, why a document is not found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import post, read
from triptych.search import Pipeline
from triptych.service import Service
from triptych_server.http import create_app
from triptych_testing.fakes import FakeLLM


@pytest.fixture
def kb() -> Iterator[Service]:
    signs = Pipeline(name="signs", search={"syntax": True})
    with triptych.open("memory://", embedder="hash", llm=FakeLLM(), pipelines=[signs]) as opened:
        opened.put_document("docs", "law.md", "A failed request is tried again.")
        opened.put_document("docs", "draft.md", "A failed request, in a draft.")
        opened.put_document("docs", "far.md", "The request has failed.")
        yield opened


@pytest.fixture
def ask(kb: Service) -> Client:
    return Client(create_app(kb, console=True))


def hits(page: str) -> list[str]:
    return re.findall(r'id="hit-\d+"[^>]*>\s*<h3><a href="/console/documents/docs/([\w.]+)', page)


def test_a_query_of_fields_alone_leads_to_the_documents_that_have_them() -> None:
    with triptych.open("memory://", embedder="none") as kb:
        kb.put_document("docs", "tea.md", "Tea.", {"tags": ["green", "hot"]})
        kb.put_document("docs", "ice.md", "Ice.", {"tags": ["cold"]})
        ask = Client(create_app(kb, console=True))
        page = ask("GET", "/?q=tags:green").text
        (link,) = re.findall(r'href="(/console/datasets/docs\?[^"]*)"', page)
        listed = ask("GET", unescape(link)).text
        assert ("tea.md" in listed, "ice.md" in listed) == (True, False)
        assert "with it</a>" not in ask("GET", "/?q=-green").text


def test_the_query_language_is_on_and_plain_words_turn_it_off(ask: Client) -> None:
    asked = "/?q=%22failed+request%22+-draft"
    page = ask("GET", asked).text
    assert hits(page) == ["law.md"]
    assert "Plain words" in page
    for pipeline in ("signs", ""):
        plain = ask("GET", f"{asked}&plain=1&pipeline={pipeline}").text
        assert sorted(hits(plain)) == ["draft.md", "far.md", "law.md"]
    box = r'<input type="checkbox" name="plain" value="1"( checked)?>'
    assert re.findall(box, page) + re.findall(box, plain) == ["", " checked"]
    settings = r"<details( open)?>\s*<summary>Settings"
    assert re.findall(settings, page) + re.findall(settings, plain) == ["", " open"]


@pytest.mark.parametrize("query", ["-draft", "%22no+such+phrase%22"])
def test_a_query_that_finds_nothing_is_offered_as_plain_words(query: str, ask: Client) -> None:
    page = ask("GET", f"/?q={query}").text
    assert hits(page) == []
    (link,) = re.findall(r'href="([^"]*)">[^<]*plain words', page)
    plain = ask("GET", unescape(link)).text
    assert hits(plain)
    assert "plain words</a>" not in plain
    assert "plain words</a>" not in ask("GET", "/?q=zebra&mode=bm25").text


def test_fields_alone_are_refused_alike_over_http(ask: Client) -> None:
    page = unescape(ask("GET", "/?q=in:guide/").text)
    said = "only names fields: add a word or a phrase to search for; or list all that match"
    assert said in page
    body = {"query": "in:guide/", "scope": "all", "syntax": True}
    answer = ask("POST", "/v1/search", json=body)
    assert answer.status_code == 400
    assert said in answer.text


def test_a_question_is_asked_without_the_query_language(ask: Client, kb: Service) -> None:
    for path in ("/console/ask", "/console/ask/stream"):
        text = ask("GET", f"{path}?q=Is+a+%22failed+request%22+-draft").text
        assert "docs/draft.md" in text
        assert (
            "docs/draft.md" not in ask("GET", f"{path}?q=%22failed+request%22+-draft&syntax=1").text
        )


def test_a_kept_question_is_searched_as_it_was(tmp_path: Path) -> None:
    """The log keeps the words of a query; golden questions are compared as plain words."""
    with triptych.open(tmp_path / "kb.db", embedder="none", question_log=True) as kb:
        kb.put_document("docs", "a.md", "A kettle -boiled.")
        ask = Client(create_app(kb, write=True, console=True))
        kb.search("-zebra field:x", dataset_id="docs")
        form = {"q": "-boiled", "dataset": "docs", "name": "a.md", "verdict": "right"}
        post(ask, "/console/golden", **form)
        for path, text in (("gaps", "-zebra field:x"), ("golden", "-boiled")):
            page = ask("GET", f"/console/{path}").text
            (link,) = re.findall(f'href="([^"]*)"[^>]*>{text}</a>', page)
            assert "cannot be done" not in ask("GET", unescape(link)).text
        assert hits(ask("GET", unescape(link)).text) == ["a.md"]


def test_the_word_of_the_evidence_is_a_sentence_with_its_reason_folded(ask: Client) -> None:
    page = ask("GET", "/?q=failed+request&d=docs").text
    assert re.search(r'<span class="badge">fair</span> The words are in at most \d+ pass', page)
    (reason,) = re.findall(r"<summary>Why fair\?</summary>(.*?)</details>", page, re.DOTALL)
    assert "rare words" in reason
    assert "not whether they hold the answer" in reason
    assert "rare words" not in page.replace(reason, "")
    nothing = ask("GET", "/?q=zebra&d=docs&mode=bm25").text
    assert "Nothing was found" in nothing
    assert "not about" not in nothing  # a phrase or a filter may have left everything out


def test_the_place_from_which_hits_are_weak_is_marked_as_the_command_marks_it() -> None:
    with triptych.open("memory://", embedder="none") as kb:
        kb.put_document("docs", "best.md", "Descale the copper kettle with lemon.")
        for at in range(40):
            kb.put_document("docs", f"{at}.md", f"The kettle of guest {at} is on the table.")
        ask = Client(create_app(kb, console=True))
        for query, marked in (
            ("descale copper kettle", 1),
            ("kettle guest", None),
            ("kettle zebra", 0),
        ):
            weak_from = kb.search(query, scope="all", syntax=True).evidence.weak_from
            assert weak_from == marked
            page = ask("GET", f"/?q={query}").text
            assert read(page).open == []
            before, mark, after = page.partition("Weak from here on")
            assert (weak_from is None) is (not mark)
            if weak_from is not None:
                assert len(hits(before)) == weak_from
                assert f'start="{weak_from + 1}"' in after
                assert len(hits(before)) + len(hits(after)) == 10


def test_why_not_is_linked_from_the_hits_and_knows_the_names(ask: Client, kb: Service) -> None:
    kb.put_document("more", "<b>.md", "Another failed request.")

    def names(page: str) -> list[str]:
        found = re.search(r'<datalist id="names">(.*?)</datalist>', page)
        assert found
        return re.findall(r'<option value="([^"]*)">', found[1])

    page = ask("GET", "/?q=failed+request&d=docs").text
    assert names(page) == ["draft.md", "far.md", "law.md"]
    assert 'list="names"' in page
    before = page.partition('id="hit-1"')[0]
    assert '<a href="#name">Why not this document?</a>' in before
    assert names(ask("GET", "/?q=failed+request").text)[-1] == "&lt;b&gt;.md"
    for dataset in ("a", "b"):
        kb.put_documents(dataset, {f"{at:03}": "A failed request." for at in range(150)})
    many = names(ask("GET", "/?q=failed+request&d=a&d=b").text)
    assert many == [f"{at:03}" for at in range(150)]  # both datasets have these names
    kb.put_documents("c", {f"c{at:03}": "A failed request." for at in range(150)})
    assert len(names(ask("GET", "/?q=failed+request&d=a&d=c").text)) == 200


@pytest.mark.parametrize("typed", ["law", "LAW"])
def test_a_name_without_its_ending_is_near(typed: str, ask: Client) -> None:
    page = unescape(ask("GET", f"/?q=failed+request&d=docs&why={typed}").text)
    assert "did you mean 'law.md'" in page
