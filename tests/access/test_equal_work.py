"""A key learns nothing from time: for a hidden document the store is read as for a missing one.

The reads are counted: their statements are the same, and no answer has more than the one row by
which the document is judged. An operation or a page that takes a document's name and has no row
here fails.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

pytest.importorskip("starlette")

from support.asgi import Client
from support.key_pair import OURS, THEIRS
from triptych.errors import NotFoundError
from triptych.records import Layer
from triptych.service import Service, ServiceOptions
from triptych_adapters.tools import knowledge_tools
from triptych_adapters.wire import OPERATIONS, ROUTES, query_pairs
from triptych_backends.sqlite import SqliteStore
from triptych_backends.sqlite.session import SqliteSession
from triptych_server.http import create_app
from triptych_server.keys import KeyAuthenticator, KeyStore
from triptych_testing.fakes import FakeEmbedder

HIDDEN, MISSING = "theirs/zebra.md", "theirs/zebrb.md"
CITED = {"dataset_id": "kb", "version": 2, "start": 0, "end": 6, "text": "# Tide"}
ROWS: dict[str, list[dict[str, Any]]] = {
    "get_document": [{}, {"version": 2}, {"version": 99}],
    "history": [{}],
    "diff": [{"old": 1}, {"old": 1, "new": 2}],
    "restore": [{"version": 1}],
    "layer": [{"layer": "L0"}, {"layer": "L1"}],
    "put_document_layer": [{"layer": "L1", "content": "Of the sea."}],
    "delete_document": [{}, {"if_version": 2}],
    "explain": [{"query": "zebra"}, {"query": "zebra", "where": {"team": "theirs"}}],
    "similar": [{}, {"chunk": 0}],
    "verify": [{}],
    "rebuild": [{}],
    "embed_pending": [{}],
    "update_metadata": [{"changes": {"seen": True}}],
    "delete_documents": [{}],
    "purge": [{}],
}
TOLD = {"put_document", "put_documents", "put_folder_layer", "build_layers"}
"""What says that a name is taken, as the documentation does, or takes no document's name."""
PAGES = (
    "/console/documents/kb/{}",
    "/console/documents/kb/{}?v=1&old=1",
    "/console/pages/kb/{}/1",
    "/console/sandbox?dataset=kb&name={}",
    "/?q=zebra&d=kb&why={}",
)
TOOLS: dict[str, dict[str, Any]] = {
    "knowledge_get": {"name": "{}"},
    "knowledge_overview": {"path": "{}"},
    "knowledge_search": {"query": "zebra", "why": "{}"},
}

