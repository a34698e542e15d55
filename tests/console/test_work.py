"""The work list: what a model could not write, what expires, and long work that is watched."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

from triptych.records import NewDocument

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.chat_server import whole
from support.console import HOSTILE, TOKEN, post, read
from support.provider_server import Asked, ProviderServer, Reply, serving
from support.servers import listening, served
from triptych.errors import ProviderSetupError, RateLimitedError
from triptych.layers import LayerBuilder
from triptych.records import Retries, dense
from triptych.service import Service
from triptych.vectors.refused import RefusedTexts
from triptych_adapters.wire import build_layers
from triptych_providers import Connection, OpenAIEmbedder, OpenAILLM
from triptych_server.http import Limits, create_app
from triptych_server.keys import KeyAuthenticator, KeyStore
from triptych_testing.fakes import FakeLLM

ONCE = Connection(retries=Retries(attempts=1))


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


# How much waits


def waits(ask: Client, **headers: str) -> int:
    """The number at To do in the menu."""
    header = ask("GET", "/console/connect", headers=headers).text.partition("</header>")[0]
    found = re.search(r'To do <span class="badge">(\d+)</span></a>', header)
    return int(found[1]) if found else 0


def test_the_menu_counts_what_is_to_be_done(kb: Service, ask: Client) -> None:
    assert waits(ask) == 0
    build(kb)  # the model answers nothing for one document
    broken = len(LayerBuilder(kb).quarantined("docs"))
    assert waits(ask) == broken > 0
    kb.put_document("docs", "late.md", "Late.", embed="later")
    assert waits(ask) == broken + 1
    kb.embed_pending("docs")
    assert waits(ask) == broken
    kb.put_document("docs", "guide/tea.md", "# Tea\n\nBlack tea steeps for four minutes.")
    stale = sum(each.stale is not None for each in kb.layers("docs"))
    assert waits(ask) == broken + stale > broken
    kb.put_document("docs", "old.md", "Old.", expires_at=datetime.now(UTC) - timedelta(days=1))
    assert waits(ask) == broken + stale + 1


def test_who_sees_a_part_is_shown_no_count_of_the_whole(kb: Service) -> None:
    kb.put_document("docs", "late.md", "Late.", embed="later")
    keys = KeyStore.of(kb)
    ask = Client(create_app(kb, authenticate=KeyAuthenticator(kb, keys), console=True))
    whole, part = keys.add("whole").token, keys.add("part", dataset_ids=["docs"]).token
    counts = [waits(ask, Authorization=f"Bearer {each}") for each in (part, whole, part)]
    assert counts == [0, 1, 0]


def test_it_is_counted_when_the_store_has_changed_and_seldom_where_that_lasts(
    kb: Service, ask: Client, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.silent = False
    build(kb)
    kb.put_document("docs", "guide/tea.md", "# Tea\n\nBlack tea steeps for four minutes.")
    before = waits(ask)
    assert before > 0
    monkeypatch.setattr(build_layers, "MOST_COUNTED", 0)  # who counts now finds nothing
    assert waits(ask) == before
    monkeypatch.setattr("triptych_server.console.work_lists._QUICK", -1)
    monkeypatch.setattr("triptych_server.console.work_lists._SHARE", 1e9)
    kb.put_document("docs", "new.md", "New.")
    assert waits(ask) == 0
    monkeypatch.setattr(build_layers, "MOST_COUNTED", 5_000)
    kb.put_document("docs", "newer.md", "Newer.")
    assert waits(ask) == 0  # counting was slow: not again so soon


# Quarantined layers


def test_a_quarantined_layer_is_named_with_its_reason_and_tried_again(
    kb: Service, ask: Client, model: Model
) -> None:
    assert "Quarantined layers" not in ask("GET", "/console/work").text
    build(kb)
    text = ask("GET", "/console/work").text
    assert "Quarantined layers" in text
    row = text[text.index('id="quarantined"') :]
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
    assert "Quarantined layers" not in ask("GET", "/console/work").text


def test_a_plan_says_what_is_quarantined_and_takes_it_when_it_is_asked_to(
    kb: Service, ask: Client, model: Model
) -> None:
    build(kb)
    assert "layers are quarantined, and left out" in ask("GET", "/console/work?plan=docs").text
    text = ask("GET", "/console/work?plan=docs&retry=1&name=coffee.md").text
    assert "left out" not in text.partition('id="quarantined"')[0]
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


def test_what_the_embedder_refused_is_named_and_its_words_likewise(kb: Service) -> None:
    kb.put_document("docs", "milk.md", "Milk is boiled.", embed="later")
    (chunk,) = kb.chunks.iter_chunks("docs", "milk.md")
    assert kb.options.embedder is not None
    space = dense(kb.options.embedder.signature)
    texts = RefusedTexts(kb.capabilities.settings, "docs", space)
    texts.add({chunk.sig.input_sig: ValueError("NaN at box-7")})
    keys = KeyStore.of(kb)
    whole = keys.add("whole", can_write=True).token
    part = keys.add("part", dataset_ids=["docs"], can_write=True).token
    ask = Client(create_app(kb, authenticate=KeyAuthenticator(kb, keys), write=True, console=True))
    for path in ("/console/work", "/v1/health"):
        pages = [
            ask("GET", path, headers={"Authorization": f"Bearer {each}"}).text
            for each in (whole, part)
        ]
        assert all("the model refuses 1 chunk of" in each for each in pages)
        assert all("milk.md" in each for each in pages)
        assert all("triptych embed --dataset docs --retry" in each for each in pages)
        assert ["box-7" in each for each in pages] == [path == "/console/work", False]
    report = ask("POST", "/v1/doctor", headers={"Authorization": f"Bearer {part}"}, json={}).json()
    (said,) = report["left_out"]
    assert said.endswith("1 chunk of 'milk.md', which the model refuses")


def test_the_doctor_speaks_of_no_document_that_its_caller_does_not_see(kb: Service) -> None:
    assert kb.options.embedder is not None
    space = dense(kb.options.embedder.signature)
    for name, team in (("ours.md", "a"), ("theirs.md", "b")):
        kb.put_document("docs", name, f"Milk of {team}.", {"team": team}, embed="later")
        (chunk,) = kb.chunks.iter_chunks("docs", name)
        texts = RefusedTexts(kb.capabilities.settings, "docs", space)
        texts.add({chunk.sig.input_sig: ValueError(f"{chunk.doc_name} quoted")})
    keys = KeyStore.of(kb)
    filtered = keys.add("filtered", where={"team": "a"}, can_write=True).token
    other = keys.add("other", dataset_ids=["none"], can_write=True).token
    ask = Client(create_app(kb, authenticate=KeyAuthenticator(kb, keys), write=True, console=True))
    for key in (filtered, other):
        headers = {"Authorization": f"Bearer {key}"}
        for method, path in (
            ("POST", "/v1/doctor"),
            ("GET", "/v1/health"),
            ("GET", "/console/work?doctor=1"),
        ):
            given: dict[str, Any] = {"json": {}} if method == "POST" else {}
            answer = ask(method, path, headers=headers, **given)
            assert answer.status_code == 200
            assert "theirs.md" not in answer.text
            assert "quoted" not in answer.text


# Plans


def test_a_plan_offers_a_limit_of_calls_only_where_calls_are_planned(
    kb: Service, ask: Client, tmp_path: Path
) -> None:
    text = ask("GET", "/console/work?plan=docs").text
    assert "8 planned; retries of calls that fail count too" in text
    assert "At most" in text
    with triptych.open(tmp_path / "plain.db", embedder="hash") as plain:
        plain.put_document("docs", "a.md", "A kettle.")
        text = Client(create_app(plain, write=True, console=True))(
            "GET", "/console/work?plan=docs"
        ).text
    assert "Make them" in text
    assert "At most" not in text


def test_stale_layers_that_are_not_counted_are_told_of(
    kb: Service, ask: Client, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.silent = False
    build(kb)
    kb.put_document("docs", "coffee.md", "Other beans.")
    text = ask("GET", "/console/work").text
    assert "2 stale layers" in text
    assert text.count("Show what it costs") == 2
    monkeypatch.setattr(build_layers, "MOST_COUNTED", 5)
    text = ask("GET", "/console/work").text
    assert "2 stale layers" not in text
    assert "all chunks and vectors are up to date" in text
    assert "more than 5,000 layers are not counted" in text


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
    kb: Service, ask: Client
) -> None:
    for dataset_id, days in (("docs", -1), ("more", 1)):
        names = (f"{number:03}.md" for number in range(302))
        kb.put_documents(
            dataset_id,
            [NewDocument(name=name, content="Old.", expires_at=at(days)) for name in names],
        )
    text = ask("GET", "/console/work?expired=1").text
    assert text.count("And 2 more.") == 2
    (digest,) = re.findall(r'name="digest" value="(\w+)"', text)
    post(ask, "/console/work", do="expired", digest=digest)
    assert [each.name for each in kb.documents.list("docs", limit=2)] == ["300.md", "301.md"]


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
    assert "Quarantined layers" in text
    assert "old.md" in text
    assert '<form method="post"' not in text


def test_over_another_server_it_says_what_is_not_named(kb: Service) -> None:
    with (
        served(kb, write=True) as url,
        triptych.open(url) as remote,
    ):
        ask = Client(create_app(remote, write=True, console=True))
        answer = ask("GET", "/console/work")
        refused = post(ask, "/console/work", do="expired")
        rebuilt = post(ask, "/console/work/stream", do="rebuild", dataset="docs")
    assert refused.status_code == 501
    assert "0 documents were made again" in rebuilt.text
    assert answer.status_code == 200
    assert "Which documents have expired" in answer.text


# Long work


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[Service, ProviderServer, threading.Event]]:
    """A store of six documents whose model, a server on loopback, answers six calls at once, and
    the others only when the event is set."""
    free = threading.Event()
    count = itertools.count()

    def answer(asked: Asked) -> Reply:
        reply = whole("A summary.")
        return reply if next(count) < 6 else attrs.evolve(reply, hold=free)

    with serving(answer) as model:
        llm = OpenAILLM("m", base_url=f"{model.url}/v1", connection=ONCE)
        with (
            closing(llm),
            triptych.open(tmp_path / "slow.db", embedder="hash", llm=llm) as opened,
        ):
            for number in range(6):
                opened.put_document("docs", f"{number}.md", f"# Number {number}\n\nA text.")
            try:
                yield opened, model, free
            finally:
                free.set()


def events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def streamed(url: str, **form: str) -> AbstractContextManager[httpx.Response]:
    return httpx.stream(
        "POST",
        f"{url}/console/work/stream",
        data={"form_token": "token", "dataset": "docs", **form},
        headers={**TOKEN, "Accept": "text/event-stream"},
        timeout=60,
    )


def told_of(value: dict[str, Any]) -> str:
    """What the page that ends a task says that it came to."""
    (text,) = re.findall(r'role="status"[^>]*>(.*?)</p>', value["html"])
    return str(text)


def made(kb: Service) -> int:
    return len(list(kb.layers("docs")))


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_layers_are_built_while_their_progress_is_told(
    slow: tuple[Service, ProviderServer, threading.Event],
) -> None:
    kb, model, free = slow
    with (
        served(kb, write=True, console=True) as url,
        streamed(url, do="layers", max_calls="1000") as answer,
    ):
        told = []
        for name, value in events(answer.iter_lines()):
            told.append((name, value))
            if name == "progress" and value["phases"][0]["done"]:
                free.set()
    assert told[0][1]["phases"] == [{"phase": "layers", "done": 0, "total": 14}]
    steps = [value["phases"][0]["done"] for name, value in told if name == "progress"]
    assert steps == sorted(steps)
    assert any(0 < each < 14 for each in steps)
    assert re.fullmatch(r"\d+ calls of the model with retries, \d+ tokens", told[-2][1]["used"])
    name, last = told[-1]
    assert name == "end"
    said = "14 layers were made; that took 14 calls of the model, retries included."
    assert told_of(last) == said
    assert "<main" not in last["html"]
    assert "Nothing waits" in last["html"]
    assert made(kb) == 14
    assert len(model.asked) == 14


def test_closing_the_stream_ends_the_work_and_keeps_what_was_made(
    slow: tuple[Service, ProviderServer, threading.Event],
) -> None:
    kb, model, free = slow
    app = create_app(kb, write=True, console=True)
    with listening(app) as url:
        with streamed(url, do="layers", max_calls="1000") as answer:
            for _, value in events(answer.iter_lines()):
                if value["phases"][0]["done"]:
                    break
        until(lambda: app.state.triptych.calls._under_way == 0)
        asked = len(model.asked)
        assert 0 < made(kb) < 14  # the model still holds the others: nobody waits for them
        assert not free.is_set()
        free.set()
        time.sleep(0.3)
        assert len(model.asked) == asked
        kept = made(kb)
        with streamed(url, do="layers", max_calls="1000") as answer:
            *_, (name, value) = events(answer.iter_lines())
    assert name == "end"
    assert told_of(value).startswith(f"{14 - kept} layers were made; that took")
    assert made(kb) == 14


def test_the_time_limit_of_a_request_ends_it_and_says_so(
    slow: tuple[Service, ProviderServer, threading.Event],
) -> None:
    kb, _, _ = slow
    limits = Limits(seconds=1.5)
    with (
        served(kb, write=True, console=True, limits=limits) as url,
        streamed(url, do="layers") as answer,
    ):
        *_, (name, value) = events(answer.iter_lines())
    assert name == "end"
    text = told_of(value)
    assert re.match(r"\d+ layers were made; .*the time limit of a request ended it", text)
    assert text.startswith(f"{made(kb)} layers")


def test_chunks_and_vectors_are_watched_too(kb: Service, tmp_path: Path) -> None:
    for number in range(300):
        kb.put_document("docs", f"{number}.md", f"Text {number}.", embed="later")
    with served(kb, write=True, console=True) as url:
        for do, text in (
            ("embed", "300 documents have all their vectors now."),
            ("rebuild", "The chunks and vectors of 0 documents were made again."),
        ):
            with streamed(url, do=do) as answer:
                (*steps, last) = events(answer.iter_lines())
            assert (last[0], told_of(last[1])) == ("end", text)
            for phase in steps[-1][1]["phases"]:
                assert phase["done"] == phase["total"] >= 300


@pytest.mark.parametrize("do", ["embed", "rebuild"])
def test_closing_the_stream_ends_embedding_and_keeps_what_was_embedded(
    do: str, tmp_path: Path
) -> None:
    free, count = threading.Event(), itertools.count()

    def answer(asked: Asked) -> Reply:
        rows = [{"index": at, "embedding": [1.0, 0, 0]} for at in range(len(asked.body["input"]))]
        reply = Reply(body=json.dumps({"data": rows}).encode())
        return reply if next(count) < 6 else attrs.evolve(reply, hold=free)

    store = tmp_path / "slow.db"
    with triptych.open(store, embedder=None) as kb:
        for number in range(600):
            kb.put_document("docs", f"{number}.md", f"Text {number}.", embed="later")
    with serving(answer) as model:
        embedder = OpenAIEmbedder("m", base_url=model.url, dimension=3, connection=ONCE)
        with closing(embedder), triptych.open(store, embedder=embedder) as kb:
            app = create_app(kb, write=True, console=True)
            with listening(app) as url:
                with streamed(url, do=do) as reply:
                    for _, value in events(reply.iter_lines()):
                        phases = {each["phase"]: each["done"] for each in value["phases"]}
                        if phases.get("embedding"):
                            break
                until(lambda: app.state.triptych.calls._under_way == 0)
                assert not free.is_set()
                asked = len(model.asked)
                (stats,) = kb.stats("docs")
                assert 0 < stats.vectors < 600
                free.set()
                time.sleep(0.3)
                assert len(model.asked) == asked
                with streamed(url, do=do) as reply:
                    *_, (name, _) = events(reply.iter_lines())
            assert name == "end"
            assert kb.stats("docs")[0].vectors == 600


class Down(FakeLLM):
    """A provider that is not there."""

    def __init__(self) -> None:
        super().__init__(lambda *_: ProviderSetupError("nothing at http://inside:11434"))


@pytest.fixture
def down(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(tmp_path / "down.db", embedder="hash", llm=Down()) as opened:
        for number in range(8):
            opened.put_document("docs", f"{number}.md", f"# Number {number}\n\nA text.")
        yield opened


def keyed(kb: Service) -> tuple[Client, list[dict[str, str]]]:
    """The console, and the headers of a key to everything and of one to the dataset."""
    keys = KeyStore.of(kb)
    whole = keys.add("whole", can_write=True).token
    part = keys.add("part", dataset_ids=["docs"], can_write=True).token
    app = create_app(kb, authenticate=KeyAuthenticator(kb, keys), write=True, console=True)
    return Client(app), [{"Authorization": f"Bearer {each}"} for each in (whole, part)]


@pytest.mark.parametrize("path", ["/console/work", "/console/work/stream"])
def test_what_fails_is_named_and_what_a_provider_says_is_for_whoever_sees_the_whole_store(
    path: str, down: Service
) -> None:
    ask, both = keyed(down)
    pages = []
    for headers in both:
        form = {"form_token": "token", "do": "layers", "dataset": "docs"}
        answer = ask("POST", path, data=form, headers={**TOKEN, **headers})
        assert answer.status_code == 200
        *_, last = answer.text.split("event: end\ndata: ")
        pages.append(json.loads(last)["html"] if "stream" in path else answer.text)
    for text in pages:
        assert re.search(r"<bdi>\d\.md</bdi> L0: ", text)
        assert "the model kept failing, which ended it" in text
        assert "limit of calls" not in text
        assert "Nothing waits" not in text
    assert ["http://inside:11434" in each for each in pages] == [True, False]
    assert "a model&#39;s provider failed" in pages[1]


def test_of_many_failures_five_are_named(down: Service) -> None:
    # So long a pause is not waited for: each layer fails at once, until ten in a row have.
    assert isinstance(down.llm, Down)
    down.llm._answer = lambda *_: RateLimitedError("away", retry_after=100)
    ask = Client(create_app(down, write=True, console=True))
    text = post(ask, "/console/work", do="layers", dataset="docs").text
    (failed,) = re.findall(r"(\d+) failed, and are tried again", text)
    assert text.count(": away</li>") == 5
    assert f"And {int(failed) - 5} more." in text


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"do": "nothing"}, 400),
        ({"do": "layers", "dataset": "none"}, 404),
        ({"form_token": ""}, 403),
    ],
)
def test_a_task_that_is_none_is_refused_before_it_begins(
    form: dict[str, str], status: int, ask: Client
) -> None:
    answer = post(ask, "/console/work/stream", **{"do": "rebuild", "dataset": "docs", **form})
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_nobody_who_only_reads_starts_a_task(kb: Service) -> None:
    ask = Client(create_app(kb, console=True))
    assert post(ask, "/console/work/stream", do="rebuild", dataset="docs").status_code == 403


def test_without_script_the_page_says_what_came_of_it(ask: Client, model: Model) -> None:
    for form, text in (
        ({"do": "rebuild"}, "The chunks and vectors of 0 documents were made again."),
        ({"do": "embed"}, "0 documents have all their vectors now."),
        (
            {"do": "layers", "max_calls": "1", "name": "guide/tea.md"},
            "the limit of calls ended it, so build again to go on",
        ),
        ({"do": "layers"}, "2 were quarantined, as the model’s answer could not be stored"),
    ):
        answer = post(ask, "/console/work", dataset="docs", **form)
        assert answer.status_code == 303
        assert text in ask("GET", answer.headers["location"]).text
    assert 'role="status"' not in ask("GET", "/console/work?did=other&n=3&stopped=other").text
