"""Over HTTP a key learns nothing of others: two stores that differ only in them answer it alike.

Status, headers and body are compared byte for byte, for every route of the server. A route or an
operation without its row here fails.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")

from support.asgi import Client
from support.key_pair import FILTERS, OURS, THEIRS, KeyPair, key_pair, without_times
from support.rows import each_row
from triptych.answers import ContextReceipt, ReceiptPiece, ReceiptQuery
from triptych.records.serialization import to_json
from triptych.service import Effect
from triptych.signatures import content_sha256
from triptych_adapters.wire import (
    OPERATIONS,
    PIPELINE_OPERATIONS,
    PIPELINE_ROUTES,
    ROUTES,
    Route,
    query_pairs,
)

Rows = list[dict[str, Any]]

PLACES = [
    {"dataset_id": "kb", "name": "ours/tide.md"},
    {"dataset_id": "kb", "name": "theirs/zebra.md"},
    {"dataset_id": "kb", "name": "ours/tid.md"},
    {"dataset_id": "zoo", "name": "animals.md"},
    {"dataset_id": "none", "name": "none.md"},
    {"dataset_id": "log", "name": "ours/day.md"},
]
QUESTIONS: Rows = [
    {"query": "anchor rope"},
    {"query": "zebra anchor", "mode": "bm25"},
    {"query": "zebra", "mode": "vector", "top_k": 2, "offset": 1},
    {"query": "calm water", "mode": "sparse"},
    {"query": "the tide", "where": {"$not": {"team": "ours"}}},
    {"query": "the tide", "where": {"year": {"$gte": 2024}}, "fresh_only": True},
    {"query": "anchor", "where": {"heading": "Zebra"}},
    {"query": "", "where": {"$name": {"$exists": True}}},
    {"query": "rope", "layer": "L0"},
    {"query": "rope", "as_of": 1},
]
CITED = {"version": 2, "start": 0, "end": 6, "text": "# Tide"}
ROWS: dict[str, Rows] = {
    "put_document": [
        {"content": "New. Zebra anchor.", "metadata": each} for each in (OURS, THEIRS)
    ],
    "put_documents": [
        {
            "documents": [
                {"name": "ours/new.md", "content": "New zebra.", "metadata": OURS},
                {"name": "ours/bad.md", "content": "New zebra.", "metadata": THEIRS},
                {"name": "ours/tide.md", "content": "Ebb.", "metadata": OURS},
            ]
        }
    ],
    "get_document": [{}, {"version": 1}, {"version": 2}, {"version": 7}],
    "list_documents": [
        {},
        {"limit": 1},
        {"prefix": "ours/t"},
        {"prefix": "theirs/"},
        {"after": "ours/rope.md"},
        {"sort": "-$name"},
        {"where": {"team": "theirs"}},
    ],
    "count_documents": [{}, {"where": {"team": "theirs"}}, {"where": {"year": 2024}}],
    "update_metadata": [
        {"changes": {"seen": True}, "names": ["ours/tide.md", "theirs/zebra.md", "none"]},
        {"changes": {"seen": 2}, "where": {"$name": {"$exists": True}}},
        {"changes": {"team": "theirs"}, "names": ["ours/rope.md"]},
    ],
    "delete_document": [{}, {"if_version": 2}],
    "delete_documents": [{"where": {"team": "theirs"}}, {"where": {"$name": {"$exists": True}}}],
    "history": [{}],
    "diff": [{"old": 1}, {"old": 3}],
    "restore": [{"version": 1}, {"version": 5}],
    "changes": [{}, {"limit": 2}],
    "list_datasets": [{}],
    "create_dataset": [{}, {"language": "german"}],
    "configure_dataset": [{"language": "german"}, {"language": "english"}],
    "delete_dataset": [{}],
    "recreate": [{}],
    "purge": [{}],
    "layers": [{}],
    "dataset_layer": [{"layer": "L0"}],
    "put_dataset_layer": [{"layer": "L0", "content": "All."}],
    "layer": [{"layer": "L0"}, {"layer": "L1"}],
    "put_document_layer": [{"layer": "L1", "content": "Of the sea."}],
    "put_folder_layer": [
        {"folder": "ours/", "layer": "L0", "content": "All."},
        {"folder": "theirs/", "layer": "L0", "content": "All."},
    ],
    "search": QUESTIONS,
    "search_documents": QUESTIONS[:6],
    "search_many": [{"queries": ["anchor", "zebra", ""]}, {"queries": ["zebra"], "mode": "bm25"}],
    "explain": [
        {"query": "anchor zebra", "doc_name": name, **more}
        for name in ("ours/tide.md", "theirs/zebra.md", "none.md")
        for more in ({}, {"mode": "bm25", "top_k": 1})
    ],
    "similar": [
        {"name": name, **more}
        for name in ("ours/tide.md", "theirs/zebra.md", "none.md")
        for more in ({}, {"chunk": 0}, {"top_k": 1})
    ],
    "context": [
        {"query": "anchor zebra", "token_budget": 300},
        {"query": "tide", "token_budget": 40, "layers": ["L0", "L2"]},
        {"query": "anchor zebra", "token_budget": 300, "prefix_tokens": 100},
    ],
    "context_prefix": [{"prefix_tokens": 40}, {"prefix_tokens": 400}],
    "verify": [
        {"citation": {"dataset_id": "kb", "doc_name": name, **CITED}}
        for name in ("ours/tide.md", "theirs/zebra.md", "none.md")
    ],
    "ask": [{"question": "Where is the anchor?"}, {"question": "Where is the zebra?"}],
    "replay": [{}],
    "embed_pending": [{}, {"doc_names": ["ours/tide.md", "theirs/zebra.md"]}],
    "remove_expired": [{}],
    "rebuild": [{}, {"doc_name": "theirs/zebra.md"}],
    "doctor": [{}, {"repair": True}],
    "stats": [{}],
    "cache_stats": [{}],
    "health": [{}, {"probe": False}],
}
"""What each operation is asked, at each place that it can be asked of."""

TAKEN = ("theirs/zebra.md", "animals.md")
"""A put under a name that somebody else has is refused: a filter cannot hide it."""

OTHERS: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "build_layers": [
        ("POST", f"/v1/datasets/{each}/build-layers", {"json": {}})
        for each in ("kb", "zoo", "none")
    ],
    "live": [("GET", "/v1/live", {})],
    "service": [("GET", "/v1/service", {})],
    "openapi": [("GET", "/v1/openapi.json", {})],
    "healthz": [("GET", "/healthz", {})],
    "nadir_search": [
        ("POST", "/search", {"json": {"query": "zebra anchor"}}),
        ("POST", "/search", {"json": {"query": "rope", "generate": True}}),
    ],
    "nadir_ingest": [("POST", "/ingest", {})],
    "list_pipelines": [("GET", "/v1/pipelines", {})],
    "run_pipeline": [
        ("POST", f"/v1/pipelines/{name}", {"json": {"query": "zebra anchor"}})
        for name in ("all", "kb", "none")
    ],
    "embed_index": [
        ("POST", "/v1/index", {"json": {"documents": [{"id": "ours/e.md", "content": "Eels."}]}})
    ],
    "embed_query": [("POST", "/v1/query", {"json": {"query": "zebra anchor", "k": 5}})],
    "embed_stats": [("GET", "/v1/stats", {})],
    "embed_delete": [
        ("DELETE", "/v1/doc/theirs/zebra.md", {}),
        ("DELETE", "/v1/doc/ours/tide.md", {}),
        ("DELETE", "/v1/doc/none.md", {}),
    ],
    "embed_delete_by_query": [("POST", "/v1/delete-by-query", {"json": {"query": "zebra"}})],
}
"""Routes beside those of the operations."""

_DOCUMENTS = [
    f"/console/documents/{each}"
    for each in (
        "kb/ours%2Ftide.md",
        "kb/theirs%2Fzebra.md",
        "zoo/animals.md",
        "none/none.md",
        "log/ours%2Fday.md",
    )
]


def _pages(*paths: str) -> list[tuple[str, str, dict[str, Any]]]:
    return [("GET", path, {}) for path in paths]


def _forms(path: str, *forms: dict[str, str]) -> list[tuple[str, str, dict[str, Any]]]:
    """The forms as a page of the console sends them, and one that none of them sent."""
    cookie = {"Cookie": "triptych_form=token"}
    sent: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", path, {"data": {"form_token": "token", **form}, "headers": cookie})
        for form in forms
    ]
    return [*sent, ("POST", path, {"data": forms[0]})]


def _receipt(*names: str) -> str:
    """A receipt of the first lines of these documents, as somebody may write one."""
    lines = {"ours/tide.md": (2, "# Tide"), "theirs/zebra.md": (1, "# Zebra"), "none.md": (1, "#")}
    pieces = tuple(
        ReceiptPiece(
            number=number,
            dataset_id="kb",
            doc_name=name,
            version=lines[name][0],
            start=0,
            end=len(lines[name][1]),
            sha256=content_sha256(lines[name][1]),
        )
        for number, name in enumerate(names, start=1)
    )
    receipt = ContextReceipt(
        query=ReceiptQuery(text="zebra"),
        budget=300,
        tokens=9,
        counter="estimate",
        format="text",
        pieces=pieces,
        sha256="0" * 64,
    )
    return json.dumps(to_json(receipt))


CONSOLE: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "console_static": _pages("/console/static/console.css", "/console/static/none"),
    "console_search": _pages(
        "/",
        "/?q=zebra+anchor&lanes=1&steps=1&numbers=1",
        "/?q=zebra+anchor&d=kb&mode=bm25&f.team=theirs",
        "/?q=zebra&d=zoo",
        "/?q=%22the+anchor%22+-rope+team:theirs",
        "/?q=%22the+anchor%22+-rope&plain=1",
        "/?q=anchor&d=kb&why=ours/tide.md",
        "/?q=anchor&d=kb&why=theirs/zebra.md",
        "/?q=anchor&why=none.md&pipeline=all",
        "/?q=anchor&d=kb&listed=1",
        "/?q=rope&d=kb&as_of=1&layer=L0",
    ),
    "console_ask": _pages("/console/ask", "/console/ask?q=Where+is+the+zebra?&d=kb"),
    "console_ask_stream": _pages(
        "/console/ask/stream?q=Where+is+the+zebra?&d=kb", "/console/ask/stream?q="
    ),
    "console_replay": _pages("/console/replay"),
    "console_replay_post": _forms(
        "/console/replay",
        {"receipt": "none"},
        *({"receipt": _receipt(name)} for name in ("ours/tide.md", "theirs/zebra.md", "none.md")),
        {"receipt": _receipt("ours/tide.md", "theirs/zebra.md")},
    ),
    "console_datasets": _pages("/console/datasets"),
    "console_datasets_post": _forms(
        "/console/datasets",
        {"do": "sync"},
        {"do": "folder", "folder": "/zebra", "dataset": "kb"},
        {"do": "none"},
    ),
    "console_folders_stream": _forms(
        "/console/folders/stream",
        {"do": "sync"},
        {"do": "folder", "folder": "/zebra", "dataset": "kb"},
        {"do": "none"},
    ),
    "console_listing": _pages(
        "/console/datasets/kb",
        "/console/datasets/kb?prefix=theirs/",
        "/console/datasets/kb?f.team=theirs&sort=-$updated_at",
        "/console/datasets/zoo",
        "/console/datasets/none",
    ),
    "console_document": _pages(
        *_DOCUMENTS, *(f"{each}?v=1&old=1&from=2&to=9&page=2" for each in _DOCUMENTS)
    ),
    "console_page_image": _pages(
        *(f"{each.replace('documents', 'pages')}/1" for each in _DOCUMENTS),
        "/console/pages/kb/ours%2Ftide.md/x?v=1&from=2&to=9",
    ),
    "console_document_post": [
        each
        for path in _DOCUMENTS
        for each in _forms(
            path,
            {"do": "restore", "version": "1"},
            {"do": "rebuild"},
            {"do": "delete", "confirm": "other"},
            {"do": "delete", "confirm": "ours/tide.md"},
            {"do": "delete", "confirm": "theirs/zebra.md"},
        )
    ],
    "console_put": _pages("/console/put"),
    "console_put_post": _forms(
        "/console/put",
        {"dataset": "kb", "name": "ours/new.md", "content": "Zebra anchor."},
        {"dataset": "kb", "name": "free.md", "content": "Zebra anchor."},
    ),
    "console_sandbox": _pages(
        "/console/sandbox?text=One.+Two.&chunker=fixed+windows&size=50&overlap=60",
        "/console/sandbox?dataset=kb&name=ours/tide.md",
        "/console/sandbox?dataset=kb&name=theirs/zebra.md",
    ),
    "console_work": _pages(
        "/console/work",
        "/console/work?plan=kb&retry=1&name=theirs/zebra.md",
        "/console/work?doctor=1",
        "/console/work?expired=1",
    ),
    "console_work_post": _forms(
        "/console/work",
        *({"do": each, "dataset": "kb"} for each in ("rebuild", "embed", "expired", "layers")),
        {"do": "repair"},
        {"do": "rebuild", "dataset": "zoo"},
    ),
    "console_work_stream": _forms(
        "/console/work/stream",
        *({"do": each, "dataset": "kb"} for each in ("rebuild", "embed", "layers", "none")),
        {"do": "rebuild", "dataset": "zoo"},
    ),
    "console_ask_post": _forms(
        "/console/ask",
        {"q": "zebra", "asked": "anchor", "answered": "An anchor holds."},
    ),
    "console_reviews": _pages("/console/reviews", "/console/reviews?dataset=kb"),
    "console_reviews_post": _forms(
        "/console/reviews",
        *({"do": each, "dataset": "kb", "id": "0" * 16} for each in ("approve", "refuse", "on")),
    ),
    "console_gaps": _pages("/console/gaps"),
    "console_impact": _pages(
        "/console/impact",
        "/console/impact?dataset=kb&name=ours/tide.md",
        "/console/impact?dataset=kb&name=theirs/zebra.md",
        "/console/impact?dataset=zoo&name=animals.md",
    ),
    "console_golden": _pages(
        "/console/golden", "/console/golden?dataset=kb&a=mode%3Dbm25&b=mode%3Dhybrid"
    ),
    "console_golden_post": _forms(
        "/console/golden",
        {"q": "anchor", "dataset": "kb", "name": "theirs/zebra.md", "verdict": "right"},
    ),
    "console_connect": _pages("/console/connect"),
    "console_keys": _pages("/console/keys"),
    "console_keys_post": _forms("/console/keys", {"do": "add", "name": "more"}),
    "console_see_as": _forms("/console/see-as", {"id": "0" * 12}),
    "console_sign_in": _pages("/console/sign-in"),
    "console_sign_in_post": _forms("/console/sign-in", {"key": "tk_none"}),
    "console_sign_out": _forms("/console/sign-out", {}),
}
OTHERS |= CONSOLE

WRITING = (
    "build_layers",
    "embed_index",
    "embed_delete",
    "embed_delete_by_query",
    *CONSOLE,  # when a document came here is another moment in each store
)

UNLIKE = ("x-request-id", "date")
"""Headers that no two answers share."""


@pytest.fixture(params=FILTERS)
def pair(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyPair]:
    # What is drawn at random for each answer, and differs between equal ones: names of fences.
    monkeypatch.setattr(secrets, "token_hex", lambda count: "0f" * count)
    monkeypatch.setattr(secrets, "token_urlsafe", lambda count: "0f" * count)
    with key_pair(FILTERS[request.param]) as made:
        yield made


class Both:
    """Asks both stores the same, and fails where they answer otherwise."""

    def __init__(self, pair: KeyPair) -> None:
        headers = {"Authorization": f"Bearer {pair.token}"}
        self.clients = [Client(pair.app(each), **headers) for each in pair.services]
        self.statuses: set[int] = set()
        self.wrote = False

    def __call__(self, method: str, url: str, each: Any = None, **options: Any) -> list[Any]:
        """Their answers. ``each`` are options that are one store's own."""
        own = each or [{}, {}]
        found = [
            ask(method, url, **options, **more) for ask, more in zip(self.clients, own, strict=True)
        ]
        said = [self._said(answer) for answer in found]
        assert said[0] == said[1], (method, url, options)
        self.statuses.add(found[0].status_code)
        return found

    def _said(self, answer: Any) -> tuple[Any, ...]:
        body = without_request(answer.content.decode())
        headers = {key: text for key, text in answer.headers.items() if key not in UNLIKE}
        if self.wrote:
            headers = {key: without_times(text) for key, text in headers.items()}
            body = without_times(body)
        return answer.status_code, headers, body


