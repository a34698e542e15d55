"""The HTTP routes of the operations, generated from their table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import attrs
from starlette.requests import Request
from starlette.responses import Response

from triptych.answers import AnswerStream, ContextPrefix
from triptych.errors import NotFoundError, ValidationError
from triptych.records import DocumentInfo, SourceDocument, reported
from triptych.records.serialization import to_dict, to_json
from triptych.search import check_sync_roots
from triptych.service import Effect, KnowledgeBase
from triptych_adapters.wire import (
    BUILD_LAYERS_ROUTE,
    PIPELINE_ROUTES,
    ROUTES,
    Route,
    query_arguments,
    read_object,
)
from triptych_server.http.preconditions import (
    CONDITIONAL,
    KeptAnswer,
    OpenKey,
    etag,
    guarded,
    is_unchanged,
)
from triptych_server.http.responses import (
    encoded,
    encoded_result,
    json_response,
    problem_of,
    problem_response,
    public,
)
from triptych_server.http.routes import RawRoute, json_body, media_types, query_of
from triptych_server.http.server import Server, sender_of
from triptych_server.http.streams import EVENTS_TYPE, change_stream, event, streamed_answer
from triptych_server.http.threads import short_name
from triptych_server.keys.authenticator import KeyAuthenticator


def operation_routes(server: Server) -> Iterator[RawRoute]:
    """A route for each operation of a Service, and for building layers."""
    for route in (*ROUTES.values(), *PIPELINE_ROUTES.values(), BUILD_LAYERS_ROUTE):
        handler = _Handler(server, route)
        yield RawRoute(route.path, handler.answer, methods=[route.method], name=route.name)


@attrs.frozen(kw_only=True)
class _Answered:
    """The result of an operation, as bytes."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = attrs.field(factory=dict)
    version: int | None = None


