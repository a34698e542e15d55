"""The search pipeline: rewrite, retrieve, fuse, hydrate, postprocess, cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import attrs

from triptych import deadlines, telemetry
from triptych.contracts import Capabilities, Postprocessor, QueryRewriter, Ranker, Store
from triptych.errors import NotAvailableError, ProviderError, ValidationError
from triptych.ingestion.derivation import DerivationPipeline
from triptych.ingestion.embedding import embed_each, mean_vector
from triptych.records import (
    Answerability,
    Candidate,
    DocumentInfo,
    EmbedKind,
    Hit,
    Layer,
    Mode,
    Query,
    RankedList,
    ResolvedQuery,
    Result,
    Rewriting,
    Vector,
    check_text,
)
from triptych.repositories import capabilities_of
from triptych.search.answerability import ResultJudge
from triptych.search.engine import SearchEngine
from triptych.search.hit_reader import StoreHitReader
from triptych.search.hydration import Hydrator
from triptych.search.listing import FilterListing
from triptych.search.past.moments import Moment, by_moment
from triptych.search.past.stores import PastStores, Wants
from triptych.search.postprocessing import KeywordBoost, at_most
from triptych.search.probe import SearchProbe
from triptych.search.query import MAX_TOP_K, has_words, validate
from triptych.search.question_log import QuestionLog
from triptych.search.request import RequestResolver, SearchRequest
from triptych.search.rewriting import rewrite, variants_of
from triptych.search.sparse_retrievers import SPARSE
from triptych.search.verification import TextVerifier, expand_prefixes

__all__ = ["PastSearch", "SearchPipeline"]

T = TypeVar("T")
KnownVectors = Mapping[tuple[EmbedKind, str], Vector]

_EMBEDDED = (Mode.HYBRID, Mode.VECTOR)
_DEEPER = 4  # where hits of one document are many, the lanes reach so many times deeper
_SPARE = 3  # the second attempt reads this many times as deep, to fill up what has vanished
_SWAPS = 4  # how often a search begins again since its datasets were swapped
_FEW = 10  # with fewer hits than so many, a search looks for documents that are not indexed


@attrs.frozen(kw_only=True)
class PastSearch:
    """A search of the past: what searches a store of the moment, and what its results say."""

    searches: SearchPipeline
    store: Store
    query: Query
    as_of: Moment
    warnings: tuple[str, ...]

    def dated(self, result: Result) -> Result:
        """Return ``result`` with the moment and the warnings."""
        warnings = (*self.warnings, *result.warnings)
        return attrs.evolve(result, as_of=self.as_of, warnings=warnings)


@attrs.frozen(kw_only=True, eq=False)
class SearchPipeline:
    """What every search of a Service goes through.

    ``moment`` says what has expired; None: what has by now. ``past_stores`` makes the stores that
    queries with ``as_of`` search.
    """

    _store: Store
    _capabilities: Capabilities
    _engine: SearchEngine
    _derivation: DerivationPipeline
    _rewriter: QueryRewriter | None = None
    _postprocessors: Sequence[Postprocessor] = ()
    _locate: Callable[[], Callable[[DocumentInfo], Path | None]] | None = None
    _moment: datetime | None = None
    _past_stores: PastStores | None = None
    _judge: ResultJudge | None = None
    _log: QuestionLog | None = None
    resolver: RequestResolver = attrs.field(init=False)
    _hydrator: Hydrator = attrs.field(init=False)
    _listing: FilterListing = attrs.field(init=False)

    @resolver.default
    def _make_resolver(self) -> RequestResolver:
        documents, chunks, lanes = self._store.documents, self._store.chunks, self._engine.lanes
        return RequestResolver(documents, chunks, self._derivation, lanes, self._moment)

    @_hydrator.default
    def _make_hydrator(self) -> Hydrator:
        whole = self._capabilities.document_search
        return Hydrator(self._store, self._derivation, whole, self._locate, self._moment)

    @_listing.default
    def _make_listing(self) -> FilterListing:
        return FilterListing(self._store, self._hydrator)

    @contextmanager
    def derived(
        self,
        *,
        lanes: Sequence[str] = (),
        ranker: Ranker | None = None,
        rewriter: QueryRewriter | None = None,
        postprocessors: Sequence[Postprocessor] = (),
    ) -> Iterator[SearchPipeline]:
        """Give, for the block, a pipeline with these steps over the same store.

        No ``lanes`` are all, and None is this one's ranker.
        """
        engine = self._engine.derive(lanes=lanes, ranker=ranker)
        try:
            yield attrs.evolve(
                self,
                engine=engine,
                rewriter=rewriter,
                postprocessors=(KeywordBoost(), *postprocessors),
            )
        finally:
            engine.close()

    @property
    def configuration(self) -> Mapping[str, str]:
        """What a search depends on beside the documents: signatures, and the steps, by name."""
        return {
            "chunker": self._derivation.chunker_sig,
            "embedder": self._derivation.embed_sig,
            "sparse encoder": self._derivation.sparse_sig,
            "ranker": type(self._engine.ranker).__name__,
            "lanes": " ".join(self._engine.lanes),
            "rewriter": "" if self._rewriter is None else type(self._rewriter).__name__,
            "steps": " ".join(type(step).__name__ for step in self._postprocessors),
        }

    def judged_by(self, request: SearchRequest) -> str:
        """The calibration that says whether a request is answered, as it is kept; "" for none."""
        return "" if self._judge is None else self._judge.kept(request) or ""

    def search(self, query: Query, *, vectors: KnownVectors | None = None) -> Result:
        """Search chunks, or layers where ``query.layer`` says so.

        ``vectors`` are those of texts that the caller has embedded, by kind and text.
        """
        with telemetry.operation("search", target="chunk"):
            if query.as_of is not None:
                with self.past(query) as past:
                    return past.dated(past.searches.search(past.query, vectors=vectors))

            def run() -> tuple[list[SearchRequest], Result]:
                (request,) = self._prepare([query], vectors=vectors)
                self._warn_of_layers(request)
                return [request], self._run(request)

            return self._settled(run)

    def search_with_signals(self, query: Query) -> tuple[Result, Mapping[str, float]]:
        """Run `search`; also what the lanes say of how well it answers.

        See `triptych.search.signals`.
        """

        def run() -> tuple[list[SearchRequest], tuple[Result, Mapping[str, float]]]:
            (request,) = self._prepare([query])
            request.signals = {}
            result = self._run(request)
            return [request], (result, request.signals)

        return self._settled(run)

    def search_documents(self, query: Query, *, vectors: KnownVectors | None = None) -> Result:
        """Search whole documents; ``vectors`` as in `search`."""
        with telemetry.operation("search", target="document"):
            if query.as_of is not None:
                with self.past(attrs.evolve(query, layer=Layer.DETAIL)) as past:
                    return past.dated(past.searches.search_documents(past.query, vectors=vectors))

            def run() -> tuple[list[SearchRequest], Result]:
                (request,) = self._prepare([], whole=query, vectors=vectors)
                return [request], self._run(request)

            return self._settled(run)

    def search_many(
        self, queries: Sequence[Query], *, vectors: KnownVectors | None = None
    ) -> list[Result]:
        """Run `search` for each query, with one call to the embedder for each moment of those
        that ask for the past, and one for all others."""
        with telemetry.operation("search", target="many", queries=len(queries)):
            if any(query.as_of is not None for query in queries):
                return self._search_moments(queries, vectors)

            def run() -> tuple[list[SearchRequest], list[Result]]:
                requests = self._prepare(queries, vectors=vectors)
                for request in requests:
                    self._warn_of_layers(request)
                return requests, self._run_all(requests)

            return self._settled(run)

    def _settled(self, run: Callable[[], tuple[Sequence[SearchRequest], T]]) -> T:
        """What ``run`` finds; again where a dataset was swapped to its other embedder meanwhile,
        for its vectors are in neither space's list then."""
        for _ in range(_SWAPS):
            requests, found = run()
            if not any(self.resolver.has_moved(each) for each in requests):
                break
        return found

    def _run_all(self, requests: Sequence[SearchRequest]) -> list[Result]:
        self._embed(requests)
        return [self._run(request) for request in requests]

    def _warn_of_layers(self, request: SearchRequest) -> None:
        """Say that the sparse lane is not there for layers; a context always takes them without."""
        is_hybrid = request.target == "layer" and request.query.mode == Mode.HYBRID
        if is_hybrid and self._derivation.sparse is not None and SPARSE in self._engine.lanes:
            request.warnings += ("layers have no sparse vectors: the sparse lane did not run",)

    def search_layers_and_documents(
        self, queries: Sequence[Query], whole: Query
    ) -> tuple[list[Result], Result | None, Sequence[Candidate]]:
        """Run `search` for each of ``queries`` and `search_documents` for ``whole``, with one
        call to the embedder; None for the latter where the backend cannot search documents. The
        chunks that the threshold left out come last."""
        for query in (*queries, whole):
            if query.as_of is not None:
                raise ValidationError("leave as_of out: ask what `past` gives instead")
            if not has_words(check_text(query.text, "the query")):
                raise ValidationError("the query is empty: give it at least one word")
            if query.offset or query.per_document is not None:
                raise ValidationError(
                    "a context chooses how much of each document it holds: leave out offset and "
                    "per_document"
                )
        reads = self._hydrator.reads_documents
        with telemetry.operation("search", target="context", queries=len(queries) + reads):

            def run() -> tuple[list[SearchRequest], tuple[list[SearchRequest], list[Result]]]:
                requests = self._prepare(queries, whole=whole if reads else None)
                return requests, (requests, self._run_all(requests))

            requests, results = self._settled(run)
        last = results.pop() if reads else None
        below = [
            each for request in requests if request.target == "chunk" for each in request.below
        ]
        return results, last, below

    @contextmanager
    def past(self, query: Query, *, layers: bool | None = None) -> Iterator[PastSearch]:
        """What searches the moment that ``query.as_of`` names, for the length of the block.

        ``layers`` says whether layers are searched; None: as the query says.

        Raises:
            ValidationError: the query is invalid.
            NotFoundError: there is no dataset of its name now.
            NotAvailableError: the past cannot be searched, or not by the lane that is asked for.
            CancelledError: the deadline passed while the store of the moment was filled.
        """
        checked, _ = validate(query, self.resolver.lanes)
        dataset_ids = self.resolver.existing_datasets(checked)
        moment = checked.as_of
        assert isinstance(moment, int | datetime)  # validated
        if self._past_stores is None:
            raise NotAvailableError("this pipeline searches what is stored now only")
        wanted = checked.layer is not Layer.DETAIL if layers is None else layers
        # Steps may compare vectors whatever the mode is.
        steps = any(not isinstance(step, KeywordBoost) for step in self._postprocessors)
        wants = Wants(
            dense=steps or checked.mode not in (Mode.BM25, SPARSE),
            sparse=checked.mode in (None, Mode.HYBRID, SPARSE),
            layers=wanted,
        )
        with self._past_stores.at(moment, dataset_ids, wants) as store:
            engine, left_out = store.lanes(self._engine)
            if checked.mode in left_out:
                raise NotAvailableError(
                    f"the lane {checked.mode!r} searches what is stored now only: leave as_of "
                    "out, or give its retriever a method over (see StoreRetriever)"
                )
            warnings = list(store.warnings)
            if left_out and checked.mode in (None, Mode.HYBRID):
                warnings.append(
                    f"searched without {', '.join(map(repr, left_out))}: a lane that cannot "
                    "search the past"
                )
            yield PastSearch(
                searches=self._over(store.store, engine, moment),
                store=store.store,
                query=attrs.evolve(query, as_of=None),
                as_of=moment,
                warnings=tuple(warnings),
            )

    def _over(self, store: Store, engine: SearchEngine, moment: Moment) -> SearchPipeline:
        """Return this pipeline over another store. What had expired then is not in it."""
        now = moment if isinstance(moment, datetime) else datetime.min.replace(tzinfo=UTC)
        capabilities = capabilities_of(store)
        if not self._hydrator.reads_documents:
            capabilities = attrs.evolve(capabilities, document_search=None)
        return attrs.evolve(
            self,
            store=store,
            capabilities=capabilities,
            engine=engine,
            derivation=self._derivation.over(store.chunks, capabilities.sparse),
            moment=now,
            past_stores=None,
            judge=None,
            log=None,
        )

    def _search_moments(
        self, queries: Sequence[Query], vectors: KnownVectors | None
    ) -> list[Result]:
        found: dict[int, Result] = {}
        for several in by_moment(queries):
            asked = [queries[at] for at in several]
            if asked[0].as_of is None:
                results = self.search_many(asked, vectors=vectors)
            else:
                with self.past(asked[0]) as past:
                    same = [attrs.evolve(each, as_of=None) for each in asked]
                    results = [
                        past.dated(each)
                        for each in past.searches.search_many(same, vectors=vectors)
                    ]
            found |= zip(several, results, strict=True)
        return [found[at] for at in range(len(queries))]

    def _prepare(
        self,
        queries: Sequence[Query],
        *,
        whole: Query | None = None,
        vectors: KnownVectors | None = None,
    ) -> list[SearchRequest]:
        """Validate, resolve and rewrite ``queries``, and ``whole`` as one for whole documents."""
        asked = [(query, False) for query in queries]
        if whole is not None:
            asked.append((whole, True))
        requests = [
            (query, self.resolver.resolve(query, documents=documents)) for query, documents in asked
        ]
        for _, request in requests:
            if request.query.embed_sig == self._derivation.embed_sig:
                request.vectors.update(vectors or {})
        known: dict[object, tuple[Rewriting, SearchRequest]] = {}
        # A rewriter that looks at what the search finds should see chunks where they are asked for.
        for query, request in sorted(requests, key=lambda each: each[1].target != "chunk"):
            if self._rewriter is not None and has_words(request.query.text):
                self._rewrite(self._rewriter, query, request, known)
            expand_prefixes(self._store, request)
        return [request for _, request in requests]

    def _rewrite(
        self,
        rewriter: QueryRewriter,
        query: Query,
        request: SearchRequest,
        known: dict[object, tuple[Rewriting, SearchRequest]],
    ) -> None:
        """Give ``request`` its variants. Requests that ask alike are rewritten once."""
        resolved = request.query
        alike = (
            *(resolved.text, resolved.mode, resolved.dataset_ids, resolved.embed_sig),
            tuple(query.conversation),
        )
        if alike not in known:
            plain = attrs.evolve(query, text=resolved.text, mode=resolved.mode, syntax=False)
            probe = SearchProbe(self._engine, self._derivation, request)
            with telemetry.stage("rewrite"):
                known[alike] = rewrite(rewriter, plain, probe), request
            request.usage = known[alike][0].usage
        rewriting, first = known[alike]
        request.vectors = first.vectors
        request.variants = variants_of(resolved, rewriting.variants)
        request.warnings += rewriting.warnings
        if rewriting.question:
            request.query = attrs.evolve(resolved, text=rewriting.question)

    def _run(self, request: SearchRequest) -> Result:
        """Retrieve, fuse, hydrate, postprocess, cut; once more if candidates have vanished."""
        query = request.query
        if not has_words(query.text):
            return self._list(request)
        keep: TextVerifier | None = None
        if request.conditions:
            keep = TextVerifier(self._store, request)
        if request.conditions or len(request.variants) > 1 or request.vectors:
            # Lanes may be asked several times, and variants may share texts: each is embedded once.
            self._embed([request])
        steps = () if request.target == "document" else self._postprocessors
        depth = max([query.top_k, *(step.depth(query) for step in steps)])
        spare = 1
        while True:
            deadlines.check("the search")
            with telemetry.stage("retrieve"):
                ranking = self._engine.retrieve(request.target, request.variants, depth, keep)
            above = ranking.above(query.threshold)
            request.below = ranking.below(query.threshold)
            with telemetry.stage("hydrate"):
                hydrated = self._hydrator.hits(request, above[: depth * spare])
            # Steps may ask models: they run when there is enough to choose from.
            found = at_most(hydrated.hits, query.per_document)
            if len(found) < min(query.top_k, len(above)):
                if len(found) < len(hydrated.hits):
                    # Others of the documents are further down.
                    more = not ranking.exhausted or len(above) > depth * spare
                    if more and depth < MAX_TOP_K:
                        depth = min(_DEEPER * depth, MAX_TOP_K)
                        continue
                elif not hydrated.complete and spare == 1:
                    spare = _SPARE
                    continue
            reader = StoreHitReader(self._store, hydrated.versions, query.filter.tree)
            hits: Sequence[Hit] = hydrated.hits
            with telemetry.stage("postprocess"):
                for step in steps:
                    deadlines.check("the search")
                    hits = step(query, hits, reader)
                kept = at_most(hits, query.per_document)
                shown = self._hydrator.with_windows(kept, reader, query.top_k)
            if spare > 1 or not reader.missed:
                break
            # A document has changed since its hits were read: once more, of its new state.
            spare = _SPARE
        answerability, judged = self._answerability(request, ranking.lists, shown)
        hidden = self._not_indexed(request) if len(shown) < min(query.top_k, _FEW) else ()
        unmatched = () if shown or not request.fields else (_no_such_fields(request.fields),)
        seen = query.top_k if query.per_document is None else depth * spare
        if telemetry.is_observed():
            telemetry.note(mode=str(query.mode), hits=len(shown[query.offset :]))
        return Result(
            hits=tuple(shown[query.offset :]),
            warnings=(
                *request.warnings,
                *ranking.warnings,
                *reader.warnings,
                *unmatched,
                *hidden,
                *judged,
            ),
            exhausted=ranking.exhausted and len(above) <= seen and len(kept) <= query.top_k,
            usage=request.usage,
            answerability=answerability,
        )

    def _answerability(
        self,
        request: SearchRequest,
        lists: Sequence[tuple[ResolvedQuery, RankedList]],
        hits: Sequence[Hit],
    ) -> tuple[Answerability | None, tuple[str, ...]]:
        """Whether the hits answer, None where that was not judged; and a warning."""
        if self._judge is None or request.target != "chunk":
            return None, ()
        if request.signals is not None and len(set(request.query.dataset_ids)) == 1:
            request.signals = self._judge.signals(request, lists)
        verdict: Answerability | None = "nothing"
        warnings: tuple[str, ...] = ()
        if hits:
            calibration, warnings = self._judge.calibration(request)
            verdict = None
            if calibration is not None:
                verdict = self._judge.verdict(calibration, request, lists)
        if self._log is not None and verdict in ("nothing", "weak") and not request.query.offset:
            query = request.query
            failed = self._log.note(query.text, query.dataset_ids, verdict, hits)
            warnings += (failed,) if failed else ()
        return verdict, warnings

    def _not_indexed(self, request: SearchRequest) -> tuple[str, ...]:
        """The warning that documents have no chunks yet, as a process leaves them that was killed.

        Counting reads an index of the whole dataset, so it is done where hits may be missing.
        """
        if request.target == "layer":
            return ()
        datasets = request.query.dataset_ids
        # Documents first: of those that are derived in between none is counted.
        documents = sum(self._store.documents.count(each) for each in datasets)
        missing = documents - self._store.chunks.count_sets(datasets)
        if missing < 1:
            return ()
        are, them = ("document is", "it") if missing == 1 else ("documents are", "them")
        return (
            f"{missing} {are} not indexed yet, and no search finds {them}: `triptych rebuild` or "
            f"the next sync derives {them}",
        )

    def _list(self, request: SearchRequest) -> Result:
        """List what passes the filter."""
        query = request.query
        found = at_most(self._listing.hits(request), query.per_document, query.top_k + 1)
        versions = {(hit.dataset_id, hit.doc_name): hit.sig.source_version for hit in found}
        reader = StoreHitReader(self._store, versions)
        shown = self._hydrator.with_windows(found[: query.top_k], reader, query.top_k)
        telemetry.note(mode="list", hits=len(shown[query.offset :]))
        return Result(
            hits=tuple(shown[query.offset :]),
            warnings=request.warnings,
            exhausted=len(found) <= query.top_k,
        )

    def _embed(self, requests: Sequence[SearchRequest]) -> None:
        """Embed the texts of all variants that want a vector, in one call for each kind.

        After a failure each lane embeds its own text, and says what became of it.
        """
        by_space: dict[str, list[SearchRequest]] = {}
        for request in requests:
            by_space.setdefault(request.query.embed_sig, []).append(request)
        for embed_sig, some in by_space.items():
            self._embed_in(self._derivation.of_space(embed_sig), some)

    def _embed_in(self, derivation: DerivationPipeline, requests: Sequence[SearchRequest]) -> None:
        embedder = derivation.embedder
        if embedder is None:
            return
        admits = derivation.coverage.admits
        need = [
            (request, at, [text for text in variant.embedded if has_words(text[1])])
            for request in requests
            for at, variant in enumerate(request.variants)
            if variant.mode in _EMBEDDED and variant.vector_dataset_ids and variant.vector is None
        ]
        need = [(to, at, [text for text in texts if admits(text[1])]) for to, at, texts in need]
        with suppress(ProviderError):
            known = {key: row for request in requests for key, row in request.vectors.items()}
            new = [each for _, _, texts in need for each in texts if each not in known]
            known |= embed_each(embedder, list(dict.fromkeys(new)))
            for request, at, texts in need:
                if texts:
                    variants = list(request.variants)
                    vector = mean_vector([known[each] for each in texts])
                    variants[at] = attrs.evolve(variants[at], vector=vector)
                    request.variants = variants


def _no_such_fields(fields: Mapping[str, Sequence[str]]) -> str:
    read = " and ".join(f"{key} = {' or '.join(map(repr, each))}" for key, each in fields.items())
    return (
        f"the query was read as asking for documents with {read}: put it into quotes to look for "
        "the words themselves"
    )