def without_request(text: str) -> str:
    """``text`` without the id of its request and its sealed cursor, of which only its length is
    left: neither is ever the same twice."""
    text = re.sub(r'("request_id":\s*")[^"]+', r"\1…", text)
    return re.sub(r'("cursor":\s*")([^"]+)', lambda it: it[1] + "…" * len(it[2]), text)


def requests(route: Route, rows: Rows, name: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    takes = route.called.parameters["properties"]
    places = [
        {key: text for key, text in place.items() if key in takes}
        for place in PLACES
        if not (name == "put_document" and place["name"] in TAKEN)
    ]
    for row in rows:
        for place in [dict(each) for each in dict.fromkeys(tuple(p.items()) for p in places)]:
            given = {**place, **row}
            if "pipeline" in route.in_path:
                given["pipeline"] = "all"
            url = route.url(given)
            rest = {key: value for key, value in given.items() if key not in route.in_path}
            if route.has_body:
                yield route.method, url, {"json": rest}
            else:
                pairs = query_pairs(route.called.parameters, rest)
                yield route.method, url, {"params": pairs}


READING = [name for name, each in OPERATIONS.items() if each.effect is Effect.READS]


@each_row("name", READING)
def test_what_reads_answers_as_if_there_was_nothing_else(name: str, pair: KeyPair) -> None:
    _is_answered_alike(name, pair)


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in READING])
def test_what_writes_answers_as_if_there_was_nothing_else(name: str, pair: KeyPair) -> None:
    _is_answered_alike(name, pair)