class _Handler:
    """Answers the requests for one operation."""

    def __init__(self, server: Server, route: Route) -> None:
        self._server = server
        self._route = route
        self._operation = route.called

    async def answer(self, request: Request) -> Response:
        """Read, check, run, show."""
        server, operation = self._server, self._operation
        service = await server.service_of(request)
        server.check_effect(operation.effect)
        arguments = operation.read(await self._arguments(request))
        if "queries" in arguments:
            await self._check_queries(request, arguments)
        if operation.name == "ask" and EVENTS_TYPE in media_types(request):
            return await _asked(server, request, service, arguments)
        if operation.name == "changes" and EVENTS_TYPE in media_types(request):
            return await change_stream(server, request, service, arguments)
        async with server.calls.caller(request, long=operation.long) as caller:
            name = short_name(operation.name, service, arguments)
            answered = await caller.run(lambda: self._once(request, service, arguments), name=name)
        headers = answered.headers
        reads = operation.effect is Effect.READS and request.method in ("GET", "HEAD")
        if reads or answered.version is not None:
            tag = headers.setdefault("ETag", etag(answered.body, answered.version))
            if reads and is_unchanged(request, tag.removeprefix("W/")):
                return Response(status_code=304, headers={**headers, "Vary": "Accept"})
        return json_response(answered.body, status=answered.status, headers=headers)

    async def _check_queries(self, request: Request, arguments: dict[str, Any]) -> None:
        queries, limits = arguments["queries"], self._server.limits
        most = limits.queries
        if len(queries) > most:
            raise ValidationError(
                f"{self._operation.name}: {len(queries):,} queries exceed the maximum of {most:,} "
                "of one request: send several"
            )
        reach = arguments.get("top_k", 10) + arguments.get("offset", 0)
        if len(queries) > 1 and len(queries) * reach > limits.hits:
            raise ValidationError(
                f"{self._operation.name}: {len(queries):,} queries that reach to hit {reach:,} ask "
                f"for {len(queries) * reach:,} hits; the maximum of one request is "
                f"{limits.hits:,}: send several, or a smaller top_k"
            )
        keys, header = self._server.authenticate, request.headers.get("authorization")
        if len(queries) > 1 and isinstance(keys, KeyAuthenticator):
            await self._server.calls.apart(lambda: keys.count_queries(header, len(queries)))

    async def _arguments(self, request: Request) -> dict[str, Any]:
        """The arguments of path, query and body together."""
        route, name, schema = self._route, self._operation.name, self._operation.parameters
        queried = query_of(request)
        if route.has_body:
            if queried:
                raise ValidationError(f"{name}: arguments belong in the body, not in the query")
            text = await json_body(request, self._server.limits)
            others = dict(read_object(name, text))
        else:
            if await request.body():
                raise ValidationError(f"{name}: arguments belong in the query, not in a body")
            others = query_arguments(name, schema, queried)
        for each in route.in_path:
            if others.get(each) is not None:
                raise ValidationError(f"{name}: the argument {each!r} belongs only in the path")
        return {**others, **request.path_params}

    def _once(
        self, request: Request, service: KnowledgeBase, arguments: dict[str, Any]
    ) -> _Answered:
        """Run the operation; a request with an Idempotency-Key is run once."""
        operation = self._operation
        if operation.effect is Effect.READS:
            return self._run(request, service, arguments)
        settings = self._server.service.capabilities.settings
        conditions = [request.headers.get(name) for name in ("if-match", "if-none-match")]
        content = encoded([*conditions, to_dict(arguments)])
        key = OpenKey.of(request, settings, self._server.limits, content, arguments)
        if key is None:
            return self._run(request, service, arguments)
        if isinstance(key, KeptAnswer):
            replayed = {"Idempotent-Replayed": "true"}
            is_document = operation.result is SourceDocument and key.status < 400
            version = json.loads(key.body)["version"] if is_document else None
            return _Answered(body=key.body, status=key.status, headers=replayed, version=version)
        sender_of(request.scope).renew = key.renew
        try:
            answered = self._run(request, service, arguments)
        except Exception as error:
            problem = problem_of(error)
            if problem.status >= 500:
                key.drop()
            else:
                key.keep(KeptAnswer(problem.status, bytes(problem_response(problem).body)))
            raise
        key.keep(KeptAnswer(answered.status, answered.body))
        return answered

    def _run(
        self, request: Request, service: KnowledgeBase, arguments: dict[str, Any]
    ) -> _Answered:
        operation = self._operation
        status = 200
        headers: dict[str, str] = {}
        result: Any
        if operation.name == "put_documents":
            puts = [(each.name, each.sync_root) for each in arguments["documents"]]
            check_sync_roots(self._server.service.capabilities.settings, puts)
        if operation.name == "put_document":
            status = 200 if _exists(service, arguments) else 201

        call = partial(operation.run, service)
        if operation.name == "list_documents":
            result, headers = self._page(request, arguments, call)
        elif operation.name in CONDITIONAL:
            result = guarded(request, service, arguments, call)
        elif operation.name == "put_documents":
            result = reported(partial(call, **arguments))
        else:
            result = call(**arguments)
        if operation.name == "create_dataset" and result:
            status = 201
        if isinstance(result, ContextPrefix):
            # A weak ETag: counts and warnings beside the text may change while it does not.
            headers["ETag"] = f'W/"{result.digest}"'
        reads = operation.effect is Effect.READS
        return _Answered(
            body=encoded_result(result) if reads else encoded(to_json(result, public)),
            status=status,
            headers=headers,
            version=result.version if isinstance(result, SourceDocument) else None,
        )

    def _page(
        self, request: Request, arguments: dict[str, Any], call: Any
    ) -> tuple[list[DocumentInfo], dict[str, str]]:
        """A page of a list, and where the next one is (RFC 8288)."""
        most = self._server.limits.listed
        limit = arguments.get("limit", most)
        if limit > most:
            raise ValidationError(
                f"list_documents: limit is at most {most}; the Link header leads to the next page"
            )
        found = list(call(**arguments | {"limit": limit + 1}))
        page = found[:limit]
        if len(found) <= limit or not page:
            return page, {}
        others = [(name, value) for name, value in query_of(request) if name != "after"]
        pairs = [*others, ("after", page[-1].name)]
        query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
        path = quote(request.scope["path"], safe="/%")
        raw = request.scope.get("raw_path")
        path = path if raw is None else raw.decode("latin-1").partition("?")[0]
        return page, {"Link": f'<{path}?{query}>; rel="next"'}


def _exists(service: KnowledgeBase, arguments: dict[str, Any]) -> bool:
    """Whether a put replaces: what it makes is answered with 201."""
    try:
        service.get_document(arguments["dataset_id"], arguments["name"])
    except NotFoundError:
        return False
    return True


async def _asked(
    server: Server, request: Request, service: KnowledgeBase, arguments: dict[str, Any]
) -> Response:
    """`Service.ask_stream` as server-sent events: the context, texts, and the whole answer."""
    pipeline = arguments.pop("pipeline", "")

    def begin() -> AnswerStream:
        runs = service.pipeline(pipeline) if pipeline else service
        return runs.ask_stream(**arguments)

    return await streamed_answer(
        server,
        request,
        begin,
        lambda piece: event("text", {"text": piece}),
        first=lambda stream: [event("context", to_json(stream.pack, public))],
        last=lambda stream: [event("answer", to_json(stream.answer, public))],
        failed=lambda error: event("error", problem_of(error).json()),
    )
