"""A search without words: what passes the filter, in a stated order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triptych import deadlines
from triptych.contracts import Store
from triptych.records import (
    NO_CHUNK,
    OPENING,
    Candidate,
    DerivedChunk,
    DerivedSig,
    DocumentInfo,
    FilterTree,
    Hit,
    StoredUnit,
)
from triptych.search.hit_reader import StoreHitReader
from triptych.search.hydration import Hydrator
from triptych.search.postprocessing import at_most
from triptych.search.request import Found, SearchRequest
from triptych.search.subjects import looks_at_headings, subject_of

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
