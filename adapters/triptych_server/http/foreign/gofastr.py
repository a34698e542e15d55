"""`/v1/index`, `/v1/query`, `/v1/stats`, `/v1/doc/{id}`: the API of gofastr's embed battery.

They serve one dataset: the server's, or the one that ``?dataset=`` names. Each needs a non-empty
Authorization header, also where no key is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
from starlette.requests import Request
from starlette.responses import Response

from triptych.chunking import MARKDOWN, Outliner, kind_of
from triptych.contracts import how_to_set
from triptych.errors import NotFoundError, ValidationError
from triptych.records import Hit, NewDocument, Query, metadata_to_plain, reported, text_of
from triptych.records.serialization import to_dict
from triptych.search import MMR, Rerank, one_rewriter
from triptych.service import Effect, KnowledgeBase, service_of
from triptych_adapters.wire import json_schema, object_schema, query_arguments, read_arguments
from triptych_server.http.responses import public
from triptych_server.http.routes import (
    DocumentedRoute,
    RouteDescription,
    answer,
    body_of,
    query_of,
)
from triptych_server.http.server import Server

_TOP_K: Final = 10
_METADATA: Final = {
    **json_schema(NewDocument)["properties"]["metadata"]["anyOf"][0],
    "description": "Text, numbers, true, false, dates, or lists of these.",
}
_DATASET: Final = {
    "dataset": {"type": "string", "description": "The dataset, instead of the server's."}
}
_COUNT: Final = {"type": "integer"}
_TEXT: Final = {"type": "string"}

INDEX: Final = RouteDescription(
    name="embed_index",
    method="POST",
    path="/v1/index",
    summary="Store documents.",
    query=_DATASET,
    body=object_schema(
        "documents",
        documents={
            "type": "array",
            "description": "The documents; an existing document with the same id is replaced.",
            "items": object_schema(
                "id", "text", id=_TEXT, source=_TEXT, text=_TEXT, metadata=_METADATA
            ),
        },
    ),
    answers={
        202: answer(
            "How many documents were stored, and which were not.",
            "added",
            added=_COUNT,
            failures={"type": "array"},
        )
    },
    problems=(403, 409, 422, 502, 504),
    named=True,
)
QUERY: Final = RouteDescription(
    name="embed_query",
    method="POST",
    path="/v1/query",
    summary="Search by vectors, or with hybrid by keyword and vectors.",
    query=_DATASET,
    body=object_schema(
        "text",
        text={**_TEXT, "description": "The search query."},
        k={"type": "integer", "minimum": 0, "description": "Maximum number of hits; 0 is 10."},
        filter={
            "type": "object",
            "description": "Conditions on documents, all of which must hold.",
            "properties": {"source": _TEXT, "kind": _TEXT, "meta_match": _METADATA},
            "additionalProperties": False,
        },
        hybrid={"type": "boolean", "description": "Whether to search by keyword too."},
        mmr_lambda={
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "The weight of relevance against diversity; 0 disables MMR.",
        },
        rerank={
            "type": "boolean",
            "description": "Whether to rerank the hits with the server's reranker.",
        },
    ),
    answers={200: answer("The hits, the best first.", "hits", hits={"type": "array"})},
    problems=(409, 502, 504),
    named=True,
)
STATS: Final = RouteDescription(
    name="embed_stats",
    method="GET",
    path="/v1/stats",
    summary="Counts, and the model of the vectors.",
    query=_DATASET,
    answers={
        200: answer(
            "The counts.",
            *("docs", "chunks", "dim", "model"),
            docs=_COUNT,
            chunks=_COUNT,
            dim=_COUNT,
            model=_TEXT,
        )
    },
    named=True,
)
DELETE: Final = RouteDescription(
    name="embed_delete",
    method="DELETE",
    path="/v1/doc/{id:path}",
    summary="Delete a document; it need not exist.",
    query=_DATASET,
    answers={204: ("It is not there any more.", {})},
    problems=(403, 409),
    named=True,
)
DELETE_BY_QUERY: Final = attrs.evolve(
    DELETE,
    name="embed_delete_by_query",
    path="/v1/doc",
    query={**_DATASET, "id": {**_TEXT, "description": "The document."}},
)


def gofastr_routes(server: Server) -> Iterator[DocumentedRoute]:
    """The four routes."""

    async def opened(request: Request, described: RouteDescription) -> tuple[KnowledgeBase, str]:
        """What the sender may use, and the dataset that is asked for."""
        service = await server.service_of(request, named=True)
        named: str | None = _queried(request, described).get("dataset")
        return service, await server.dataset_of(service) if named is None else named

    async def index(request: Request) -> Response:
        service, dataset = await opened(request, INDEX)
        server.check_effect(Effect.WRITES)
        body = await body_of(request, INDEX, server.limits)
        if not body["documents"]:
            raise ValidationError("embed_index: the argument 'documents' is empty")

        def call() -> dict[str, Any]:
            documents = [_document(each, service.options.outliner) for each in body["documents"]]
            report = reported(lambda: service.put_documents(dataset, documents))
            added = report.added + report.updated + report.unchanged
            failures = {"failures": to_dict(report.failed, public)} if report.failed else {}
            return {"added": added, **failures}

        return await server.answer(request, call, long=True, status=202)

    async def query(request: Request) -> Response:
        service, dataset = await opened(request, QUERY)
        body = await body_of(request, QUERY, server.limits)
        return await server.answer(request, lambda: {"hits": _search(service, dataset, body)})

    async def stats(request: Request) -> Response:
        service, dataset = await opened(request, STATS)
        return await server.answer(request, lambda: _stats(service, dataset))

    async def delete(request: Request) -> Response:
        in_path = request.path_params.get("id")
        described = DELETE_BY_QUERY if in_path is None else DELETE
        service, dataset = await opened(request, described)
        server.check_effect(Effect.DESTROYS)
        name = _queried(request, described).get("id", "") if in_path is None else in_path
        if not name:
            raise ValidationError(f"{described.name}: the id of a document is needed")
        async with server.calls.caller(request) as caller:
            await caller.run(lambda: service.delete_document(dataset, name))
        return Response(status_code=204)

    yield DocumentedRoute(INDEX, index)
    yield DocumentedRoute(QUERY, query)
    yield DocumentedRoute(STATS, stats)
    yield DocumentedRoute(DELETE, delete)
    yield DocumentedRoute(DELETE_BY_QUERY, delete)


def _queried(request: Request, described: RouteDescription) -> dict[str, Any]:
    """The arguments in the query of the URL, checked."""
    schema = object_schema(**described.query)
    return read_arguments(
        described.name, schema, query_arguments(described.name, schema, query_of(request))
    )


def _document(given: dict[str, Any], outliner: Outliner | None) -> NewDocument:
    """The document, to be cut by its kind, else by the ending of its source, else of its id."""
    name, text, source = given["id"], given["text"], given.get("source", "")
    metadata = dict(given.get("metadata", {}))
    kind = text_of(metadata, "kind")
    if source:
        metadata["source"] = source
        if not kind and kind_of(source, {}) == MARKDOWN != kind_of(name, {}):
            metadata["kind"] = MARKDOWN
    outline = "" if kind_of("", metadata) == MARKDOWN else None
    if outline is None and outliner is not None:
        outlines = (outliner(each, text) for each in (f"{name}.{kind}", source))
        outline = next(filter(None, outlines), None)  # None: the Service goes by the id
    return NewDocument(name=name, content=text, metadata=metadata, outline=outline)


def _search(service: KnowledgeBase, dataset: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    given = body.get("filter", {})
    fields = {name: given[name] for name in ("source", "kind") if given.get(name)}
    fields |= given.get("meta_match", {})
    hybrid, share = body.get("hybrid", False), body.get("mmr_lambda", 0)
    reranks = body.get("rerank", False)
    query = Query(
        text=body["text"],
        dataset_id=dataset,
        mode="hybrid" if hybrid else "vector",
        top_k=body.get("k") or _TOP_K,
        where={key: {"$eq": value} for key, value in fields.items()},
    )
    own = service.options.postprocessors
    if reranks and not any(isinstance(each, Rerank) for each in own):
        raise ValidationError(f"rerank: this server has no reranker: {how_to_set('reranker')}")
    # What the request decides, diversity and the reranker, takes the place of the server's.
    steps = [
        each
        for each in own
        if not (isinstance(each, Rerank) and not reranks) and not (isinstance(each, MMR) and share)
    ]
    if not share and len(steps) == len(own):
        hits = service.search(query).hits
    else:
        steps = [MMR(share), *steps] if share else steps
        rewriter = one_rewriter(service.options.rewriter)
        searches = service_of(service, "MMR").searches
        searches = searches.derived(rewriter=rewriter, postprocessors=steps)
        hits = searches.search(query).hits
    reason = "rerank" if reranks else "mmr" if share else "hybrid" if hybrid else "vec"
    return [_hit(hit, reason) for hit in hits]


def _hit(hit: Hit, reason: str) -> dict[str, Any]:
    metadata = metadata_to_plain(hit.metadata)
    return {
        "chunk": {
            "id": hit.chunk_id,
            "doc_id": hit.doc_name,
            "source": metadata.get("source", ""),
            "text": hit.content,
            "offset": [hit.offset, hit.offset + len(hit.content.encode("utf-8"))],
            "metadata": metadata,
        },
        "score": hit.score,
        "reason": reason,
    }


def _stats(service: KnowledgeBase, dataset: str) -> dict[str, Any]:
    try:
        (stats,) = service.stats(dataset)
    except NotFoundError:
        return {"docs": 0, "chunks": 0, "dim": 0, "model": ""}
    model = "" if stats.config is None else stats.config.embed_sig
    width = next((each.dimension for each in stats.spaces if each.embed_sig == model), 0)
    return {"docs": stats.documents, "chunks": stats.chunks, "dim": width, "model": model}
