"""The prefix of a context at every door: the same bytes, and not sent again where one has them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

import triptych
from support.cli_run import fresh_shell
from support.servers import listening, served
from triptych.access import Access
from triptych.answers import ContextPrefix
from triptych.errors import AuthenticationError, NotFoundError
from triptych.layers import estimate_tokens
from triptych.service import Service
from triptych_adapters.tools import context_tool
from triptych_server.client import connect
from triptych_server.http import create_app

ASKED = {"prefix_tokens": "80", "dataset_id": "d"}


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder="hash") as service:
        for name in ("a.md", "b.md"):
            service.put_document("d", name, f"# {name}\n\nThe handle of {name} is long.\n")
            service.put_document_layer("d", name, "L0", f"What {name} is.")
        yield service


@pytest.fixture
def prefix(kb: Service) -> ContextPrefix:
    return kb.context_prefix(80, dataset_id="d")


def test_a_server_sends_a_prefix_again_only_if_it_changed(
    kb: Service, prefix: ContextPrefix
) -> None:
    with served(kb) as url, httpx.Client(base_url=url) as http:
        first = http.get("/v1/context-prefix", params=ASKED)
        assert first.json()["text"] == prefix.text
        assert first.headers["etag"] == f'W/"{prefix.digest}"'
        kept = {"If-None-Match": first.headers["etag"]}
        for change in (lambda: None, lambda: kb.put_document("d", "new.md", "No layer.")):
            change()
            again = http.get("/v1/context-prefix", params=ASKED, headers=kept)
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == first.headers["etag"]
        strong = {"If-None-Match": f'"other", "{prefix.digest}"'}
        assert http.get("/v1/context-prefix", params=ASKED, headers=strong).status_code == 304
        kb.put_document_layer("d", "a.md", "L0", "Something else.")
        changed = http.get("/v1/context-prefix", params=ASKED, headers=kept)
        assert changed.status_code == 200
        assert changed.json()["digest"] != prefix.digest
        assert changed.json()["warnings"]


def test_a_client_and_its_awaited_form_have_the_same_bytes(
    kb: Service, prefix: ContextPrefix
) -> None:
    with served(kb) as url, connect(url) as remote:
        assert remote.context_prefix(80, dataset_id="d") == prefix
        assert remote.dataset("d").context_prefix(80, where={"doc_name": "a.md"}).pieces
        pack = remote.context("handle", 200, dataset_id="d", prefix_tokens=80)
        assert pack.prefix == prefix
        assert pack.tail == kb.context("handle", 200, dataset_id="d", prefix_tokens=80).tail

        async def awaited() -> ContextPrefix:
            async with await triptych.AsyncService.open(url) as there:
                return await there.context_prefix(80, dataset_id="d")

        assert asyncio.run(awaited()) == prefix


@attrs.define
class Sent:
    """Status and bytes of each answer that a server sent."""

    answers: list[list[int]] = attrs.field(factory=list)

    def taken(self) -> list[list[int]]:
        """What came since the last time."""
        taken, self.answers = self.answers, []
        return taken


@contextmanager
def recorded(service: Service, **options: Any) -> Iterator[tuple[str, Sent]]:
    """Serve ``service``; the base URL, and what the server sends."""
    app, sent = create_app(service, **options), Sent()

    async def recording(scope: Any, receive: Any, send: Any) -> None:
        answer = [0, 0]

        async def passed_on(message: Any) -> None:
            # Before it is sent: a 304 is complete with its headers.
            if message["type"] == "http.response.start":
                answer[0] = message["status"]
                sent.answers.append(answer)
            answer[1] += len(message.get("body", b""))
            await send(message)

        await app(scope, receive, passed_on)

    with listening(recording) as url:
        yield url, sent


def test_a_client_is_not_sent_a_prefix_that_it_has(kb: Service) -> None:
    with recorded(kb) as (url, sent), connect(url) as remote:
        first = remote.context_prefix(80, dataset_id="d")
        assert [status for status, _ in sent.taken()] == [200]
        # What is no part of the text is as it was when the text came.
        kb.put_document("d", "new.md", "No layer.")
        again = remote.context_prefix(80, dataset_id="d")
        assert sent.taken() == [[304, 0]]
        assert (again, again.missing) == (first, 0)
        assert kb.context_prefix(80, dataset_id="d").missing == 1
        kb.put_document_layer("d", "a.md", "L0", "Something else.")
        for status in (200, 304):
            changed = remote.context_prefix(80, dataset_id="d")
            assert sent.taken()[0][0] == status
            assert changed == kb.context_prefix(80, dataset_id="d") != first
            assert changed.missing == 1


def test_a_kept_prefix_is_of_one_request_and_the_oldest_make_room(kb: Service) -> None:
    kb.put_document("e", "a.md", "Another.")
    asked: list[dict[str, Any]] = [
        {"dataset_id": "d"},
        {"dataset_id": "e"},
        {"dataset_id": "d", "where": {"doc_name": "a.md"}},
        {"dataset_id": "d", "format": "json"},
        {"scope": "all"},
    ]
    with recorded(kb) as (url, sent), connect(url) as remote:
        for status in (200, 304):
            for each in asked:
                assert remote.context_prefix(80, **each) == kb.context_prefix(80, **each)
                assert sent.taken()[0][0] == status
        for tokens in range(81, 89):
            remote.context_prefix(tokens, dataset_id="d")
        sent.taken()
        remote.context_prefix(88, dataset_id="d")
        remote.context_prefix(80, dataset_id="d")
        assert [status for status, _ in sent.taken()] == [304, 200]


def test_a_kept_prefix_is_of_one_key_and_gone_with_what_the_key_may_read(kb: Service) -> None:
    accesses = {"all": Access(dataset_ids=["d"]), "some": Access(where={"doc_name": "a.md"})}

    def key(authorization: str | None) -> Service:
        name = (authorization or "").removeprefix("Bearer ")
        if name not in accesses:
            raise AuthenticationError("give a key")
        return kb.restricted(accesses[name])

    with (
        recorded(kb, authenticate=key) as (url, sent),
        connect(url, key="all") as every,
        connect(url, key="some") as some,
    ):
        both = every.context_prefix(80, dataset_id="d")
        one = some.context_prefix(80, dataset_id="d")
        assert [status for status, _ in sent.taken()] == [200, 200]
        assert ("b.md" in both.text, "b.md" in one.text) == (True, False)
        accesses["all"] = accesses["some"]
        assert every.context_prefix(80, dataset_id="d") == one
        accesses["all"] = Access(dataset_ids=["other"])
        with pytest.raises(NotFoundError):
            every.context_prefix(80, dataset_id="d")
        del accesses["all"]
        with pytest.raises(AuthenticationError):
            every.context_prefix(80, dataset_id="d")


def test_threads_share_what_is_kept_and_never_have_an_older_prefix(kb: Service) -> None:
    with recorded(kb) as (url, sent), connect(url) as remote, ThreadPoolExecutor(2) as two:
        for at in range(30):
            kb.put_document_layer("d", "a.md", "L0", f"Number {at}.")
            now = kb.context_prefix(80, dataset_id="d")
            calls = [two.submit(remote.context_prefix, 80, dataset_id="d") for _ in range(6)]
            assert [call.result() for call in calls] == [now] * 6
            statuses = [status for status, _ in sent.taken()]
            # Both may have asked before either was answered.
            assert 1 <= statuses.count(200) <= 2
            assert statuses.count(304) == 6 - statuses.count(200)


def test_a_tool_leaves_out_the_prefix_that_its_caller_has(kb: Service) -> None:
    tool = context_tool(kb)
    asked = {"query": "handle", "token_budget": 600, "prefix_tokens": 200, "dataset_id": "d"}
    assert "prefix" not in json.loads(tool(query="handle"))
    first = json.loads(tool(**asked))
    assert "What a.md is." in first["prefix"]
    assert estimate_tokens(tool(**asked)) <= 600
    again = json.loads(tool(**asked, prefix_digest=first["prefix_digest"]))
    assert again["prefix_digest"] == first["prefix_digest"]
    assert "prefix" not in again
    assert "[3] d/" in again["context"]
    kb.put_document_layer("d", "a.md", "L0", "Something else.")
    changed = json.loads(tool(**asked, prefix_digest=first["prefix_digest"]))
    assert "Something else." in changed["prefix"]


def test_a_command_prints_it_before_the_rest_or_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/a.md", "# Kettle\n\nThe handle is long.\n")
    assert shell("put", "docs").code == 0
    assert shell("layers", "build").code == 0
    alone = shell("context", "--prefix-tokens", "80")
    assert alone.text.startswith("[1] default/a.md ")
    digest = shell("context", "--prefix-tokens", "80", "--json").json["digest"]
    assert f"digest {digest}" in alone.err
    both = shell("context", "handle", "--prefix-tokens", "80", "-d", "default")
    assert both.text.startswith(f"{alone.text}\n")
    pack = shell("context", "handle", "--prefix-tokens", "80", "--json").json
    assert (pack["prefix"]["digest"], pack["prefix"]["text"]) == (digest, alone.text)
    assert shell("context", "--prefix-tokens", "80", "--hook").code != 0
