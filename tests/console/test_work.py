"""The work list: what a model could not write, what expires, and long work that is watched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import HOSTILE, post, read
from support.servers import served
from triptych.layers import LayerBuilder
from triptych.service import Service
from triptych.testing.fakes import FakeLLM
from triptych_adapters.console import waiting
from triptych_adapters.http import create_app
from triptych_adapters.keys import KeyAuthenticator, KeyStore


class Model(FakeLLM):
    """Answers nothing while it is ``silent``."""

    def __init__(self) -> None:
        self.silent = True
        super().__init__(lambda _, text: "" if self.silent and "Beans" in text else "A summary.")


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def kb(tmp_path: Path, model: Model) -> Iterator[Service]:
    with triptych.open(tmp_path / "kb.db", embedder="hash", llm=model) as opened:
        docs = opened.dataset("docs")
        docs.put("guide/tea.md", "# Tea\n\nGreen tea steeps for two minutes.")
        docs.put("coffee.md", "# Coffee\n\nBeans are roasted.")
        yield opened


@pytest.fixture
def ask(kb: Service) -> Client:
    return Client(create_app(kb, write=True, console=True))


def build(kb: Service) -> None:
    builder = LayerBuilder(kb)
    builder.apply(builder.plan("docs"))


# Parked layers


def test_a_parked_layer_is_named_with_its_reason_and_tried_again(
    kb: Service, ask: Client, model: Model
) -> None:
    assert "Parked layers" not in ask("GET", "/console/work").text
    build(kb)
    text = ask("GET", "/console/work").text
    assert "Parked layers" in text
    row = text[text.index('id="parked"') :]
    assert re.search(r"coffee\.md</bdi></a></th><td>L0</td><td><strong>empty</strong> \w+", row)
    assert "tea.md" not in row.partition("</section>")[0]
    model.silent = False
    form = {"do": "layers", "dataset": "docs", "name": "coffee.md"}
    post(ask, "/console/work", **form)
    assert kb.layer("docs", "coffee.md", "L0") is None  # a build leaves it out
    post(ask, "/console/work", **form, retry="1")
    layer = kb.layer("docs", "coffee.md", "L0")
    assert layer is not None
    assert layer.content == "A summary."
    assert "Parked layers" not in ask("GET", "/console/work").text


def test_a_plan_says_what_is_parked_and_takes_it_when_it_is_asked_to(
    kb: Service, ask: Client, model: Model
) -> None:
    build(kb)
    assert "layers are parked, and left out" in ask("GET", "/console/work?plan=docs").text
    text = ask("GET", "/console/work?plan=docs&retry=1&name=coffee.md").text
    assert "left out" not in text.partition('id="parked"')[0]
    (form,) = re.findall(r"<form[^>]*>(?:(?!</form>).)*At most.*?</form>", text)
    assert 'name="retry" value="1"' in form
    assert 'name="name" value="coffee.md"' in form


def test_the_message_of_a_provider_is_for_whoever_sees_the_whole_store(kb: Service) -> None:
    build(kb)
    (entry, *_) = LayerBuilder(kb).quarantined("docs")
    keys = KeyStore.of(kb)
    whole = keys.add("whole", can_write=True).token
    part = keys.add("part", dataset_ids=["docs"], can_write=True).token
    ask = Client(create_app(kb, authenticate=KeyAuthenticator(kb, keys), write=True, console=True))
    pages = [
        ask("GET", "/console/work", headers={"Authorization": f"Bearer {each}"}).text
        for each in (whole, part)
    ]
    assert all("<strong>empty</strong>" in each for each in pages)
    assert [entry.message in each for each in pages] == [True, False]


# Expiry


def at(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def test_documents_that_expire_are_named_before_they_are_deleted(kb: Service, ask: Client) -> None:
    for name, days in (("old.md", -1), ("older.md", -2), ("soon.md", 3), ("late.md", 30)):
        kb.put_document("docs", name, f"Of {name}.", expires_at=at(days))
    text = ask("GET", "/console/work").text
    expired, _, soon = text[text.index('id="expired"') :].partition("Within a week")
    assert [each in expired for each in ("old.md", "older.md", "soon.md")] == [True, True, False]
    assert "soon.md" in soon
    assert "late.md" not in text
    assert "Delete these 2" not in text
    post(ask, "/console/work", do="expired")
    assert kb.documents.get_info("docs", "old.md") is not None
    asked = ask("GET", "/console/work?expired=1").text
    assert "Delete these 2" in asked
    (digest,) = re.findall(r'name="digest" value="(\w+)"', asked)
    kb.put_document("docs", "newer.md", "New.", expires_at=at(-1))
    answer = post(ask, "/console/work", do="expired", digest=digest)
    assert answer.headers["location"] == "/console/work?expired=changed#expired"
    page = ask("GET", "/console/work?expired=changed").text
    assert "Nothing was deleted" in page
    assert "newer.md" in page
    (digest,) = re.findall(r'name="digest" value="(\w+)"', page)
    answer = post(ask, "/console/work", do="expired", digest=digest)
    assert answer.headers["location"] == "/console/work?removed=3"
    assert "3 expired documents were deleted" in ask("GET", "/console/work?removed=3").text
    left = [each.name for each in kb.documents.list("docs")]
    assert left == ["coffee.md", "guide/tea.md", "late.md", "soon.md"]


def test_a_long_list_says_how_many_more_there_are_and_deletes_what_it_names(
    kb: Service, ask: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_LISTED", 3)
    for number in range(5):
        kb.put_document("docs", f"{number}.md", "Old.", expires_at=at(-1))
        kb.put_document("more", f"{number}.md", "Old.", expires_at=at(1))
    text = ask("GET", "/console/work?expired=1").text
    assert text.count("And 2 more.") == 2
    (digest,) = re.findall(r'name="digest" value="(\w+)"', text)
    post(ask, "/console/work", do="expired", digest=digest)
    assert [each.name for each in kb.documents.list("docs", limit=2)] == ["3.md", "4.md"]


def test_hostile_names_stay_text(kb: Service, ask: Client) -> None:
    kb.put_document("docs", f"{HOSTILE}.md", "Beans of the hostile.")
    kb.put_document("docs", f"{HOSTILE}2.md", "Old.", expires_at=at(-1))
    build(kb)
    tags = read(ask("GET", "/console/work?expired=1").text)
    assert tags.open == []
    assert len(tags.active) == 1


def test_whoever_only_reads_is_offered_nothing(kb: Service) -> None:
    build(kb)
    kb.put_document("docs", "old.md", "Old.", expires_at=at(-1))
    text = Client(create_app(kb, console=True))("GET", "/console/work?expired=1").text
    assert "Parked layers" in text
    assert "old.md" in text
    assert '<form method="post"' not in text


def test_over_another_server_it_says_what_is_not_named(kb: Service) -> None:
    with (
        served(kb, write=True) as url,
        triptych.open(url) as remote,
    ):
        answer = Client(create_app(remote, write=True, console=True))("GET", "/console/work")
    assert answer.status_code == 200
    assert "Which documents have expired" in answer.text