def _is_answered_alike(name: str, pair: KeyPair) -> None:
    ask = Both(pair)
    # When a document came here is another moment in each store, also where nothing is written.
    ask.wrote = OPERATIONS[name].effect is not Effect.READS or name == "changes"
    for method, url, given in requests(ROUTES[name], ROWS[name], name):
        if name == "replay":
            asked = ask("POST", "/v1/ask", json={"question": "The anchor?", "dataset_id": "kb"})
            receipts = [{"json": {"receipt": each.json()["receipt"]}} for each in asked]
            ask(method, url, each=receipts)
            continue
        found = ask(method, url, **given)
        tag = found[0].headers.get("etag")
        if tag is not None and method == "GET" and name != "changes":
            assert ask(method, url, headers={"If-None-Match": tag}, **given)[0].status_code == 304
    if OPERATIONS[name].effect is not Effect.READS:
        for dataset_id in ("kb", "log", "zoo", "none"):
            ask("GET", f"/v1/datasets/{dataset_id}/documents")
            ask("POST", "/v1/search", json={"query": "zebra anchor", "dataset_id": dataset_id})
    assert ask.statuses - {400, 422}, ask.statuses


@each_row("name", PIPELINE_OPERATIONS)
def test_a_pipeline_answers_as_if_there_was_nothing_else(name: str, pair: KeyPair) -> None:
    ask = Both(pair)
    for method, url, given in requests(PIPELINE_ROUTES[name], ROWS[name], name):
        ask(method, url, **given)


@each_row("name", [name for name in OTHERS if name not in WRITING])
def test_a_route_beside_them_answers_as_if_there_was_nothing_else(name: str, pair: KeyPair) -> None:
    ask = Both(pair)
    for method, url, given in OTHERS[name]:
        ask(method, url, **given)


# Each by one of the two filters: operations are asked by both.
@pytest.mark.parametrize(
    ("pair", "name"),
    [(list(FILTERS)[at % 2], name) for at, name in enumerate(WRITING)],
    indirect=["pair"],
)
def test_so_does_a_route_beside_them_that_writes(name: str, pair: KeyPair) -> None:
    ask = Both(pair)
    ask.wrote = True
    for method, url, given in OTHERS[name]:
        ask(method, url, **given)


def test_every_operation_and_every_route_has_its_row() -> None:
    assert set(ROWS) == set(OPERATIONS)
    with key_pair(OURS) as pair:
        served = {route.name for route in pair.app(pair.whole).router.routes}
    by_pipeline = {f"{name}_by_pipeline" for name in PIPELINE_OPERATIONS}
    assert served == set(OPERATIONS) | set(OTHERS) | by_pipeline
