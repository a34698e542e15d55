"""Hydration: hits of candidates, which are keys and scores, or of what passes a filter alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from triptych import deadlines
from triptych.contracts import DocLevelSearcher, HitReader, Store
from triptych.derivation.deriver import Deriver
from triptych.derivation.layers import inputs_of, layer_stale_reason
from triptych.derivation.living import LivingDocuments
from triptych.errors import NotAvailableError
from triptych.records import (
    NO_CHUNK,
    OPENING,
    Candidate,
    ChunkPlace,
    DerivedChunk,
    DerivedSig,
    DocumentInfo,
    FilterTree,
    Hit,
    Layer,
    StaleReason,
    StoredUnit,
)
from triptych.search.engine import Target
from triptych.search.hit_reader import StoreHitReader, looks_at_headings, subject_of
from triptych.search.postprocessing import at_most
from triptych.search.request import Found, SearchRequest

_HitOf = Callable[[SearchRequest, Candidate, StoredUnit], Hit | None]


@attrs.frozen(kw_only=True)
class Hydrated:
    """The hits of some candidates, in their order.

    ``complete`` is whether each candidate has one: none has vanished since the lanes found it.
    ``versions`` holds the version of each document in the snapshot that the hits were read in.
    """

    hits: Sequence[Hit]
    complete: bool
    versions: Mapping[tuple[str, str], int]


class Hydrator:
    """Reads what candidates stand for, and says what of it is stale."""

    def __init__(
        self,
        store: Store,
        living: LivingDocuments,
        derivation: Deriver,
        document_search: DocLevelSearcher | None,
        locate: Callable[[], Callable[[DocumentInfo], Path | None]] | None = None,
    ) -> None:
        self._documents = store.documents
        self._chunks = store.chunks
        self._whole = document_search
        self._layers = store.layers
        self._derivation = derivation
        self._locate = locate
        self._living = living

    @property
    def reads_documents(self) -> bool:
        """Whether whole documents can be read."""
        return self._whole is not None

    def hits(self, request: SearchRequest, candidates: Sequence[Candidate]) -> Hydrated:
        """Return the hits of ``candidates``, all read in one snapshot.

        Stale hits are left out when the request asks for fresh ones. A lane that knows no keys
        names a chunk by its place: such a chunk is read by itself.
        """
        fetch, hit_of = self._reader(request.target)
        candidates = list(candidates)  # rows become records once
        keyed = [each for each in candidates if not isinstance(each.key, ChunkPlace)]
        found = dict(fetch([each.key for each in keyed])) if keyed else {}
        hits: list[Hit] = []
        versions: dict[tuple[str, str], int] = {}
        path_of = None if self._locate is None or not candidates else self._locate()
        for each in candidates:
            key = each.key
            unit = self._chunk_at(key) if isinstance(key, ChunkPlace) else found.get(key)
            # The filter leaves out what had expired when it was made.
            if unit is None or self._living.hides(unit.document):
                continue
            hit = hit_of(request, each, unit)
            if hit is None:
                continue
            if path_of is not None and unit.document is not None:
                path = path_of(unit.document)
                hit = hit if path is None else attrs.evolve(hit, file=str(path))
            hits.append(hit)
            if unit.document is not None:
                versions[hit.dataset_id, hit.doc_name] = unit.document.version
        return Hydrated(hits=hits, complete=len(hits) == len(candidates), versions=versions)

    def hit(self, request: SearchRequest, candidate: Candidate, unit: StoredUnit) -> Hit | None:
        """Return the hit of a unit that was read already; None if the request leaves it out."""
        kinds = {"chunk": self._chunk_hit, "layer": self._layer_hit, "document": self._document_hit}
        return kinds[request.target](request, candidate, unit)

    def with_windows(self, hits: Sequence[Hit], reader: HitReader, top_k: int) -> list[Hit]:
        """Return the first ``top_k`` hits, with the text of the windows that their chunks have.

        A hit whose document has changed since it was read is left out.
        """
        shown: list[Hit] = []
        for hit in hits:
            if len(shown) == top_k:
                break
            # The spans of a stale source lie in a text that is no longer kept.
            if hit.window_start is None or hit.stale == "source":
                shown.append(hit)
                continue
            (window,) = reader.windows([hit])
            if window is not None:
                shown.append(attrs.evolve(hit, window=window))
        return shown

    def _reader(
        self, target: Target
    ) -> tuple[Callable[[Sequence[Hashable]], Mapping[Hashable, StoredUnit]], _HitOf]:
        if target == "chunk":
            return self._chunks.fetch, self._chunk_hit
        if target == "layer":
            return self._layers.fetch, self._layer_hit
        if self._whole is None:
            raise NotAvailableError(
                "this store cannot search whole documents: use search(), or another backend"
            )
        return self._whole.fetch_docs, self._document_hit

    def _chunk_at(self, place: ChunkPlace) -> StoredUnit | None:
        for chunk in self._chunks.iter_chunks(place.dataset_id, place.doc_name):
            if chunk.index == place.index:
                info = self._documents.get_info(place.dataset_id, place.doc_name)
                return StoredUnit(key=place, sig=chunk.sig, document=info, chunk=chunk)
        return None

    def _stale(
        self, request: SearchRequest, found: StoredUnit, document: DocumentInfo
    ) -> StaleReason | None:
        """Why a hit is stale. One whose vectors are pending is of the newest text: the result has
        a warning for all of them."""
        derivation = self._derivation.of_space(request.spaces.get(document.dataset_id, ""))
        reason = found.sig.stale_reason(derivation.expected_signature(document))
        return None if reason == "vector" else reason

    def _is_left_out(self, request: SearchRequest, stale: StaleReason | None) -> bool:
        return stale is not None and request.query.filter.fresh is not None

    def _chunk_hit(
        self, request: SearchRequest, candidate: Candidate, found: StoredUnit
    ) -> Hit | None:
        chunk, document = found.chunk, found.document
        if chunk is None or document is None:
            return None
        stale = self._stale(request, found, document)
        if self._is_left_out(request, stale):
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
            terms=request.terms_in(candidate.dataset_id),
            stale=stale,
        )

    def _layer_hit(
        self, request: SearchRequest, candidate: Candidate, found: StoredUnit
    ) -> Hit | None:
        layer = found.layer
        if layer is None:
            return None
        inputs = request.inputs.get(layer.dataset_id)
        if inputs is None:
            inputs = inputs_of(self._layers, layer.dataset_id)
            request.inputs[layer.dataset_id] = inputs
        input_sig_of = inputs
        stale = layer_stale_reason(
            found.sig,
            found.document,
            self._derivation.of_space(request.spaces.get(layer.dataset_id, "")).embed_sig,
            lambda digest: input_sig_of(layer.doc_name, digest),
        )
        stale = None if stale == "vector" else stale
        if self._is_left_out(request, stale):
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
            terms=request.terms_in(candidate.dataset_id),
            stale=stale,
        )

    def _document_hit(
        self, request: SearchRequest, candidate: Candidate, found: StoredUnit
    ) -> Hit | None:
        document = found.document
        if document is None:
            return None
        stale = self._stale(request, found, document)
        if self._is_left_out(request, stale):
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
            terms=request.terms_in(candidate.dataset_id),
            stale=stale,
        )


_PAGE = 64


class FilterListing:
    """Lists chunks, layers or documents that pass a request's filter.

    They come by dataset, in the request's order, then by document name and chunk index. All have
    the score 0. Each page of documents is read by itself: what others write meanwhile may be seen.
    """

    def __init__(self, store: Store, hydrator: Hydrator) -> None:
        self._store = store
        self._documents = store.documents
        self._chunks = store.chunks
        self._layers = store.layers
        self._hydrator = hydrator

    def find(self, request: SearchRequest) -> Found:
        """List what passes the filter."""
        query = request.query
        found = at_most(self.hits(request), query.per_document, query.top_k + 1)
        versions = {(hit.dataset_id, hit.doc_name): hit.sig.source_version for hit in found}
        reader = StoreHitReader(self._store, versions)
        return Found(
            hits=self._hydrator.with_windows(found[: query.top_k], reader, query.top_k),
            exhausted=len(found) <= query.top_k,
            lists=None,
        )

    def hits(self, request: SearchRequest) -> Iterator[Hit]:
        """Yield the hits one by one; what is not asked for is not read."""
        for dataset_id in dict.fromkeys(request.query.dataset_ids):
            if request.target == "layer":
                units = self._layer_units(request, dataset_id)
            elif request.target == "document":
                units = self._document_units(request, dataset_id)
            else:
                units = self._chunk_units(request, dataset_id)
            for candidate, unit in units:
                hit = self._hydrator.hit(request, candidate, unit)
                if hit is not None:
                    yield hit

    def _pages(
        self, dataset_id: str, tree: FilterTree | None
    ) -> Iterator[tuple[Sequence[DocumentInfo], dict[str, DerivedSig]]]:
        after = ""
        while page := self._documents.list(dataset_id, after=after, limit=_PAGE, where=tree):
            deadlines.check("the search")
            names = [info.name for info in page]
            yield page, dict(self._chunks.get_doc_sigs(dataset_id, names))
            after = page[-1].name

    def _chunk_units(
        self, request: SearchRequest, dataset_id: str
    ) -> Iterator[tuple[Candidate, StoredUnit]]:
        tree = request.query.filter.tree
        # A chunk passes by its own headings, a document by those of any of its chunks.
        headed = looks_at_headings(tree)
        for page, sigs in self._pages(dataset_id, None if headed else tree):
            for info in page:
                if info.name not in sigs:
                    continue
                for chunk in self._chunks.iter_chunks(dataset_id, info.name):
                    if headed and tree and not tree.admits(subject_of(info.name, info, [chunk])):
                        continue
                    unit = StoredUnit(key=None, sig=sigs[info.name], document=info, chunk=chunk)
                    yield _candidate(dataset_id, info.name, chunk.index), unit

    def _document_units(
        self, request: SearchRequest, dataset_id: str
    ) -> Iterator[tuple[Candidate, StoredUnit]]:
        for page, sigs in self._pages(dataset_id, request.query.filter.tree):
            for info in page:
                document = self._documents.get(dataset_id, info.name)
                if document is None:
                    continue
                unit = StoredUnit(
                    key=None,
                    sig=sigs.get(info.name, DerivedSig()),
                    document=info,
                    opening=document.content[:OPENING],
                )
                yield _candidate(dataset_id, info.name, NO_CHUNK), unit

    def _layer_units(
        self, request: SearchRequest, dataset_id: str
    ) -> Iterator[tuple[Candidate, StoredUnit]]:
        tree = request.query.filter.tree
        headed = looks_at_headings(tree)
        after = None
        while page := self._layers.page(dataset_id, request.query.layer, after=after, limit=_PAGE):
            deadlines.check("the search")
            for layer in page:
                info = (
                    self._documents.get_info(dataset_id, layer.doc_name) if layer.doc_name else None
                )
                chunks: Sequence[DerivedChunk] = ()
                if headed and info is not None:
                    chunks = list(self._chunks.iter_chunks(dataset_id, layer.doc_name))
                if tree is not None and not tree.admits(subject_of(layer.doc_name, info, chunks)):
                    continue
                unit = StoredUnit(key=None, sig=layer.sig, document=info, layer=layer)
                yield _candidate(dataset_id, layer.doc_name, NO_CHUNK), unit
            after = page[-1].doc_name


def _candidate(dataset_id: str, name: str, index: int) -> Candidate:
    return Candidate(dataset_id=dataset_id, doc_name=name, index=index, score=0.0)
