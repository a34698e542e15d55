"""`/search`, `/ingest`, `/healthz`: the API of nadir."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from triptych.errors import NotAvailableError, ValidationError
from triptych.records import Hit, Mode
from triptych.records.serialization import to_dict
from triptych.service import Effect, KnowledgeBase
from triptych.sync import SyncReport
from triptych.text import titles_of
from triptych_adapters.wire import object_schema
from triptych_server.http.responses import ProblemError, encoded, json_response, public
from triptych_server.http.routes import (
    DocumentedRoute,
    RouteDescription,
    answer,
    body_of,
)
from triptych_server.http.server import Server
from triptych_server.http.streams import streamed_answer

_TEXT: Final = {"type": "string"}
_TOP_K: Final = 5
_PLAIN: Final = "text/plain; charset=utf-8"
_NO_FILES: Final = "/ingest takes no files: it syncs the folders that `triptych add` has named"
_FILE_HINT: Final = "put a text with PUT /v1/datasets/{dataset_id}/documents/{name}"
_FRESH: Final = 1.0
"""Seconds for which one look at the store's health serves everybody."""

SEARCH: Final = RouteDescription(
    name="nadir_search",
    method="POST",
    path="/search",
    summary="Search, or with generate stream an answer as text.",
    body=object_schema(
        query={**_TEXT, "description": "The search query; it or keyword is needed."},
        keyword={**_TEXT, "description": "Words to search by keyword only, instead of query."},
        top_k={"type": "integer", "minimum": 0, "description": "Maximum of results; 0 is 5."},
        generate={
            "type": "boolean",
            "description": "Whether a model writes an answer from the results.",
        },
        filter={
            "type": "object",
            "description": "Conditions on documents, all of which must hold.",
            "properties": {"file_path": _TEXT, "header": _TEXT},
            "additionalProperties": False,
        },
    ),
    answers={
        200: answer(
            "The results, the best first; with generate the answer.",
            "results",
            results={"type": "array"},
            others={"text/plain": _TEXT},
        )
    },
    problems=(404, 415, 500, 501, 502, 504),
)
INGEST: Final = RouteDescription(
    name="nadir_ingest",
    method="POST",
    path="/ingest",
    summary="Sync the folders that the store remembers.",
    answers={200: answer("What the sync did.")},
    problems=(403, 409, 415, 501),
)
HEALTHZ: Final = RouteDescription(
    name="healthz",
    method="GET",
    path="/healthz",
    summary="Check that the store responds, for load balancers.",
    answers={200: answer("It does.")},
    problems=(503,),
    secured=False,
)


def nadir_routes(server: Server) -> Iterator[DocumentedRoute]:
    """The three routes."""
    looks = _HealthCache(server.service)

    async def search(request: Request) -> Response:
        service = await server.service_of(request)
        body = await body_of(request, SEARCH, server.limits)
        options = _options(await server.dataset_of(service), body)
        query, keyword = body.get("query", ""), body.get("keyword", "")
        if not (query or keyword) or (query and keyword and body.get("generate")):
            raise ValidationError("nadir_search: give query or keyword; generate answers a query")
        if query and body.get("generate"):
            return await _generated(server, request, service, query, options)
        if keyword:
            options["mode"] = Mode.BM25

        def call() -> dict[str, Any]:
            return {"results": list(map(_result, service.search(keyword or query, **options).hits))}

        return await server.answer(request, call)

    async def ingest(request: Request) -> Response:
        service = await server.service_of(request)
        server.check_effect(Effect.WRITES)
        kind = request.headers.get("content-type", "").lower()
        if kind.startswith("multipart/") or (await request.body()).strip() not in (b"", b"{}"):
            raise ProblemError(415, "UNSUPPORTED_MEDIA_TYPE", _NO_FILES, hint=_FILE_HINT)
        # The folders, and what is known of their files, are settings of the store itself.
        server.check_sees_all(service, "the remembered folders are")
        if service.access is not None:
            service.access.check_can_write()
        sync = server.sync
        if sync is None:
            raise NotAvailableError(
                "this server has no folders: `triptych serve` syncs those that "
                "`triptych add` has named"
            )
        return await server.answer(request, lambda: _synced(sync(server.service, None)), long=True)

    async def healthz(request: Request) -> Response:
        failed = await server.calls.apart(looks.failed)
        if failed:
            body = encoded({"status": "failed", "failed": failed})
            return json_response(body, status=503, headers={"Retry-After": "1"})
        return json_response(encoded({"status": "ok"}))

    yield DocumentedRoute(SEARCH, search)
    yield DocumentedRoute(INGEST, ingest)
    yield DocumentedRoute(HEALTHZ, healthz)


class _HealthCache:
    """Looks at the health of a Service, one a second however many ask."""

    def __init__(self, service: KnowledgeBase) -> None:
        self._service = service
        self._seen: tuple[float, list[str]] | None = None
        self._lock = threading.Lock()

    def failed(self) -> list[str]:
        """The names of the checks that failed: none where the store answers."""
        with self._lock:
            if self._seen is None or time.monotonic() - self._seen[0] > _FRESH:
                failed = self._look()
                self._seen = (time.monotonic(), failed)
            return self._seen[1]

    def _look(self) -> list[str]:
        try:
            checks = self._service.health(probe=False).checks
        except Exception:  # noqa: BLE001 - whatever it is, the store does not answer
            return ["store"]
        return sorted({check.name for check in checks if check.status == "failed"})


def _synced(report: SyncReport) -> dict[str, Any]:
    """What a sync did: its failures, and counts, which name no folder of the server."""
    fields = to_dict(report, public)
    counts = {name: each if type(each) is int else len(each) for name, each in fields.items()}
    held = sum(each.documents for each in report.held)
    return {**counts, "held": held, "failed": fields["failed"]}


def _options(dataset: str, body: dict[str, Any]) -> dict[str, Any]:
    given = body.get("filter", {})
    names = {"file_path": "doc_name", "header": "heading"}
    where = {own: given[name] for name, own in names.items() if given.get(name)}
    return {"dataset_id": dataset, "where": where, "top_k": body.get("top_k") or _TOP_K}


def _result(hit: Hit) -> dict[str, Any]:
    return {
        "file_path": hit.doc_name,
        "header": (titles_of(hit.heading_path) or ("",))[-1],
        "line_start": hit.start_line,
        "score": hit.score,
        "text": hit.content,
    }


async def _generated(
    server: Server, request: Request, service: KnowledgeBase, query: str, options: dict[str, Any]
) -> Response:
    pieces = options.pop("top_k")

    return await streamed_answer(
        server,
        request,
        lambda: service.ask_stream(query, max_pieces=pieces, layers=("L2",), **options),
        str.encode,
        media_type=_PLAIN,
        failed=None,
    )
