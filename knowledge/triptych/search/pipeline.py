"""The search pipeline: rewrite, retrieve, fuse, hydrate, postprocess, cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import attrs

from triptych import telemetry
from triptych._internal.turns import SEARCHES
from triptych.contracts import Capabilities, Postprocessor, QueryRewriter, Store
from triptych.derivation.deriver import Deriver
from triptych.derivation.living_documents import LivingDocuments
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import (
    Candidate,
    DocumentInfo,
    EmbedKind,
    Explanation,
    Layer,
    Mode,
    Query,
    Result,
    Rewriting,
    Vector,
    check_text,
)
from triptych.search.answerability import ResultJudge, missing_hits
from triptych.search.engine import SearchEngine
from triptych.search.hydration import Hydrator, StoreHitReader
from triptych.search.postprocessing import KeywordBoost, run_steps
from triptych.search.query import Moment, has_words, validate
from triptych.search.query_vectors import SearchProbe, embed_queries
from triptych.search.reach import SPARE, Reach
from triptych.search.request import Found, RequestResolver, SearchRequest
from triptych.search.retrievers import SPARSE
from triptych.search.strength import evidence_of
from triptych.search.trace import note, note_retrieval
from triptych.vectors.embedding import mean_vector

if TYPE_CHECKING:
    from triptych.search.past.stores import PastStores

T = TypeVar("T")
KnownVectors = Mapping[tuple[EmbedKind, str], Vector]

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

    ``living`` are the documents that there are to find, and ``past_stores`` makes the stores that
    queries with ``as_of`` search.
    """

    _store: Store
    _living: LivingDocuments
    _capabilities: Capabilities
    _engine: SearchEngine
    _derivation: Deriver
    _rewriter: QueryRewriter | None = None
    _postprocessors: Sequence[Postprocessor] = ()
    _locate: Callable[[], Callable[[DocumentInfo], Path | None]] | None = None
    _past_stores: Callable[[], PastStores] | None = None
    _judge: ResultJudge | None = None
    _observer: telemetry.AnswerObserver | None = None
    resolver: RequestResolver = attrs.field(init=False)
    _hydrator: Hydrator = attrs.field(init=False)

    @property
    def sources(self) -> tuple[Store, LivingDocuments]:
        """What is searched: the store, and the documents in it that there are to find."""
        return self._store, self._living

    @resolver.default
    def _make_resolver(self) -> RequestResolver:
        chunks, lanes = self._store.chunks, self._engine.lanes
        return RequestResolver(self._living, chunks, self._derivation, lanes)

    @_hydrator.default
    def _make_hydrator(self) -> Hydrator:
        whole = self._capabilities.document_search
        return Hydrator(self._store, self._living, self._derivation, whole, self._locate)

    def derived(
        self,
        *,
        rewriter: QueryRewriter | None = None,
        postprocessors: Sequence[Postprocessor] = (),
    ) -> SearchPipeline:
        """Return a pipeline with these steps over the same store and lanes."""
        steps = KeywordBoost(), *postprocessors
        return attrs.evolve(self, rewriter=rewriter, postprocessors=steps)

    @property
    def configuration(self) -> Mapping[str, str]:
        """What a search depends on beside the documents: signatures, and the steps, by name."""
        ranker, lanes = self._engine.ranker, self._engine.lanes
        weights = getattr(ranker, "weights", None)
        if not isinstance(weights, Mapping):  # a ranker of others' may have any, or none
            weights = {}
        return {
            "chunker": self._derivation.chunker_sig,
            "embedder": self._derivation.embed_sig,
            "sparse encoder": self._derivation.sparse_sig,
            "ranker": type(ranker).__name__,
            "weights": " ".join(f"{each}={weights.get(each, 1.0)}" for each in lanes if weights),
            "lanes": " ".join(lanes),
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
            return self._settled(
                lambda: self._warned(self._prepare([query], vectors=vectors)),
                lambda requests: self._answer(requests[0])[0],
            )

    def search_with_signals(self, query: Query) -> tuple[Result, Mapping[str, float]]:
        """Run `search`; also what the lanes say of how well it answers.

        See `triptych.search.answerability`.
        """

        def find(requests: Sequence[SearchRequest]) -> tuple[Result, Mapping[str, float]]:
            (request,) = requests
            result, found = self._answer(request)
            of_one = request.target == "chunk" and len(set(request.query.dataset_ids)) == 1
            if self._judge is None or not of_one:
                return result, {}
            return result, self._judge.signals(request, found.lists or ())

        return self._settled(lambda: self._prepare([query]), find)

    def explain(self, query: Query, doc_name: str) -> Explanation:
        """Where a document is in what `search` finds for ``query``, and why it is not shown."""
        from triptych.search.explanation import Explainer

        def find(requests: Sequence[SearchRequest]) -> Explanation:
            (request,) = embed_queries(self._derivation, requests)
            explainer = Explainer(
                store=self._store,
                living=self._living,
                derivation=self._derivation,
                engine=self._engine,
                steps=self._postprocessors,
                find=self._find,
            )
            return explainer.explain(request, doc_name)

        with telemetry.operation("search", target="explain"):
            if query.as_of is not None:
                with self.past(query) as past:
                    return past.searches.explain(past.query, doc_name)
            return self._settled(lambda: self._warned(self._prepare([query])), find)

    def similar(self, query: Query, doc_name: str, chunk: int | None) -> Result:
        """Run ``query`` with the mean of the stored vectors of a document's chunks, or of one.

        Raises:
            NotAvailableError: there is no vector.
        """
        plain = attrs.evolve(self, rewriter=None, postprocessors=(), judge=None, observer=None)

        def prepare() -> Sequence[SearchRequest]:
            (request,) = plain._prepare([query])
            (dataset_id,) = request.query.dataset_ids
            chunks = self._store.chunks.iter_chunks(dataset_id, doc_name, vectors=True)
            some = [each.vector for each in chunks if chunk in (None, each.index)]
            if not (vectors := [each for each in some if each is not None]):
                raise NotAvailableError(
                    f"{doc_name!r} has no vectors to compare{'' if some else ' of such a chunk'}: "
                    "search for its words, or see `triptych status` for what waits to be embedded"
                )
            variant = attrs.evolve(request.query, vector=mean_vector(vectors))
            return [attrs.evolve(request, variants=(variant,))]

        with telemetry.operation("search", target="similar"):
            result = plain._settled(prepare, lambda requests: plain._answer(requests[0])[0])
        return attrs.evolve(result, evidence=None)

    def search_documents(self, query: Query, *, vectors: KnownVectors | None = None) -> Result:
        """Search whole documents; ``vectors`` as in `search`."""
        with telemetry.operation("search", target="document"):
            if query.as_of is not None:
                with self.past(attrs.evolve(query, layer=Layer.DETAIL)) as past:
                    return past.dated(past.searches.search_documents(past.query, vectors=vectors))
            return self._settled(
                lambda: self._prepare([query], documents=True, vectors=vectors),
                lambda requests: self._answer(requests[0])[0],
            )

    def search_many(
        self, queries: Sequence[Query], *, vectors: KnownVectors | None = None
    ) -> list[Result]:
        """Run `search` for each query, with one call to the embedder for each moment of those
        that ask for the past, and one for all others."""
        with telemetry.operation("search", target="many", queries=len(queries)):
            if any(query.as_of is not None for query in queries):
                return self._search_moments(queries, vectors)
            return self._settled(
                lambda: self._warned(self._prepare(queries, vectors=vectors)),
                lambda requests: [
                    self._answer(each)[0] for each in embed_queries(self._derivation, requests)
                ],
            )

    def _settled(
        self,
        prepare: Callable[[], Sequence[SearchRequest]],
        find: Callable[[Sequence[SearchRequest]], T],
    ) -> T:
        """What ``find`` finds; again where a dataset was swapped to its other embedder meanwhile,
        for its vectors are in neither space's list then."""
        # What is computed in this process is computed in turn.
        turn = SEARCHES.taken() if self._store.chunks.in_process else nullcontext()
        with turn:
            for _ in range(_SWAPS):
                requests = prepare()
                found = find(requests)
                if not any(self.resolver.has_moved(each) for each in requests):
                    break
            return found

    def _warned(self, requests: Sequence[SearchRequest]) -> Sequence[SearchRequest]:
        """Say that the sparse lane is not there for layers; a context always takes them without."""
        if self._derivation.sparse_encoder is None or SPARSE not in self._engine.lanes:
            return requests
        said = ("layers have no sparse vectors: the sparse lane did not run",)
        return [
            attrs.evolve(each, warnings=each.warnings + said)
            if each.target == "layer" and each.query.mode == Mode.HYBRID
            else each
            for each in requests
        ]

    def search_layers(self, queries: Sequence[Query]) -> tuple[list[Result], Sequence[Candidate]]:
        """Run `search` for each of ``queries`` with one call to the embedder. The chunks that the
        threshold left out come last."""
        for query in queries:
            if query.as_of is not None:
                raise ValidationError("leave as_of out, and use the result of `past`")
            if not has_words(check_text(query.text, "the query")):
                raise ValidationError("the query is empty: give it at least one word")
            if query.offset or query.per_document is not None:
                raise ValidationError(
                    "a context has no pages of hits: leave out offset and per_document"
                )
        with telemetry.operation("search", target="context", queries=len(queries)):
            answers = self._settled(
                lambda: self._prepare(queries),
                lambda requests: [
                    self._answer(each) for each in embed_queries(self._derivation, requests)
                ],
            )
        results = [result for result, _ in answers]
        return results, [each for _, found in answers for each in found.below]

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
            raise NotAvailableError("this pipeline searches only the current state")
        from triptych.search.past.stores import Wants

        wanted = checked.layer is not Layer.DETAIL if layers is None else layers
        # Steps may compare vectors whatever the mode is.
        steps = any(not isinstance(step, KeywordBoost) for step in self._postprocessors)
        wants = Wants(
            dense=steps or checked.mode not in (Mode.BM25, SPARSE),
            sparse=checked.mode in (None, Mode.HYBRID, SPARSE),
            layers=wanted,
        )
        past = self._past_stores().at(moment, dataset_ids, wants, self._engine, checked.mode)
        with past as (store, engine, warnings):
            yield PastSearch(
                searches=self._over(store, engine),
                store=store,
                query=attrs.evolve(query, as_of=None),
                as_of=moment,
                warnings=warnings,
            )

    def _over(self, store: Store, engine: SearchEngine) -> SearchPipeline:
        """Return this pipeline over the store of a moment. What had expired then is not in it, and
        nothing else ever expires there."""
        never = datetime.min.replace(tzinfo=UTC)
        capabilities = store.capabilities
        if not self._hydrator.reads_documents:
            capabilities = attrs.evolve(capabilities, document_search=None)
        return attrs.evolve(
            self,
            store=store,
            living=LivingDocuments(store.documents, never),
            capabilities=capabilities,
            engine=engine,
            derivation=self._derivation.over(store.chunks, encodes=capabilities.sparse is not None),
            past_stores=None,
            judge=None,
            observer=None,
        )

    def _search_moments(
        self, queries: Sequence[Query], vectors: KnownVectors | None
    ) -> list[Result]:
        from triptych.search.past.stores import by_moment

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
        documents: bool = False,
        vectors: KnownVectors | None = None,
    ) -> list[SearchRequest]:
        """Validate, resolve and rewrite ``queries``, which ask for whole ``documents`` or not."""
        requests = []
        for query in queries:
            SEARCHES.pass_on("the search")
            requests.append(self.resolver.resolve(query, documents=documents))
        known: dict[object, tuple[Rewriting, SearchRequest]] = {}
        # A rewriter that looks at what the search finds should see chunks where they are asked for.
        for at in sorted(range(len(queries)), key=lambda at: requests[at].target != "chunk"):
            request = requests[at]
            if vectors and request.query.embed_sig == self._derivation.embed_sig:
                request = attrs.evolve(request, vectors=dict(vectors))
            if self._rewriter is not None and has_words(request.query.text):
                request = self._rewritten(self._rewriter, queries[at], request, known)
            if request.conditions is not None and request.conditions.prefixes:
                from triptych.search.listing import expand_prefixes

                request = expand_prefixes(self._store, request, request.conditions)
            requests[at] = request
        return requests

    def _rewritten(
        self,
        rewriter: QueryRewriter,
        query: Query,
        request: SearchRequest,
        known: dict[object, tuple[Rewriting, SearchRequest]],
    ) -> SearchRequest:
        """The request with its variants. Requests that ask alike are rewritten once."""
        from triptych.search.rewriting import rewrite, variants_of

        resolved = request.query
        alike = (
            *(resolved.text, resolved.mode, resolved.dataset_ids, resolved.embed_sig),
            tuple(query.conversation),
        )
        is_first = alike not in known
        if is_first:
            plain = attrs.evolve(query, text=resolved.text, mode=resolved.mode, syntax=False)
            probe = SearchProbe(self._engine, self._derivation, request)
            with telemetry.stage("rewrite"), SEARCHES.given_up():
                known[alike] = rewrite(rewriter, plain, probe), request
        rewriting, first = known[alike]
        question = rewriting.question
        return attrs.evolve(
            request,
            query=attrs.evolve(resolved, text=question) if question else resolved,
            variants=variants_of(resolved, rewriting.variants),
            vectors=first.vectors,
            warnings=request.warnings + rewriting.warnings,
            usage=rewriting.usage if is_first else request.usage,
        )

    def _answer(self, request: SearchRequest) -> tuple[Result, Found]:
        """Search, judge what was found, and say what may be missing."""
        found, query = self._find(request), request.query
        hits = tuple(found.hits[query.offset :])
        warnings = request.warnings + found.warnings
        judge = self._judge
        verdict, judged = judge.judge(request, found) if judge else (None, ())
        is_question = request.target == "chunk" and found.lists is not None and not query.offset
        if self._observer is not None and is_question:
            answers = verdict if found.hits else "nothing"
            with SEARCHES.given_up():  # it may wait for who writes
                said = self._observer.note(query.text, query.dataset_ids, answers, found.hits)
            judged += (said,) if said else ()
        if not found.hits and query.filter.tree is not None:
            from triptych.search.filter_hints import filter_hints

            with suppress(NotAvailableError):  # tables in place
                warnings += tuple(filter_hints(self._living, query.dataset_ids, query.filter.tree))
        if found.lists is None:
            telemetry.note(mode="list", hits=len(hits))
        else:
            if len(found.hits) < min(query.top_k, _FEW):
                warnings += missing_hits(self._store, request, found)
            warnings += judged
            if telemetry.is_observed():
                telemetry.note(mode=str(query.mode), hits=len(hits))
        can = self._capabilities
        evidence, unknown = evidence_of(can, self._derivation, request, found, verdict)
        if unknown and can.document_search is not None:
            from triptych.search.near_words import near_words

            chunks, living = self._store.chunks, self._living
            warnings += tuple(near_words(can.document_search, chunks, living, request, unknown))
        result = Result(
            hits=hits,
            warnings=warnings,
            exhausted=found.exhausted,
            usage=request.usage,
            evidence=evidence,
        )
        return result, found

    def _find(self, request: SearchRequest) -> Found:
        """Retrieve, fuse, hydrate, postprocess, cut; further, where hits are missing."""
        query = request.query
        if not has_words(query.text):
            from triptych.search.listing import FilterListing

            return FilterListing(self._store, self._hydrator).find(request)
        conditions, keep = request.conditions, None
        if conditions:
            from triptych.search.listing import TextVerifier

            keep = TextVerifier(self._store, request.target, conditions)
        if conditions or len(request.variants) > 1 or request.vectors:
            # Lanes may be asked several times, and variants may share texts: each is embedded once.
            (request,) = embed_queries(self._derivation, [request])
        steps = () if request.target == "document" else self._postprocessors
        reach = Reach(depth=max([query.top_k, *(step.depth(query) for step in steps)]))
        while True:
            SEARCHES.pass_on("the search")
            with telemetry.stage("retrieve"):
                ranking = self._engine.retrieve(request.target, request.variants, reach.depth, keep)
            above = ranking.above(query.threshold)
            SEARCHES.pass_on("the search")
            with telemetry.stage("hydrate"):
                hydrated = self._hydrator.hits(request, above[: reach.hits])
            # Steps may ask models: they run when there is enough to choose from.
            further = reach.further(query, len(above), hydrated, exhausted=ranking.exhausted)
            if further is None:
                reader = StoreHitReader(self._store, hydrated.versions, query.filter.tree)
                note_retrieval(query, ranking, above, hydrated.hits)
                with telemetry.stage("postprocess"):
                    kept = run_steps(query, steps, hydrated.hits, reader)
                    shown = self._hydrator.with_windows(kept, reader, query.top_k)
                note("shown", "shown", shown, f"beyond the first {query.top_k}")
                if reach.spare > 1 or not reader.missed:
                    break
                # A document has changed since its hits were read: once more, of its new state.
                further = attrs.evolve(reach, spare=SPARE)
            reach = further
        seen = query.top_k if query.per_document is None else reach.hits
        others = hydrated.vanished or len(above) > seen or len(kept) > query.top_k
        return Found(
            hits=shown,
            warnings=(*ranking.warnings, *reader.warnings, *hydrated.warnings),
            exhausted=ranking.exhausted and not others,
            lists=ranking.lists,
            below=ranking.below(query.threshold) if request.target == "chunk" else (),
        )
