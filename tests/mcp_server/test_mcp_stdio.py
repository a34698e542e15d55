"""`triptych mcp` as an agent starts it: over stdin and stdout, and over HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import triptych
from support.cli_run import ran
from support.mcp_clients import ERAS, Connected, connected
from support.servers import served
from triptych_adapters.cli.output import Output
from triptych_adapters.cli.session import Globals, Session
from triptych_adapters.cli.storeless import found_by_keyword
from triptych_factory import Settings
from triptych_server.keys import KeyStore
from triptych_server.mcp.server import ServerOptions, make_server

mcp = pytest.importorskip("mcp")
httpx2 = pytest.importorskip("httpx2")
streamable_http_client = pytest.importorskip("mcp.client.streamable_http").streamable_http_client
pytestmark = pytest.mark.process

COMMAND = (sys.executable, "-m", "triptych_adapters.cli", "mcp")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mcp") / "kb.db"
    with triptych.open(path, embedder=None) as service:
        service.put_document("docs", "guide/tea.md", "# Tea\n\nLeaves, and a kettle.")
    return path


@pytest.fixture(scope="module", params=ERAS)
def client(store: Path, request: pytest.FixtureRequest) -> Iterator[Connected]:
    command, *arguments = (*COMMAND, "--store", str(store), "--embedder", "none", "--write")
    server = mcp.StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    with connected(server, request.param) as client:
        yield client


def test_an_agent_searches_puts_and_reads(client: Connected, store: Path) -> None:
    assert "knowledge_put" in [tool.name for tool in client.list_tools().tools]
    found = client.call_tool("knowledge_search", {"query": "kettle"})
    assert [hit["doc_name"] for hit in found.structured_content["hits"]] == ["guide/tea.md"]
    nulls = {"query": "kettle", "dataset_id": None, "top_k": None, "why": None, "cursor": None}
    again = client.call_tool("knowledge_search", nulls)
    assert again.structured_content == found.structured_content
    assert client.call_tool("knowledge_search", {"query": None}).is_error
    name = f"{client.client.mode}.md"
    client.call_tool("knowledge_put", {"dataset_id": "docs", "name": name, "content": "samovar"})
    with triptych.open(store, embedder=None) as service:
        assert service.get_document("docs", name).content == "samovar"
        service.put_document("docs", name, "by somebody else")
    # What another process has written is there at once.
    (content,) = client.read_resource(f"triptych://dataset/docs/document/{name}").contents
    assert content.text == "by somebody else"


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("empty", [False, True])
def test_a_folder_that_nobody_added_is_found_by_keyword(
    tmp_path: Path, named: bool, empty: bool
) -> None:
    own = tmp_path / "data" / "triptych" / "kb.db"  # is not given to an agent
    own.parent.mkdir(parents=True)
    with triptych.open(own, embedder=None) as kb:
        kb.put_document("docs", "diary.md", "My kettle.")
    folder, here = tmp_path / "project", tmp_path / "project"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\nLeaves, and a kettle.")
    (folder / "bad.pdf").write_bytes(b"%PDF-1.7 no more")
    command, *arguments = COMMAND
    if named:  # as `triptych install` writes it
        arguments += ["--store", str(folder / ".triptych" / "kb.db")]
        here = tmp_path
    env = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")}
    if empty:  # as `triptych init` leaves it
        (folder / ".triptych").mkdir()
        triptych.open(folder / ".triptych" / "kb.db", embedder=None).close()
    server = mcp.StdioServerParameters(command=command, args=arguments, cwd=here, env=env)
    with connected(server, ERAS[0]) as client:
        found: list[str] = []
        while not found:  # the files are read meanwhile
            answer = client.call_tool("knowledge_search", {"query": "kettle"})
            found = [hit["doc_name"] for hit in answer.structured_content["hits"]]
            said = " ".join(answer.structured_content["warnings"])
            assert found or "still being read" in said  # "nothing" is not said of what is unread
        assert found == ["tea.md"]
        assert "triptych add" in client.client.instructions
    assert (folder / ".triptych").exists() == empty


def test_what_is_not_there_yet_is_not_said_to_be_absent() -> None:
    reading = "the files are still being read"
    with triptych.open("memory://", embedder=None) as kb:
        kb.create_dataset("docs")
        server = make_server(kb, ServerOptions(unready=lambda: reading))
        with connected(server, ERAS[0]) as client:
            listed = client.call_tool("knowledge_list", {})
            assert listed.structured_content["warnings"] == [reading]
            got = client.call_tool("knowledge_get", {"name": "tea.md"})
            assert got.structured_content["error"]["message"].startswith(reading)
            with pytest.raises(mcp.shared.exceptions.MCPError, match=reading):
                client.read_resource("triptych://dataset/docs/document/tea.md")


def test_the_reading_of_a_folder_ends_with_its_client(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in range(200):
        (tmp_path / f"{each}.md").write_text("# Tea\n\n" + "Leaves, and a kettle. " * 500)
    session = Session(output=Output(command="mcp"), options=Globals())
    with found_by_keyword(session, Settings(), tmp_path) as (_, unready):
        assert unready()
        (reading,) = (each for each in threading.enumerate() if "read-folder" in each.name)
    assert not reading.is_alive()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("more", [("--write",), ("--dataset", "d"), ("--store", "none.db")])
def test_a_store_that_is_named_or_written_must_be_there(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    env = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")}
    done = subprocess.run([*COMMAND, *more], cwd=tmp_path, env=env, capture_output=True, input=b"")
    made = (tmp_path / "data").exists()
    assert (done.returncode, made) == ((0, True) if more[0] == "--write" else (3, False))


def test_an_agent_works_on_a_knowledge_base_on_a_server(tmp_path: Path) -> None:
    with triptych.open("memory://", embedder="hash") as kb:
        kb.put_document("docs", "guide/tea.md", "# Tea\n\nLeaves, and a kettle.")
        with served(kb, write=True) as url:
            command, *arguments = (*COMMAND, "--store", url, "--write")
            server = mcp.StdioServerParameters(command=command, args=arguments, cwd=tmp_path)
            with connected(server, ERAS[0]) as client:
                found = client.call_tool("knowledge_search", {"query": "kettle"})
                hits = found.structured_content["hits"]
                assert [hit["doc_name"] for hit in hits] == ["guide/tea.md"]
                new = {"dataset_id": "docs", "name": "new.md", "content": "samovar"}
                client.call_tool("knowledge_put", new)
                assert kb.get_document("docs", "new.md").content == "samovar"
                changed = client.call_tool("knowledge_changes", {}).structured_content["changes"]
                assert [each["name"] for each in changed] == ["guide/tea.md", "new.md"]
                (read,) = client.read_resource("triptych://dataset/docs/document/new.md").contents
                assert read.text == "samovar"
            shown = ran(["mcp", "--store", url, "--print-config"]).json
            assert url in shown["mcpServers"]["triptych"]["args"]


def test_the_protocol_is_what_the_client_asked_for(client: Connected) -> None:
    version = "2025-11-25" if client.client.mode == "legacy" else "2026-07-28"
    assert client.client.protocol_version == version


MESSAGES = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "knowledge_search", "arguments": {"query": "kettle"}},
    },
)


SLOW = [pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize("number", [None, *SLOW])
def test_stdout_holds_the_protocol_and_nothing_else(number: int | None) -> None:
    script = Path(__file__).parents[1] / "support" / "mcp_script.py"
    server = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stderr is not None
    with server:
        for noise in ("no JSON", "[" * 100_000, "[]", '{"jsonrpc":"2.0","id":null}'):
            server.stdin.write(f"{noise}\n")
        for message in MESSAGES:
            server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        answers = {}
        while 2 not in answers:
            answer = json.loads(server.stdout.readline())
            answers[answer.get("id")] = answer
        if number is None:
            server.stdin.close()
        else:
            server.send_signal(number)
        assert server.stdout.read() == ""
        printed = server.stderr.read()
    assert server.returncode == 0
    assert answers[2]["result"]["structuredContent"]["hits"][0]["doc_name"] == "a.md"
    assert {"looking", "for it"} < set(printed.splitlines())


@pytest.mark.parametrize("number", [signal.SIGTERM, *SLOW[:1]])
def test_a_server_over_http_asks_for_keys_and_ends_well_at_a_signal(
    tmp_path: Path, number: int
) -> None:
    store = tmp_path / "kb.db"
    with triptych.open(store, embedder=None) as service:
        service.put_document("mine", "tea.md", "kettle")
        service.put_document("yours", "tea.md", "kettle")
        key = KeyStore.of(service).add("an agent", dataset_ids=["mine"]).token
    arguments = [*COMMAND, "--store", str(store), "--embedder", "none", "--http", "--port", "0"]
    server = subprocess.Popen(
        [*arguments, "--write"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    assert server.stderr is not None
    with server:
        found = re.search(r"http://127\.0\.0\.1:\d+/mcp", server.stderr.readline())
        assert found is not None
        refused = httpx.post(found[0], json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert refused.status_code == 401
        asking = httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"})
        transport = streamable_http_client(found[0], http_client=asking)
        with connected(transport, "2026-07-28") as client:
            assert "knowledge_put" not in [tool.name for tool in client.list_tools().tools]
            hits = client.call_tool("knowledge_search", {"query": "kettle"}).structured_content
            assert [hit["dataset_id"] for hit in hits["hits"]] == ["mine"]
            client.portal.call(asking.aclose)
        server.send_signal(number)
        printed = server.stdout.read(), server.stderr.read()
    assert (server.returncode, *printed) == (0, "", "")


def test_others_are_not_served_without_keys(store: Path) -> None:
    served = ("mcp", "--http", "--store", str(store), "--embedder", "none")
    refused = ran([*served, "--host", "0.0.0.0"])
    assert refused.code == 2
    assert "without keys" in refused.err
