"""From a query to a result: judge, recall, hydrate in one snapshot, tell what is stale."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress

import attrs

from triptych import deadlines
from triptych.contracts import (
    ChunkRepo,
    DocLevelSearcher,
    DocumentRepo,
    LayerRepo,
)
from triptych.errors import (
    ModelMismatchError,
    NotAvailableError,
    NotFoundError,
    ProviderError,
    ValidationError,
)
from triptych.ingestion.derivation import DerivationPipeline
from triptych.ingestion.embedding import embed
from triptych.ingestion.layers import Inputs, inputs_of, layer_stale_reason
from triptych.records import (
    NO_CHUNK,
    Candidate,
    DatasetConfig,
    DerivedSig,
    Hit,
    Layer,
    Mode,
    Query,
    ResolvedQuery,
    Result,
    Scope,
    SourceDocument,
    StaleReason,
    StoredUnit,
)
from triptych.search.engine import SearchEngine, Target
from triptych.search.postprocessing import boosted, query_keywords
from triptych.search.query import over_fetch, resolve_mode, validate
from triptych.text import get_analyzer

__all__ = ["SearchPipeline"]

_ATTEMPTS = 2
_SPARE = 3  # the second attempt reads this many times top_k, to fill up what vanishes


@attrs.define(kw_only=True)
class _Asked:
    """One query on its way: what was resolved, and what is worked out once for all its hits."""

    query: ResolvedQuery
    warnings: Sequence[str]
    languages: Mapping[str, str]
    inputs: dict[str, Inputs] = attrs.field(factory=dict)  # by dataset
    terms: dict[str, tuple[str, ...]] = attrs.field(factory=dict)  # the query's, by language
    boost: float = 0.0
    keywords: tuple[str, ...] = ()

    def terms_in(self, dataset_id: str) -> tuple[str, ...]:
        """The query's terms in the language of a dataset."""
        language = self.languages.get(dataset_id, "english")
        if language not in self.terms:
            self.terms[language] = tuple(get_analyzer(language).analyze_query(self.query.text))
        return self.terms[language]