Reads = list[tuple[str, int]]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    store = SqliteStore.open(tmp_path_factory.mktemp("equal") / "kb.db", history=20)
    with Service(store, options=ServiceOptions(embedder=FakeEmbedder())) as whole:
        for at in range(10):
            text = "\n\n".join(f"# Part {part}\n\nZebra {at} {part}." for part in range(30))
            whole.put_document("kb", HIDDEN, text, THEIRS)
            whole.put_document("kb", "ours/tide.md", f"The tide turns {at}.", OURS)
        for layer in (Layer.ABSTRACT, Layer.OVERVIEW):
            whole.put_document_layer("kb", HIDDEN, layer, "Of zebras.")
        yield whole


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Each statement that is run, and how many rows it gave."""
    found: Reads = []
    run = SqliteSession.all

    def noted(self: SqliteSession, statement: Any, **parameters: Any) -> Any:
        rows = run(self, statement, **parameters)
        found.append((str(statement), len(rows)))
        return rows

    monkeypatch.setattr(SqliteSession, "all", noted)
    return found


def _is_equal_work(reads: Reads, ask: Any) -> None:
    for name in (HIDDEN, MISSING, HIDDEN):  # caches are warm after the first
        ask(name)
    work: dict[str, Reads] = {}
    for name in (HIDDEN, MISSING):
        reads.clear()
        ask(name)
        work[name] = list(reads)
    statements = [[statement for statement, _ in each] for each in work.values()]
    assert statements[0] == statements[1]
    rows = zip(work[HIDDEN], work[MISSING], strict=True)
    assert all(hidden[1] - missing[1] in (0, 1) for hidden, missing in rows)
    assert reads


@pytest.fixture
def client(service: Service) -> Client:
    keys = KeyStore.of(service)
    made = keys.add("filtered", where=OURS, can_write=True)
    authenticate = KeyAuthenticator(service, keys)
    app = create_app(service, authenticate=authenticate, write=True, dataset="kb", console=True)
    return Client(app, Authorization=f"Bearer {made.token}")


def _asked(operation: str, row: dict[str, Any], name: str) -> tuple[str, str, dict[str, Any]]:
    route, takes = ROUTES[operation], OPERATIONS[operation].parameters["properties"]
    given = {"dataset_id": "kb", "name": name, "doc_name": name, **row}
    given |= {"names": [name], "doc_names": [name]}
    given |= {"citation": {"doc_name": name, **CITED}}
    given = {key: value for key, value in given.items() if key in takes}
    rest = {key: value for key, value in given.items() if key not in route.in_path}
    if route.has_body:
        return route.method, route.url(given), {"json": rest}
    pairs = query_pairs(route.called.parameters, rest)
    return route.method, route.url(given), {"params": pairs}


@pytest.mark.parametrize("operation", ROWS)
def test_a_hidden_document_is_as_much_work_as_a_missing_one(
    operation: str, client: Client, reads: Reads
) -> None:
    for row in ROWS[operation]:

        def ask(name: str, row: dict[str, Any] = row) -> None:
            method, url, options = _asked(operation, row, name)
            assert client(method, url, **options).status_code in (200, 403, 404, 409), (url, row)

        _is_equal_work(reads, ask)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_console_about_it_is_no_more_work(
    page: str, client: Client, reads: Reads
) -> None:
    _is_equal_work(reads, lambda name: client("GET", page.format(name.replace("/", "%2F"))))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_is_asked_for_it_works_no_more(
    tool: str, service: Service, reads: Reads, client: Client
) -> None:
    from triptych.access import Access

    tools = {each.name: each for each in knowledge_tools(service.restricted(Access(where=OURS)))}

    def ask(name: str) -> None:
        given = {key: text.format(name) for key, text in TOOLS[tool].items()}
        tools[tool].call({"dataset_id": "kb", **given})

    _is_equal_work(reads, ask)


def test_chunks_and_versions_are_read_of_what_the_caller_sees(
    service: Service, reads: Reads
) -> None:
    from triptych.access import Access

    restricted = service.restricted(Access(where=OURS, can_write=True))
    versions = restricted.capabilities.versions
    assert versions is not None
    for ask in (
        lambda name: list(restricted.chunks.iter_chunks("kb", name)),
        lambda name: restricted.chunks.get_doc_sig("kb", name),
        lambda name: versions.versions("kb", name),
        lambda name: versions.get_version("kb", name, 2),
        lambda name: restricted.layer_repo.get("kb", name, Layer.ABSTRACT),
    ):
        _is_equal_work(reads, ask)


def test_as_many_functions_are_called_for_a_hidden_name(service: Service) -> None:
    from triptych.access import Access

    restricted = service.restricted(Access(where=OURS))

    def calls(ask: Any, name: str) -> int:
        count = 0

        def noted(frame: Any, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(noted)
        try:
            with suppress(NotFoundError):
                ask("kb", name)
        finally:
            sys.setprofile(None)
        return count

    for ask in (restricted.get_document, restricted.history, partial(restricted.layer, layer="L0")):
        calls(ask, HIDDEN), calls(ask, MISSING)  # caches are warm after the first
        hidden, missing = calls(ask, HIDDEN), calls(ask, MISSING)
        assert abs(hidden - missing) <= 3, ask  # a value of its own metadata has a type


def test_everything_that_takes_a_name_has_its_row() -> None:
    named = {"name", "names", "doc_name", "doc_names", "citation"}
    takes = {
        name for name, each in OPERATIONS.items() if named & each.parameters["properties"].keys()
    }
    assert takes - TOLD == set(ROWS)
