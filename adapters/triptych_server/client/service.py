"""`RemoteService`: a knowledge base whose operations run on a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, Unpack

import attrs

from triptych import Progress, ProgressCallback, deadlines
from triptych.access import Access
from triptych.answers import AnswerStream
from triptych.contracts import Capabilities, check_poll, next_wait
from triptych.derivation import PutReportBuilder, check_progress
from triptych.errors import DerivationError, NotAvailableError, ValidationError
from triptych.records import (
    ChangePage,
    DocumentInfo,
    EmbedKind,
    EmbedReport,
    NewDocument,
    PutReport,
    Query,
    RebuildReport,
    RebuildScope,
    Result,
    SearchOptions,
    summed,
)
from triptych.search import Pipeline, check_queries, find_pipeline, query_of
from triptych.service import KnowledgeBase, Operations, ServiceOptions
from triptych_adapters.wire import PIPELINE_OPERATIONS, ServerFacts
from triptych_providers.connection import Timeouts
from triptych_server.client.arguments import (
    batches,
    call_arguments,
    plain,
    query_fields,
    until_done,
)
from triptych_server.client.connection import Connection, open_stream

if TYPE_CHECKING:
    from triptych.answers import AskOptions
    from triptych_adapters.wire import LayerBuild

_EMBEDDED_AT_ONCE: Final = 64
_PAGE: Final = 1000
_QUERIES_AT_ONCE: Final = 256
_HITS_AT_ONCE: Final = 20_000  # of one request: triptych_server.http.limits


def connect(
    url: str,
    *,
    key: str | None = None,
    timeouts: Timeouts | None = None,
    ca_file: str | None = None,
) -> RemoteService:
    """Connect to the knowledge base of ``triptych serve`` at ``url``, such as ``http://host:8400``.

    No request is sent before the first call.

    Args:
        key: the access key, if the server requires one.
        timeouts: the timeouts of a call; None is `Timeouts()`.
        ca_file: a file (PEM) or folder of certificate authorities to trust besides the usual ones.

    Raises:
        ValidationError: ``url`` or ``key`` is invalid.
    """
    return RemoteService(Connection(url, key=key, timeouts=timeouts, ca_file=ca_file))


class RemoteService(KnowledgeBase):
    """A knowledge base whose operations run on a server, with the same arguments, results and
    errors."""

    def __init__(self, connection: Connection, pipeline: Pipeline | None = None) -> None:
        self.connection: Connection = connection
        self._pipeline = pipeline
        self._facts: ServerFacts | None = None
        self._facts_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<RemoteService {self.url}{', closed' if self.connection.closed else ''}>"

    @property
    def url(self) -> str:
        """The address of the server."""
        return self.connection.url

    @property
    def options(self) -> ServiceOptions:
        facts = self._server()
        model = None if facts.embedder is None else ServedEmbedder(facts.embedder, facts.dimension)
        return ServiceOptions(embedder=model, pipeline=self._pipeline)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    @property
    def llm(self) -> None:
        return None

    @property
    def pipelines(self) -> Mapping[str, Pipeline]:
        return {each: Pipeline(name=each) for each in self._server().pipelines}

    @property
    def lanes(self) -> tuple[str, ...]:
        return self._server().lanes

    def pipeline(self, name: str) -> RemoteService:
        return RemoteService(self.connection, find_pipeline(self.pipelines, name))

    def restricted(self, access: Access) -> NoReturn:
        raise NotAvailableError(
            "a knowledge base on a server is restricted by keys: `triptych admin keys add` makes "
            "one there"
        )

    def _run(
        self, operation: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """Run an operation on the server."""
        name = operation.__name__
        by = self._pipeline_of(name)
        arguments = call_arguments(name, operation, args, options, pipeline=by)
        try:
            return self.connection.call(name, arguments, pipeline=by)
        except DerivationError as error:
            if name != "put_document":
                raise
            # The document is stored, and the error has it; the server does not send it twice.
            stored = self.get_document(arguments["dataset_id"], arguments["name"])
            raise DerivationError(str(error), document=stored) from error

    def put_documents(
        self,
        dataset_id: str,
        documents: Iterable[NewDocument] | Mapping[str, str],
        *,
        progress: ProgressCallback | None = None,
        embed: Any = "now",
    ) -> PutReport:
        """In batches; a batch that the server cuts off is sent again."""
        check_progress(progress)
        refused = PutReportBuilder(dataset_id)
        total = len(documents) if isinstance(documents, Sequence | Mapping) else None
        report, done = PutReport(), 0
        for batch in batches(documents, refused, self._server().max_body):
            fields = {"dataset_id": dataset_id, "documents": batch, "embed": embed}
            report = summed(report, self._until_done("put_documents", fields))
            done += len(batch)
            if progress is not None:
                progress(Progress(phase="documents", done=done, total=total))
        if not done:
            # The server says what is wrong with the other arguments.
            self._call("put_documents", {"dataset_id": dataset_id, "documents": [], "embed": embed})
        report = attrs.evolve(report, failed=(*report.failed, *refused.report().failed))
        return report.unless_all_failed()

    def embed_pending(
        self,
        dataset_id: str | None = None,
        *,
        doc_names: Iterable[str] | None = None,
        retry: bool = False,
        progress: ProgressCallback | None = None,
    ) -> EmbedReport:
        """In as many requests as needed."""
        check_progress(progress)
        given: dict[str, Any] = {} if dataset_id is None else {"dataset_id": dataset_id}
        given |= {"retry": True} if retry else {}
        if doc_names is None:
            made: EmbedReport = self._until_done("embed_pending", given)
            return made
        if isinstance(doc_names, str):
            raise ValidationError("doc_names takes several names: give a list")
        names = list(doc_names)
        report = EmbedReport()
        for at in range(0, len(names), _EMBEDDED_AT_ONCE):
            part = names[at : at + _EMBEDDED_AT_ONCE]
            report = summed(report, self._until_done("embed_pending", {**given, "doc_names": part}))
            if progress is not None:
                done = min(at + _EMBEDDED_AT_ONCE, len(names))
                progress(Progress(phase="embedding", done=done, total=len(names)))
        return report

    def list_documents(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str | DocumentInfo = "",
        limit: int | None = None,
        where: Mapping[str, Any] | None = None,
        sort: str = "$name",
    ) -> Sequence[DocumentInfo]:
        """Page by page for a long list."""
        if isinstance(after, DocumentInfo):
            after = after.name
        arguments: dict[str, Any] = {"dataset_id": dataset_id, "prefix": prefix, "sort": sort}
        arguments |= {} if where is None else {"where": plain(where)}
        found: list[DocumentInfo] = []
        while True:
            size = _PAGE if limit is None else min(_PAGE, limit - len(found))
            page = self._call("list_documents", {**arguments, "after": after, "limit": size})
            found += page
            if len(page) < size or len(found) == limit:
                return found
            after = page[-1].name

    def follow(
        self,
        since: str | None = None,
        *,
        dataset_id: str | None = None,
        limit: int = 1000,
        poll: float = 0.5,
    ) -> Iterator[ChangePage]:
        """Ask the server every ``poll`` seconds while nothing changes."""
        seconds = check_poll(poll)
        while True:
            page = self.changes(since, dataset_id=dataset_id, limit=limit)
            since = page.cursor
            if page.changes or page.reset:
                yield page
            if not page.more:
                time.sleep(next_wait(seconds))
            deadlines.check("following the changes")

    def rebuild(
        self,
        scope: RebuildScope | None = None,
        *,
        dataset_id: str = "",
        doc_name: str = "",
        progress: ProgressCallback | None = None,
    ) -> RebuildReport:
        """In as many requests as needed."""
        check_progress(progress)
        if scope is not None and (dataset_id or doc_name):
            raise ValidationError("give rebuild a scope or a dataset_id, not both")
        scope = scope or RebuildScope(dataset_id=dataset_id, doc_name=doc_name)
        given = {"dataset_id": scope.dataset_id} if scope.dataset_id else {}
        parts = [{**given, "doc_name": name} for name in scope.doc_names] or [given]
        report = RebuildReport()
        for part in parts:
            report = summed(report, self._until_done("rebuild", part))
        return report

    def build_layers(
        self,
        dataset_id: str,
        *,
        names: Sequence[str] | None = None,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        extractive: bool = False,
        retry_quarantined: bool = False,
        rewrite: bool = False,
    ) -> LayerBuild:
        """Generate missing and stale layers with the server's model.

        Without a limit, a request that the server cuts off is sent again and continues.

        Args:
            names: documents and folders, with the folders that contain them; None for all.
            max_calls, max_tokens: limits for the calls of the model.
            extractive: use sentences of the documents instead of a model.
            retry_quarantined: try quarantined documents again.
            rewrite: replace stale layers that a person wrote.

        Raises:
            NotFoundError: the dataset, or a named document or folder, does not exist.
            CancelledError: the deadline passed; or a limit was given, and the server's time limit
                was reached. Completed layers remain.
        """
        limits = {"max_calls": max_calls, "max_tokens": max_tokens}
        limits = {key: value for key, value in limits.items() if value is not None}
        arguments: dict[str, Any] = {
            "dataset_id": dataset_id,
            "extractive": extractive,
            "retry_quarantined": retry_quarantined,
            "rewrite": rewrite,
            **limits,
            **({} if names is None else {"names": list(names)}),
        }
        call = self._call if limits else self._until_done
        made: LayerBuild = call("build_layers", arguments)
        return made

    def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[SearchOptions]
    ) -> list[Result]:
        """In few requests if the queries differ only in their texts; by a pipeline one request for
        each."""
        if self._pipeline is not None:
            return [self.search(query, **options) for query in check_queries(queries)]
        asked = [query_of(query, options) for query in check_queries(queries)]
        if not asked:
            return []
        first = asked[0]
        if any(attrs.evolve(each, text=first.text) != first for each in asked):
            return [self.search(each) for each in asked]
        fields = query_fields("search_many", first)
        found: list[Result] = []
        reach = max(first.offset + first.top_k, 1)
        at_once = max(1, min(_QUERIES_AT_ONCE, _HITS_AT_ONCE // reach))
        for at in range(0, len(asked), at_once):
            texts = [each.text for each in asked[at : at + at_once]]
            found += self._call("search_many", {**fields, "queries": texts})
        return found

    def ask_stream(self, question: Query | str, **options: Unpack[AskOptions]) -> AnswerStream:
        by = self._pipeline_of("ask")
        arguments = call_arguments("ask", Operations.ask_stream, [question], options, pipeline=by)
        return open_stream(self.connection, arguments, by)

    def close(self) -> None:
        if self._pipeline is None:  # else they are those of the knowledge base that it is of
            self.connection.close()

    def _call(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        return self.connection.call(operation, arguments)

    def _pipeline_of(self, operation: str) -> str:
        """The pipeline that an operation runs by, "" for none."""
        if self._pipeline is None or operation not in PIPELINE_OPERATIONS:
            return ""
        return self._pipeline.name

    def _until_done(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        return until_done(lambda: self._call(operation, arguments))

    def _server(self) -> ServerFacts:
        """The properties of the server, requested once."""
        with self._facts_lock:
            if self._facts is None:
                self._facts = self.connection.facts()
            return self._facts


@attrs.frozen
class ServedEmbedder:
    """The name of a server's embedder."""

    signature: str
    dimension: int | None = None

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NoReturn:
        """Not available."""
        raise NotAvailableError("a knowledge base on a server has no embedder here")