class SearchPipeline:
    """The Service's search methods."""

    def __init__(
        self,
        documents: DocumentRepo,
        chunks: ChunkRepo,
        layers: LayerRepo,
        engine: SearchEngine,
        deriver: DerivationPipeline,
        document_search: DocLevelSearcher | None = None,
    ) -> None:
        self._documents = documents
        self._chunks = chunks
        self._documents_whole = document_search
        self._layers = layers
        self._engine = engine
        self._deriver = deriver

    def search(self, query: Query) -> Result:
        """Chunks or layers."""
        return self._run(self._ask(query))

    def search_documents(self, query: Query) -> Result:
        """Whole documents."""
        return self._whole(self._ask_whole(query))

    def search_many(self, queries: Sequence[Query]) -> list[Result]:
        """`search` for each, with one call to the embedder."""
        asked = [self._ask(query) for query in queries]
        self._embed(asked)
        results = []
        for each in asked:
            deadlines.check("search_many")
            results.append(self._run(each))
        return results

    def search_layers_and_documents(
        self, queries: Sequence[Query], whole: Query
    ) -> tuple[list[Result], Result | None]:
        """`search` for each of ``queries`` and `search_documents` for ``whole``, with one call
        to the embedder; None for the latter where the backend cannot search whole documents."""
        asked = [self._ask(query) for query in queries]
        last = None if self._documents_whole is None else self._ask_whole(whole)
        self._embed([*asked, *([last] if last else [])])
        results = []
        for each in asked:
            deadlines.check("the search")
            results.append(self._run(each))
        return results, None if last is None else self._whole(last)

    # The way of one query

    def _ask_whole(self, query: Query) -> _Asked:
        asked = self._ask(attrs.evolve(query, layer=Layer.DETAIL))
        if asked.boost:
            raise ValidationError(
                "keyword_boost looks into the texts of hits, and a document's hit holds no more "
                "than its opening: use it with search()"
            )
        return asked

    def _whole(self, asked: _Asked) -> Result:
        if self._documents_whole is None:
            raise NotAvailableError(
                "this store cannot search whole documents: use search(), or another backend"
            )
        return self._answer("document", asked, self._documents_whole.fetch_docs, self._document_hit)

    def _embed(self, asked: Sequence[_Asked]) -> None:
        """Embed the texts of all that want it in one call.

        After a failure each lane embeds its own text, and tells what became of it.
        """
        embedder = self._deriver.embedder
        if embedder is None:
            return
        need = [
            each
            for each in asked
            if each.query.mode is not Mode.BM25
            and each.query.vector_dataset_ids
            and self._deriver.coverage.admits(each.query.text)
        ]
        texts = list(dict.fromkeys(each.query.text for each in need))
        if need:
            with suppress(ProviderError):
                rows = dict(zip(texts, embed(embedder, texts, kind="query"), strict=True))
                for each in need:
                    each.query = attrs.evolve(each.query, vector=rows[each.query.text])

    def _run(self, asked: _Asked) -> Result:
        if asked.query.layer is Layer.DETAIL:
            return self._answer("chunk", asked, self._chunks.fetch, self._chunk_hit)
        return self._answer("layer", asked, self._layers.fetch, self._layer_hit)

    def _configs(self, dataset_ids: Sequence[str]) -> Mapping[str, DatasetConfig | None]:
        if len(dataset_ids) == 1:
            return {dataset_ids[0]: self._chunks.config(dataset_ids[0])}
        found = self._chunks.configs(dataset_ids)
        return {dataset_id: found.get(dataset_id) for dataset_id in dataset_ids}

    def _ask(self, query: Query) -> _Asked:
        query, filter_ = validate(query)
        assert isinstance(query.layer, Layer)  # judged
        warnings: list[str] = []
        embedder, embed_sig = self._deriver.embedder, self._deriver.embed_sig
        mode = resolve_mode(query.mode, has_embedder=embedder is not None)
        if query.scope is Scope.ALL:
            dataset_ids = tuple(self._documents.list_datasets())
        else:
            dataset_ids = (query.dataset_id,)
        with_vectors, others = [], []
        configs = self._configs(dataset_ids)
        for dataset_id, config in configs.items():
            if config is None and query.scope is Scope.SINGLE:
                self._require(dataset_id)
            if config is not None and config.embed_sig == embed_sig:
                with_vectors.append(dataset_id)
            elif config is not None:
                others.append((dataset_id, config.embed_sig))
        if embedder is not None and others and mode is not Mode.BM25:
            stored = "; ".join(f"{name!r} of {sig or 'no model'!r}" for name, sig in others)
            message = (
                f"the vectors are of another model than {embed_sig!r} ({stored}): rebuild the "
                "dataset with this embedder, or open the store with the one it was filled with"
            )
            if mode is Mode.VECTOR:
                raise ModelMismatchError(message, stored=others[0][1], configured=embed_sig)
            warnings.append(f"searched by keyword alone: {message}")
            if not with_vectors:
                mode = Mode.BM25
        if query.fresh_only:
            filter_ = attrs.evolve(filter_, fresh=self._fresh(query.layer))
        single = mode is not Mode.HYBRID
        boost = query.keyword_boost
        return _Asked(
            query=ResolvedQuery(
                text=query.text,
                dataset_ids=dataset_ids,
                vector_dataset_ids=tuple(with_vectors) if embedder else (),
                embed_sig=embed_sig,
                mode=mode,
                layer=query.layer,
                top_k=query.top_k,
                limit=query.top_k if single and not boost else over_fetch(query.top_k),
                threshold=query.threshold,
                min_scores=query.min_scores,
                filter=filter_,
            ),
            warnings=warnings,
            languages={name: c.language for name, c in configs.items() if c is not None},
            boost=boost,
            keywords=query_keywords(query.text) if boost else (),
        )

    def _fresh(self, layer: Layer) -> DerivedSig:
        chunker_sig = self._deriver.chunker_sig if layer is Layer.DETAIL else ""
        return DerivedSig(chunker_sig=chunker_sig, embed_sig=self._deriver.embed_sig)

    def _require(self, dataset_id: str) -> None:
        datasets = self._documents.list_datasets()
        if dataset_id not in datasets:
            known = ", ".join(map(repr, datasets[:10])) or "none yet"
            raise NotFoundError(f"there is no dataset {dataset_id!r}; the datasets are: {known}")

    def _answer(
        self,
        tier: Target,
        asked: _Asked,
        fetch: Callable[[Sequence[Hashable]], Mapping[Hashable, StoredUnit]],
        hit_of: Callable[[_Asked, Candidate, StoredUnit], Hit | None],
    ) -> Result:
        """Recall and hydrate; once more when something vanished between the two."""
        query = asked.query
        reach = over_fetch(query.top_k) if asked.boost else query.top_k
        for attempt in range(1, _ATTEMPTS + 1):
            deadlines.check("the search")
            recall = self._engine.recall(tier, query)
            above = recall.candidates
            if (least := query.threshold) is not None:
                above = [candidate for candidate in above if candidate.score >= least]
            depth = reach if attempt == 1 else reach * _SPARE
            head = list(above[:depth])
            found = fetch([candidate.key for candidate in head]) if head else {}
            hits = []
            for candidate in head:
                if candidate.key in found:
                    hit = hit_of(asked, candidate, found[candidate.key])
                    if hit is not None:
                        hits.append(hit)
            if asked.boost:
                hits = boosted(hits, asked.keywords, asked.boost)
            hits = self._with_windows(hits, found.values(), query.top_k)
            if len(hits) >= min(query.top_k, len(above)):
                break
        return Result(
            hits=tuple(hits),
            warnings=(*asked.warnings, *recall.warnings),
            exhausted=recall.exhausted and len(above) <= query.top_k,
        )

    def _with_windows(
        self, hits: Sequence[Hit], found: Iterable[StoredUnit], top_k: int
    ) -> list[Hit]:
        """The first ``top_k`` hits, with the text of the windows that their chunks have.

        It is cut from the document at the version that the snapshot of ``found`` held: a hit
        whose document has changed since then counts as vanished.
        """
        versions = {(d.dataset_id, d.name): d.version for f in found if (d := f.document)}
        documents: dict[tuple[str, str], SourceDocument | None] = {}
        shown: list[Hit] = []
        for hit in hits:
            if len(shown) == top_k:
                break
            # The spans of a stale source lie in a text that is no longer kept.
            if hit.window_start is None or hit.stale == "source":
                shown.append(hit)
                continue
            place = hit.dataset_id, hit.doc_name
            if place not in documents:
                documents[place] = self._documents.get(*place)
            document = documents[place]
            if document is not None and document.version == versions[place]:
                window = document.content[hit.window_start : hit.window_end]
                shown.append(attrs.evolve(hit, window=window))
        return shown

    # Hits

    def _chunk_hit(self, asked: _Asked, candidate: Candidate, found: StoredUnit) -> Hit | None:
        chunk, document = found.chunk, found.document
        if chunk is None or document is None:
            return None
        stale = found.sig.stale_reason(self._deriver.expected_signature(document))
        if stale and asked.query.filter.fresh is not None:
            return None
        return Hit(
            dataset_id=chunk.dataset_id,
            doc_name=chunk.doc_name,
            layer=Layer.DETAIL,
            content=chunk.content,
            score=candidate.score,
            chunk_index=chunk.index,
            occurrence=chunk.occurrence,
            sig=chunk.sig,
            metadata=document.metadata,
            scores=candidate.scores,
            start=chunk.start,
            end=chunk.end,
            offset=chunk.offset,
            start_line=chunk.start_line,
            heading_path=chunk.heading_path,
            locator=chunk.locator,
            window_start=chunk.window_start,
            window_end=chunk.window_end,
            terms=asked.terms_in(candidate.dataset_id),
            stale=stale,
        )

    def _layer_hit(self, asked: _Asked, candidate: Candidate, found: StoredUnit) -> Hit | None:
        layer = found.layer
        if layer is None:
            return None
        stale = self._layer_stale(asked, found)
        if stale and asked.query.filter.fresh is not None:
            return None
        return Hit(
            dataset_id=layer.dataset_id,
            doc_name=layer.doc_name,
            layer=layer.layer,
            content=layer.content,
            score=candidate.score,
            sig=layer.sig,
            metadata={} if found.document is None else found.document.metadata,
            scores=candidate.scores,
            end=len(layer.content),
            terms=asked.terms_in(candidate.dataset_id),
            stale=stale,
        )

    def _layer_stale(self, asked: _Asked, found: StoredUnit) -> StaleReason | None:
        assert found.layer is not None  # checked by the caller
        dataset_id = found.layer.dataset_id

        if dataset_id not in asked.inputs:
            asked.inputs[dataset_id] = inputs_of(self._layers, dataset_id)
        inputs, name = asked.inputs[dataset_id], found.layer.doc_name
        return layer_stale_reason(
            found.sig,
            found.document,
            self._deriver.embed_sig,
            lambda digest: inputs(name, digest),
        )

    def _document_hit(self, asked: _Asked, candidate: Candidate, found: StoredUnit) -> Hit | None:
        document = found.document
        if document is None:
            return None
        stale = found.sig.stale_reason(self._deriver.expected_signature(document))
        if stale and asked.query.filter.fresh is not None:
            return None
        return Hit(
            dataset_id=document.dataset_id,
            doc_name=document.name,
            layer=None,
            content=found.opening,
            score=candidate.score,
            chunk_index=NO_CHUNK,
            sig=found.sig,
            metadata=document.metadata,
            scores=candidate.scores,
            end=len(found.opening),
            terms=asked.terms_in(candidate.dataset_id),
            stale=stale,
        )
