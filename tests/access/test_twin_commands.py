"""By a tool or a command, too, a key learns nothing of others: two stores answer it alike.

Each tool, as a program and over MCP, and each command of ``triptych`` that works on a knowledge
base of a server. A tool or a command without its row here fails.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from support.cli_run import fresh_shell, ran
from support.key_pair import FILTERS, OURS, THEIRS, KeyPair, key_pair, without_times
from support.servers import served
from triptych_adapters.cli.app import COMMANDS
from triptych_adapters.tools import TOOL_NAMES, knowledge_tools
from triptych_server.keys import KeyAuthenticator, KeyStore

NAMES = [
    {"dataset_id": "kb", "name": "ours/tide.md"},
    {"dataset_id": "kb", "name": "theirs/zebra.md"},
    {"dataset_id": "kb", "name": "ours/tid.md"},
    {"dataset_id": "zoo", "name": "animals.md"},
    {"dataset_id": "none", "name": "none.md"},
]
TOOLS: dict[str, list[dict[str, Any]]] = {
    "knowledge_search": [
        {"query": "zebra anchor"},
        {"query": "zebra", "mode": "bm25", "dataset_id": "kb"},
        {"query": "rope", "layer": "L0"},
        {"query": "zebra", "dataset_id": "zoo"},
        *({"query": "", "like": each["name"], "dataset_id": each["dataset_id"]} for each in NAMES),
        *({"query": "any", "like": each["name"]} for each in NAMES),
    ],
    "knowledge_context": [
        {"query": "zebra anchor", "token_budget": 300},
        {"query": "zebra anchor", "token_budget": 600, "prefix_tokens": 200},
    ],
    "knowledge_get": [
        *NAMES,
        *({**each, "version": 1} for each in NAMES[:2]),
        *({**each, "related": True} for each in NAMES),
    ],
    "knowledge_list": [
        {"dataset_id": "kb"},
        {"dataset_id": "zoo"},
        {"dataset_id": "kb", "prefix": "theirs/"},
        {"dataset_id": "kb", "where": {"team": "theirs"}},
        {"dataset_id": "kb", "limit": 1},
    ],
    "knowledge_overview": [{}, {"dataset_id": "kb"}, {"dataset_id": "kb", "path": "theirs"}],
    "knowledge_changes": [{}, {"dataset_id": "kb"}, {"limit": 1}],
    "knowledge_put": [
        {"dataset_id": dataset_id, "name": "ours/new.md", "content": "A zebra.", "metadata": each}
        for each in (OURS, THEIRS, {})
        for dataset_id in ("kb", "zoo", "none")
    ],
}
"""What each tool is asked."""

PLACES = ("kb", "zoo", "none")
COMMAND_ROWS: dict[str, list[list[str]]] = {
    "search": [
        ["zebra", "anchor"],
        ["zebra", "--mode", "bm25", "-d", "kb"],
        ["rope", "--layer", "L0"],
        *(["zebra", "-d", each] for each in PLACES),
        *(["zebra", "--why", each["name"]] for each in NAMES),
    ],
    "similar": [[each["name"]] for each in NAMES]
    + [["ours/tide.md", "-d", each] for each in PLACES],
    "related": [[each["name"]] for each in NAMES]
    + [["ours/tide.md:1", "-d", each] for each in PLACES],
    "impact": [
        *(["-d", each["dataset_id"], each["name"], "--versions", ".."] for each in NAMES),
        *(["--since", "0-", "-d", each] for each in PLACES),
    ],
    "ask": [["where", "is", "the", "zebra"], ["the", "anchor", "-d", "zoo"]],
    "context": [
        *(["zebra", "anchor"], ["zebra", "-d", "zoo"]),
        *(["zebra", "--prefix-tokens", "99"], ["--prefix-tokens", "99"]),
    ],
    "list": [
        *([], ["--folders"], ["--pipelines"]),
        *([*words, "-d", each] for each in PLACES for words in ([], ["--count"])),
    ],
    "get": [["-d", each["dataset_id"], each["name"]] for each in NAMES],
    "history": [["-d", each["dataset_id"], each["name"]] for each in NAMES],
    "diff": [["-d", each["dataset_id"], each["name"], "1"] for each in NAMES],
    "changes": [[], ["-d", "kb"], ["-d", "zoo"]],
    "status": [[]],
    "doctor": [[], ["-d", "zoo"]],
    "export": [["-d", each] for each in PLACES],
    "layers": [
        [*command, "-d", each]
        for command in (
            ["show", "ours/tide.md"],
            ["show", "theirs/zebra.md"],
            ["build", "--dry-run"],
        )
        for each in PLACES
    ],
    "eval": [
        ["retrieval", f"{whose}.yaml", "-d", each]
        for whose in ("ours", "theirs")
        for each in PLACES
    ],
    "tag": [["-d", "kb", "--set", "seen=true", each["name"]] for each in NAMES[:3]],
    "put": [
        ["new.md", "--name", "ours/new.md", "-d", each, "-m", f"team={team}"]
        for each in PLACES
        for team in ("ours", "theirs")
    ],
    "add": [["folder", "-d", "kb"]],
    "sync": [["folder", "-d", "kb"]],
    "remove": [["folder"]],
    "import": [["documents.jsonl", "-d", each] for each in PLACES],
    "restore": [["-d", each["dataset_id"], each["name"], "1"] for each in NAMES],
    "admin": [*(["create", each] for each in PLACES), ["keys", "list"]],
    "rebuild": [["-d", each] for each in PLACES],
    "embed": [["-d", each] for each in PLACES],
    "delete": [
        *(["-d", each["dataset_id"], each["name"], "--yes"] for each in NAMES),
        ["-d", "kb", "--where", "team=theirs", "--yes"],
        *(["-d", each, "--dataset-wide", "--yes"] for each in PLACES),
    ],
    "copy": [["URL", "copy.db"]],
    "backup": [["backup.tar"]],
    "serve": [[]],
    "console": [["--no-browser"]],
}
"""What each command is asked; those that work on a store of this machine only refuse alike."""

GOLDEN = "queries:\n  - question: The zebra at anchor?\n    expected_files: [{}]\n"

NOT_ASKED = {
    "trust": "is about a folder and a store of this machine",
    "init": "makes a store on this machine",
    "watch": "is sync, until it is interrupted",
    "mcp": "has its tools above",
    **dict.fromkeys(("install", "uninstall"), "writes files of this machine, and reads no store"),
}


@pytest.fixture(params=FILTERS)
def pair(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyPair]:
    # What is drawn at random for each answer, and differs between equal ones: names of fences.
    monkeypatch.setattr(secrets, "token_hex", lambda count: "0f" * count)
    with key_pair(FILTERS[request.param]) as made:
        yield made


def unsealed(text: str) -> str:
    """``text`` without moments, ports and sealed cursors, of which only the length is left."""
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST", without_times(text))
    text = re.sub(r"\b\d+(\.\d+)? ?(ms|s)\b", "TIME", text)
    return re.sub(r"\b0-[0-9A-Za-z]{16,}", lambda it: "…" * len(it[0]), text)


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_a_tool_answers_as_if_there_was_nothing_else(name: str, pair: KeyPair) -> None:
    tools = [
        {tool.name: tool for tool in knowledge_tools(service, max_tokens=limit)}[name]
        for limit in (4000, 256)
        for service in pair.restricted()
    ]
    for row in TOOLS[name]:
        answers = [unsealed(tool(**row)) for tool in tools]
        assert answers[0] == answers[1], row
        assert answers[2] == answers[3], row


def test_over_mcp_a_key_is_answered_as_if_there_was_nothing_else(pair: KeyPair) -> None:
    httpx2 = pytest.importorskip("httpx2")
    pytest.importorskip("mcp")
    from mcp.client.streamable_http import streamable_http_client

    from support.mcp_clients import ERAS, connected, served as over_mcp
    from triptych_server.mcp.http import make_app
    from triptych_server.mcp.server import ServerOptions, make_server

    said = []
    for service in pair.services:
        authenticate = KeyAuthenticator(service, KeyStore.of(service))
        app = make_app(make_server(None, ServerOptions(write=True)), authenticate=authenticate)
        asking = httpx2.AsyncClient(headers={"authorization": f"Bearer {pair.token}"})
        with (
            over_mcp(app) as url,
            connected(streamable_http_client(url, http_client=asking), ERAS[1]) as client,
        ):
            found = [repr(client.list_tools()), repr(client.list_resource_templates())]
            resources = client.list_resources().resources
            found += [repr(resources)]
            found += [repr(client.read_resource(each.uri)) for each in resources]
            for name, rows in TOOLS.items():
                found += [repr(client.call_tool(name, row)) for row in rows]
            said.append([unsealed(each) for each in found])
            client.portal.call(asking.aclose)
    assert said[0] == said[1]


@pytest.fixture
def prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("new.md", "# New\n\nA zebra at anchor.")
    shell.write("folder/one.md", "One.")
    row = {"name": "ours/row.md", "content": "A row.", "metadata": OURS}
    shell.write("documents.jsonl", json.dumps(row) + "\n")
    shell.write("ours.yaml", GOLDEN.format("ours/anchor.md"))
    shell.write("theirs.yaml", GOLDEN.format("theirs/zebra.md"))
    return tmp_path


# Each form by one of the two filters: the other two pairs are shown over HTTP.
@pytest.mark.parametrize(
    ("pair", "form"), [("metadata", []), ("prefix", ["--json"])], indirect=["pair"]
)
def test_a_command_answers_as_if_there_was_nothing_else(
    form: list[str], pair: KeyPair, prompt: Path
) -> None:
    with ExitStack() as stack:
        urls = [
            stack.enter_context(
                served(
                    service,
                    authenticate=KeyAuthenticator(service, KeyStore.of(service)),
                    write=True,
                    dataset="kb",
                )
            )
            for service in pair.services
        ]
        for command, rows in COMMAND_ROWS.items():
            for row in rows:
                said = []
                for url in urls:
                    done = ran(
                        [command, *(each.replace("URL", url) for each in row), *form, "-s", url],
                        env={"TRIPTYCH_API_KEY": pair.token, "TRIPTYCH_EMBEDDER": None},
                    )
                    said.append((done.code, unsealed(done.text), unsealed(done.err)))
                assert "Usage: " not in said[0][2], (command, row)
                assert said[0] == said[1], (command, row)


def test_every_tool_and_every_command_has_its_row() -> None:
    assert set(TOOLS) == set(TOOL_NAMES)
    assert set(COMMAND_ROWS) | set(NOT_ASKED) == set(COMMANDS)
