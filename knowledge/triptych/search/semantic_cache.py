"""The semantic cache: reusing the results of earlier searches with the same meaning.

A result is kept with the end of the store's change log. It is served only to a request of the same
options, filters and configuration, whose question's vector is near enough, while the log ends where
it ended before the search.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context
from datetime import UTC, datetime
from pathlib import Path

import attrs
import numpy as np

from triptych import deadlines, telemetry
from triptych._internal.wording import FailureWarning
from triptych.contracts import ChangeReader, Store
from triptych.errors import CancelledError, ProviderError, TriptychError
from triptych.records import (
    CacheStats,
    DocumentInfo,
    EmbedKind,
    Hit,
    Query,
    ResolvedQuery,
    Result,
    Vector,
)
from triptych.records.serialization import from_dict, to_dict
from triptych.search.cache_options import SemanticCache, describe, request_digest
from triptych.search.contrast import contrast
from triptych.search.pipeline import SearchPipeline
from triptych.search.query import has_words
from triptych.search.query_vectors import is_embedded
from triptych.search.request import RequestResolver, SearchRequest
from triptych.search.result_cache import KeptResult, ResultCache
from triptych.search.trace import is_traced
from triptych.vectors.embedding import embed_each
from triptych.vectors.lanes import ModelSet

_TRIED = 3  # results that are read for one question: one may have gone since it was listed
_WAITING = 64  # results that wait to be kept; more are not kept
_COUNTED = 32  # lookups that are counted together

_Locate = Callable[[], Callable[[DocumentInfo], Path | None]]


@attrs.frozen(kw_only=True)
class _Asked:
    """A search that may be answered from the cache."""

    request: SearchRequest
    digest: str
    vector: Vector
    head: str
    began: datetime


@attrs.define(eq=False)
class CachedSearches:
    """A `SearchPipeline` with a cache before it.

    A search by keyword, one in other lanes only, one of the past and one without words pass it by.
    So do all while a dataset holds a document that has expired: only its removal moves the log. A
    result with a warning is not kept. Results are kept by another thread: a search neither waits
    for that nor fails by it. ``parts`` are the objects whose configuration decides the results.
    ``counts_own``: `stats` are of these searches alone.
    """

    _pipeline: SearchPipeline
    _store: Store
    _changes: ChangeReader
    _results: ResultCache
    _resolver: RequestResolver
    _models: ModelSet
    _options: SemanticCache
    _parts: tuple[object, ...]
    _locate: _Locate | None = None
    _counts_own: bool = False
    _own: str = attrs.field(factory=lambda: secrets.token_hex(8), init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _hits: int = attrs.field(default=0, init=False)
    _misses: int = attrs.field(default=0, init=False)
    _all_hits: int = attrs.field(default=0, init=False)
    _all_misses: int = attrs.field(default=0, init=False)
    _waiting: int = attrs.field(default=0, init=False)
    _failure: str = attrs.field(default="", init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _worker: ThreadPoolExecutor | None = attrs.field(default=None, init=False)
    _worker_pid: int = attrs.field(default=0, init=False)

    def search(self, query: Query) -> Result:
        """`SearchPipeline.search`, from the cache where it can be."""
        with telemetry.operation("search", target="chunk"):
            return self._run(query, documents=False)

    def search_documents(self, query: Query) -> Result:
        """`SearchPipeline.search_documents`, from the cache where it can be."""
        with telemetry.operation("search", target="document"):
            return self._run(query, documents=True)

    def search_many(self, queries: Sequence[Query]) -> list[Result]:
        """`SearchPipeline.search_many`: those that the cache does not answer are run together."""
        with telemetry.operation("search", target="many", queries=len(queries)):
            return self._run_many(queries)

    def _run_many(self, queries: Sequence[Query]) -> list[Result]:
        requests = list(map(self._resolver.resolve, queries))
        try:
            known = self._embedded(requests)
        except ProviderError:
            return self._pipeline.search_many(queries)  # which says what became of the embedder
        looked = [
            self._look(query, documents=False, request=request, known=known)
            for query, request in zip(queries, requests, strict=True)
        ]
        missed = [at for at, (_, found, _) in enumerate(looked) if found is None]
        vectors: dict[tuple[EmbedKind, str], Vector] = {}
        for at in missed:
            asked = looked[at][0]
            if asked is not None:
                vectors["query", asked.request.query.text] = asked.vector
        made = self._pipeline.search_many([queries[at] for at in missed], vectors=vectors)
        results: dict[int, Result] = dict(zip(missed, made, strict=True))
        for at, (asked, found, warning) in enumerate(looked):
            if found is None:
                self._keep(asked, results[at])
                results[at] = _warned(results[at], warning)
            else:
                results[at] = found
        return [results[at] for at in range(len(queries))]

    def stats(self) -> CacheStats:
        """How many results are kept, and how many lookups found one, those of now included."""
        self.flush()
        head = self._changes.change_head()
        if not self._counts_own:
            return self._results.stats(head)
        entries = self._results.stats(head, self._own).entries
        return CacheStats(entries=entries, hits=self._all_hits, misses=self._all_misses)

    def flush(self) -> None:
        """Wait until what was answered so far is kept and counted."""
        worker = self._worker
        if worker is not None and self._worker_pid == os.getpid():
            with suppress(RuntimeError):  # closed meanwhile
                worker.submit(lambda: None).result()
        self._count(0, 0, least=1)

    def close(self) -> None:
        """Keep what waits to be kept, and end the thread."""
        with self._lock:
            self._closed = True
            worker, self._worker = self._worker, None
        if worker is not None and self._worker_pid == os.getpid():
            worker.shutdown(wait=True)
        with suppress(Exception):  # counts only
            self._count(0, 0, least=1)

    def _run(self, query: Query, *, documents: bool) -> Result:
        asked, found, warning = self._look(query, documents=documents)
        if found is not None:
            telemetry.note(
                mode=str(asked.request.query.mode) if asked else "", hits=len(found.hits)
            )
            return found
        search = self._pipeline.search_documents if documents else self._pipeline.search
        if asked is None:
            return _warned(search(query), warning)
        resolved = asked.request.query
        result = search(query, vectors={("query", resolved.text): asked.vector})
        self._keep(asked, result)
        return _warned(result, warning)

    def _look(
        self,
        query: Query,
        *,
        documents: bool,
        request: SearchRequest | None = None,
        known: Mapping[tuple[EmbedKind, str], Vector] | None = None,
    ) -> tuple[_Asked | None, Result | None, str]:
        """What is asked (None: nothing that is cached), its answer, and a warning."""
        if is_traced():
            return None, None, ""
        request = request or self._resolver.resolve(query, documents=documents)
        with self._lock:
            warning, self._failure = self._failure, ""
        try:
            asked = self._asked(query, request, known or {})
            if asked is None:
                return None, None, warning
            with telemetry.stage("cache"):
                found = self._found(asked)
            self._count(found is not None, found is None)
            telemetry.add("cache_hits" if found is not None else "cache_misses")
        except (CancelledError, ProviderError) as error:
            if isinstance(error, CancelledError):
                raise
            return None, None, warning  # the search itself says what became of the embedder
        except Exception as error:  # noqa: BLE001 - a cache may fail in any way; it is reported
            return None, None, FailureWarning("the semantic cache was not asked", error, kind=True)
        return asked, found, warning

    def _is_embedded(self, resolved: ResolvedQuery) -> bool:
        return (
            is_embedded(resolved)
            and has_words(resolved.text)
            and self._models.coverage.admits(resolved.text)
        )

    def _embedded(self, requests: Sequence[SearchRequest]) -> dict[tuple[EmbedKind, str], Vector]:
        """The vectors of all questions, from one call to the embedder."""
        embedder = self._models.embedder
        texts = [each.query.text for each in requests if self._is_embedded(each.query)]
        if embedder is None or not texts:
            return {}
        deadlines.check("the search")
        return dict(embed_each(embedder, [("query", text) for text in dict.fromkeys(texts)]))

    def _asked(
        self,
        query: Query,
        request: SearchRequest,
        known: Mapping[tuple[EmbedKind, str], Vector],
    ) -> _Asked | None:
        resolved = request.query
        embedder = self._models.embedder
        if embedder is None or not self._is_embedded(resolved):
            return None
        deadlines.check("the search")
        began = datetime.now(UTC)
        datasets = resolved.dataset_ids
        head = self._changes.change_head()
        configs = self._store.chunks.configs(datasets)
        if len(configs) < len(set(datasets)):
            return None
        if self._store.documents.with_expired(datasets, began):
            return None
        key: tuple[EmbedKind, str] = ("query", resolved.text)
        # Another calibration judges an answer otherwise.
        judged_by = self._pipeline.judged_by(request)
        parts = [self._parts, self._models.chunker_sig, judged_by, configs]
        configuration = describe(parts, self._own)
        return _Asked(
            request=request,
            digest=request_digest(request, tuple(query.conversation), configuration),
            vector=known[key] if key in known else embed_each(embedder, [key])[key],
            head=head,
            began=began,
        )

    def _found(self, asked: _Asked) -> Result | None:
        known = self._results.vectors(asked.digest, asked.head)
        if not known:
            return None
        keys = list(known)
        cosines = np.stack(list(known.values())) @ asked.vector
        for at in np.argsort(-cosines, kind="stable")[:_TRIED].tolist():
            if cosines[at] < self._options.threshold:
                return None
            found = self._results.get(keys[at])
            if found is None or self._is_old(found[0]):
                continue
            kept = json.loads(found[1])
            if contrast(kept["question"], asked.request.query.text):
                continue
            # The log may have moved since it was read, before the question was embedded.
            if self._changes.change_head() != asked.head:
                return None
            return self._shown(asked, kept["result"], min(float(cosines[at]), 1.0))
        return None

    def _is_old(self, created_at: float) -> bool:
        """Whether its time is over; also where the clock was set back since."""
        age = datetime.now(UTC).timestamp() - created_at
        hours = self._options.hours
        return age < 0 or bool(hours and age > hours * 3600)

    def _shown(self, asked: _Asked, body: object, similarity: float) -> Result:
        kept = from_dict(Result, body)
        hits = [
            attrs.evolve(hit, terms=asked.request.terms_in(hit.dataset_id)) for hit in kept.hits
        ]
        if self._locate is not None and any(hit.file for hit in hits):
            path_of = self._locate()
            hits = [self._located(hit, path_of) for hit in hits]
        return attrs.evolve(kept, hits=tuple(hits), cache_similarity=similarity)

    def _located(self, hit: Hit, path_of: Callable[[DocumentInfo], Path | None]) -> Hit:
        """The hit with its file as of now: files move without a write to the store."""
        if hit.file is None:
            return hit
        info = self._store.documents.get_info(hit.dataset_id, hit.doc_name)
        path = None if info is None else path_of(info)
        return attrs.evolve(hit, file=str(path) if path is not None and path.is_file() else None)

    def _keep(self, asked: _Asked | None, result: Result) -> None:
        """Have the result kept, if it may be."""
        if asked is None or result.warnings:
            return
        with self._lock:
            if self._waiting >= _WAITING:
                return
            self._waiting += 1
        try:
            # Without the caller's context, whose deadline is not this one's.
            self._thread().submit(Context().run, self._store_answer, asked, result)
        except RuntimeError:  # closed meanwhile
            with self._lock:
                self._waiting -= 1

    def _store_answer(self, asked: _Asked, result: Result) -> None:
        try:
            bare = [attrs.evolve(hit, terms=()) for hit in result.hits]
            shown = to_dict(attrs.evolve(result, hits=tuple(bare), usage=()))
            body = {"question": asked.request.query.text, "result": shown}
            began, hours = asked.began.timestamp(), self._options.hours
            self._results.keep(
                KeptResult(
                    request=asked.digest,
                    head=asked.head,
                    vector=asked.vector,
                    created_at=began,
                    body=json.dumps(body, ensure_ascii=False),
                    maker=self._own,
                ),
                most=self._options.entries,
                oldest=began - hours * 3600 if hours else 0.0,
                head=self._changes.change_head,
            )
        except Exception as error:  # noqa: BLE001 - a cache may fail in any way; it is reported
            with self._lock:
                self._failure = FailureWarning(
                    "the semantic cache could not keep a result", error, kind=True
                )
        finally:
            with self._lock:
                self._waiting -= 1

    def _count(self, hits: int, misses: int, *, least: int = _COUNTED) -> None:
        with self._lock:
            self._hits += hits
            self._misses += misses
            self._all_hits += hits
            self._all_misses += misses
            if self._hits + self._misses < least:
                return
            hits, self._hits = self._hits, 0
            misses, self._misses = self._misses, 0
        if least == _COUNTED:
            with suppress(RuntimeError):
                self._thread().submit(Context().run, self._store_counts, hits, misses)
        else:
            self._store_counts(hits, misses)

    def _store_counts(self, hits: int, misses: int) -> None:
        with suppress(TriptychError):
            self._results.count_lookups(hits=hits, misses=misses)

    def _thread(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._closed:
                raise RuntimeError("the cache is closed")
            if self._worker is None or self._worker_pid != os.getpid():
                # Threads do not survive a fork: a child makes its own.
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="triptych-cache")
                self._worker_pid = os.getpid()
                self._waiting = min(self._waiting, 1)
            return self._worker


def _warned(result: Result, warning: str) -> Result:
    if not warning:
        return result
    return attrs.evolve(result, warnings=(*result.warnings, warning))
