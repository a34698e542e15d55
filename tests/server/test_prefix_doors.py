"""The prefix of a context at every door: the same bytes, and not sent again where one has them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import triptych
from support.cli_run import fresh_shell
from support.servers import served
from triptych.answers import ContextPrefix
from triptych.layers import estimate_tokens
from triptych.service import Service
from triptych_adapters.client import connect
from triptych_adapters.tools import context_tool

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
