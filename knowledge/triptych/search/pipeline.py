"""The search pipeline: rewrite, retrieve, fuse, hydrate, postprocess, cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from triptych import telemetry
from triptych._internal.one_state import let_go, one_state
from triptych._internal.turns import SEARCHES
from triptych.contracts import Capabilities, Postprocessor, QueryRewriter, Store
from triptych.errors import NotAvailableError, ValidationError
from triptych.living_documents import LivingDocuments
from triptych.records import (
    Candidate,
    DocumentInfo,
    EmbedKind,
    Explanation,
    Hit,
    Mode,
    Query,
    Result,
    Rewriting,
    Vector,
    check_text,
)
from triptych.search.answerability import ResultJudge, missing_hits
from triptych.search.code_ranking import POOL, CodeRanking, code_places
from triptych.search.engine import SearchEngine
from triptych.search.hydration import Hydrated, Hydrator, StoreHitReader
from triptych.search.postprocessing import BUILT_IN, run_steps
from triptych.search.query import has_words, validate
from triptych.search.query_vectors import SearchProbe, embed_queries, with_vector
from triptych.search.reach import further
from triptych.search.request import Found, RequestResolver, SearchRequest
from triptych.search.strength import evidence_of
from triptych.search.trace import note, note_retrieval
from triptych.vectors.embedding import mean_vector
from triptych.vectors.lanes import ModelSet

if TYPE_CHECKING:
    from triptych.search.past.stores import Wants

KnownVectors = Mapping[tuple[EmbedKind, str], Vector]

_FEW = 10  # with fewer hits than so many, a search looks for documents that are not indexed


@attrs.frozen(kw_only=True, eq=False)
class SearchPipeline:
    """What every search of a Service goes through.

    ``living`` are the documents that there are to find. ``as_of`` of a query is for the Service,
    which asks the pipeline of that moment.
    """

    _store: Store
    _living: LivingDocuments
    _capabilities: Capabilities
    _engine: SearchEngine
    _models: ModelSet
    _rewriter: QueryRewriter | None = None
    _postprocessors: Sequence[Postprocessor] = ()
    _locate: Callable[[], Callable[[DocumentInfo], Path | None]] | None = None
    _judge: ResultJudge | None = None
    _observer: telemetry.AnswerObserver | None = None
    resolver: RequestResolver = attrs.field(init=False)
    _hydrator: Hydrator = attrs.field(init=False)
    _turn: Callable[[], AbstractContextManager[None]] = attrs.field(init=False)

    @resolver.default
    def _make_resolver(self) -> RequestResolver:
        chunks, lanes = self._store.chunks, self._engine.lanes
        return RequestResolver(self._living, chunks, self._models, lanes)

    @_hydrator.default
    def _make_hydrator(self) -> Hydrator:
        whole = self._capabilities.document_search
        return Hydrator(self._store, self._models, whole, self._locate)

    @_turn.default
    def _make_turn(self) -> Callable[[], AbstractContextManager[None]]:
        """What is computed in this process is computed in turn."""
        return partial(SEARCHES.taken, self._store.chunks.in_process)

    def derived(
        self,
        *,
        rewriter: QueryRewriter | None = None,
        postprocessors: Sequence[Postprocessor] = (),
    ) -> SearchPipeline:
        """Return a pipeline with these steps, after the built-in ones, over the same lanes."""
        built_in = [each for each in self._postprocessors if isinstance(each, BUILT_IN)]
        return attrs.evolve(self, rewriter=rewriter, postprocessors=[*built_in, *postprocessors])

    @property
    def configuration(self) -> Mapping[str, str]:
        """What a search depends on beside the documents: signatures, and the steps, by name."""
        ranker, lanes = self._engine.ranker, self._engine.lanes
        weights = getattr(ranker, "weights", None)
        if not isinstance(weights, Mapping):  # a ranker of others' may have any, or none
            weights = {}
        return {
            "chunker": self._models.chunker_sig,
            **{lane.maker: lane.sig for lane in self._models.lanes},
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
        with telemetry.operation("search", target="chunk"), one_state(), self._turn():
            (request,) = self._warned(self._prepare([query], vectors=vectors))
            return self._answer(request)[0]

    def search_with_signals(self, query: Query) -> tuple[Result, Mapping[str, float]]:
        """Run `search`; also what the lanes say of how well it answers.

        See `triptych.search.answerability`.
        """
        with one_state(), self._turn():
            (request,) = self._prepare([query])
            result, found = self._answer(request)
            of_one = request.target == "chunk" and len(set(request.query.dataset_ids)) == 1
            if self._judge is None or not of_one:
                return result, {}
            return result, self._judge.signals(request, found.lists or ())

    def explain(self, query: Query, doc_name: str) -> Explanation:
        """Where a document is in what `search` finds for ``query``, and why it is not shown."""
        from triptych.search.explanation import Explainer

        with telemetry.operation("search", target="explain"):
            explainer = Explainer(
                store=self._store,
                models=self._models,
                engine=self._engine,
                find=self._find,
            )
            with one_state(), self._turn():
                requests = self._warned(self._prepare([query]))
                (request,) = embed_queries(self._models, requests)
                return explainer.explain(request, doc_name)

    def similar(self, query: Query, doc_name: str, chunk: int | None) -> Result:
        """Run ``query`` with the mean of the stored vectors of a document's chunks, or of one.

        Raises:
            NotAvailableError: there is no vector.
        """
        plain = attrs.evolve(self, rewriter=None, postprocessors=(), judge=None, observer=None)
        with telemetry.operation("search", target="similar"), one_state(), self._turn():
            (request,) = plain._prepare([query])
            (dataset_id,) = request.query.dataset_ids
            chunks = self._store.chunks.iter_chunks(dataset_id, doc_name, vectors=True)
            some = [each.vector for each in chunks if chunk in (None, each.index)]
            if not (vectors := [each for each in some if each is not None]):
                raise NotAvailableError(
                    f"{doc_name!r} has no vectors to compare{'' if some else ' of such a chunk'}: "
                    "search for its words, or see `triptych status` for what waits to be embedded"
                )
            variant = with_vector(request.query, mean_vector(vectors))
            result, _ = plain._answer(attrs.evolve(request, variants=(variant,)))
        return attrs.evolve(result, evidence=None)

    def search_documents(self, query: Query, *, vectors: KnownVectors | None = None) -> Result:
        """Search whole documents; ``vectors`` as in `search`."""
        with telemetry.operation("search", target="document"), one_state(), self._turn():
            (request,) = self._prepare([query], documents=True, vectors=vectors)
            return self._answer(request)[0]

    def search_many(
        self, queries: Sequence[Query], *, vectors: KnownVectors | None = None
    ) -> list[Result]:
        """Run `search` for each query, with one call to the embedder."""
        with (
            telemetry.operation("search", target="many", queries=len(queries)),
            one_state(),
            self._turn(),
        ):
            requests = self._warned(self._prepare(queries, vectors=vectors))
            return [self._answer(each)[0] for each in embed_queries(self._models, requests)]

    def _warned(self, requests: Sequence[SearchRequest]) -> Sequence[SearchRequest]:
        """Say which lanes are not there for layers; a context always takes them without."""
        said: tuple[str, ...] = ()
        for lane in self._models.lanes:
            if not lane.of_layers and lane.name in self._engine.lanes:
                said += (f"layers have no {lane.vectors}: the {lane.name} lane did not run",)
        if not said:
            return requests
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
            if not has_words(check_text(query.text, "the query")):
                raise ValidationError("the query is empty: give it at least one word")
            if query.offset or query.per_document is not None:
                raise ValidationError(
                    "a context has no pages of hits: leave out offset and per_document"
                )
        with (
            telemetry.operation("search", target="context", queries=len(queries)),
            one_state(),
            self._turn(),
        ):
            requests = embed_queries(self._models, self._prepare(queries))
            answers = [self._answer(each) for each in requests]
        results = [result for result, _ in answers]
        return results, [each for _, found in answers for each in found.below]

    def wants(self, query: Query, *, layers: bool) -> tuple[Sequence[str], Wants]:
        """Return the datasets that ``query`` searches, and what a store of its moment must have.

        Raises:
            ValidationError: the query is invalid.
            NotFoundError: there is no dataset of its name now.
        """
        from triptych.search.past.stores import Wants

        checked, _ = validate(query, self.resolver.lanes)
        # Steps may compare vectors whatever the mode is.
        steps = any(not isinstance(step, BUILT_IN) for step in self._postprocessors)
        built_in = {Mode.BM25, *(lane.name for lane in self._models.lanes)}
        own = [each for each in self.resolver.lanes if each not in built_in]
        return self.resolver.existing_datasets(checked), Wants(
            lanes=[
                lane.name
                for lane in self._models.lanes
                if checked.mode in (None, Mode.HYBRID, lane.name)
                or (lane.name == Mode.VECTOR and (steps or checked.mode in own))
            ],
            layers=layers,
        )

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
            if vectors:
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
            probe = SearchProbe(self._engine, self._models, request)
            let_go()  # a model may take long, and nothing was found so far
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
                warnings += tuple(filter_hints(self._store.documents, query))
        if found.lists is None:
            telemetry.note(mode="list", hits=len(hits))
        else:
            if len(found.hits) < min(query.top_k, _FEW):
                warnings += missing_hits(self._store, request, found)
            warnings += judged
            if telemetry.is_observed():
                telemetry.note(mode=str(query.mode), hits=len(hits))
        can = self._capabilities
        evidence, unknown = evidence_of(can, self._models, request, found, verdict)
        if unknown and can.document_search is not None:
            from triptych.search.near_words import near_words

            chunks = self._store.chunks
            warnings += tuple(near_words(can.document_search, chunks, request, unknown))
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
        keep = None
        if request.conditions:
            from triptych.search.listing import TextVerifier

            keep = TextVerifier(self._store, request.target, request.conditions)
        if keep or len(request.variants) > 1 or request.vectors:
            # Lanes may be asked several times, and variants may share texts: each is embedded once.
            (request,) = embed_queries(self._models, [request])
        steps = () if request.target == "document" else self._postprocessors
        spare, least = 1, query.threshold
        depth = max([query.top_k, *[step.depth(query) for step in steps]])
        lap = telemetry.laps()
        while True:
            ranking = self._engine.retrieve(request.target, request.variants, depth, keep)
            above = ranking.candidates if least is None else ranking.above(least)
            if lap is not None:
                lap("retrieve")
            hydrated = self._hydrator.hits(request, above, depth * spare)
            if lap is not None:
                lap("hydrate")
            # Steps may ask models: they run when there is enough to choose from.
            deeper = further(query, depth, spare, len(above), hydrated, exhausted=ranking.exhausted)
            if deeper is None:
                break
            depth, spare = deeper
        others = [step for step in steps if not isinstance(step, CodeRanking)]
        if len(others) < len(steps) and depth * spare < POOL:
            places = code_places(hydrated.hits)
            if not places:
                steps = others
            elif places[0] < query.top_k:
                of_one = query.mode != Mode.HYBRID and len(request.variants) == 1
                if of_one and not ranking.exhausted:
                    # A list goes on in its order; longer ones, fused, would change that of others.
                    longer = self._engine.retrieve(request.target, request.variants, POOL, keep)
                    ranking = attrs.evolve(longer, lists=ranking.lists)
                    above = ranking.candidates if least is None else ranking.above(least)
                hydrated = self._hydrator.hits(request, above, POOL)
        SEARCHES.pass_on("the search")
        reader = StoreHitReader(self._store, hydrated.versions, query.filter.tree)
        note_retrieval(query, ranking, above, hydrated.hits)
        kept = run_steps(query, steps, hydrated.hits, reader)
        shown = self._hydrator.with_windows(kept, reader, query.top_k)
        if lap is not None:
            lap("postprocess")
        note("shown", "shown", shown, f"beyond the first {query.top_k}")
        seen = query.top_k if query.per_document is None else depth * spare
        more = len(above) > seen or len(kept) > query.top_k
        return Found(
            hits=shown,
            warnings=(*ranking.warnings, *reader.warnings, *_outdated_files(hydrated, shown)),
            exhausted=ranking.exhausted and not more,
            lists=ranking.lists,
            below=() if least is None or request.target != "chunk" else ranking.below(least),
        )


def _outdated_files(hydrated: Hydrated, shown: Sequence[Hit]) -> Iterator[str]:
    """Say which files of the hits have changed or are gone since they were synced."""
    if not any(hydrated.files.values()):
        return
    places = dict.fromkeys((hit.dataset_id, hit.doc_name) for hit in shown)
    for what, said in (("changed", "changed"), ("gone", "been deleted")):
        names = [place[1] for place in places if hydrated.files.get(place) == what]
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            have = "has" if len(names) == 1 else "have"
            yield (
                f"{', '.join(map(repr, names[:3]))}{more} {have} {said} since the last sync: "
                "`triptych sync` with the folder brings the store up to date"
            )
