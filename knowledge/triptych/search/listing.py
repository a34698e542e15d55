"""Searches that read texts: with conditions on the text, or without words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence

import attrs

from triptych import deadlines
from triptych.contracts import Store
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
    StoredUnit,
)
from triptych.search.engine import Target
from triptych.search.hydration import Hydrator, StoreHitReader, looks_at_headings, subject_of
from triptych.search.postprocessing import at_most
from triptych.search.request import Found, SearchRequest
from triptych.search.syntax import TextConditions

MAX_EXPANSIONS = 1000
"""The most words that the prefixes of one query stand for."""

_BATCH = 512  # texts that are held at a time


class TextVerifier:
    """Says which candidates of one search have a text that its conditions admit.

    Each text is read once, however many lanes bring it.
    """

    def __init__(self, store: Store, target: Target, conditions: TextConditions) -> None:
        self._store = store
        self._target = target
        self._conditions = conditions
        self._known: dict[tuple[str, Hashable], bool] = {}

    def __call__(self, candidates: Sequence[Candidate]) -> Collection[int]:
        """Return the places of the candidates that may stay, in order."""
        keys = [_key(each) for each in candidates]
        new = [at for at, key in enumerate(keys) if key not in self._known]
        for start in range(0, len(new), _BATCH):
            deadlines.check("the search")
            self._read([candidates[at] for at in new[start : start + _BATCH]])
        return [at for at, key in enumerate(keys) if self._known[key]]

    def _read(self, candidates: Sequence[Candidate]) -> None:
        by_key = [each for each in candidates if each.key is not None]
        if self._target == "chunk":
            units = self._store.chunks.fetch([each.key for each in by_key])
            texts = {key: unit.chunk.content for key, unit in units.items() if unit.chunk}
        elif self._target == "layer":
            layers = self._store.layers.fetch([each.key for each in by_key])
            texts = {key: unit.layer.content for key, unit in layers.items() if unit.layer}
        else:
            texts = {}
        for each in candidates:
            text = texts.get(each.key)
            if text is None and self._target != "layer" and each.key not in texts:
                text = self._text_at(each)
            # What is not there is left out where the hits are read.
            self._known[_key(each)] = text is None or self._conditions.admits(text)

    def _text_at(self, candidate: Candidate) -> str | None:
        """The text of a whole document, or of a chunk that its lane names by its place."""
        if candidate.index == NO_CHUNK:
            document = self._store.documents.get(candidate.dataset_id, candidate.doc_name)
            return None if document is None else document.content
        if candidate.key is not None and not isinstance(candidate.key, ChunkPlace):
            return None
        for chunk in self._store.chunks.iter_chunks(candidate.dataset_id, candidate.doc_name):
            if chunk.index == candidate.index:
                return chunk.content
        return None


def expand_prefixes(
    store: Store, request: SearchRequest, conditions: TextConditions
) -> SearchRequest:
    """The request with keyword lanes that look for the words that its prefixes stand for.

    The words are those of the datasets' chunks, which are all read. Of more than `MAX_EXPANSIONS`
    the most frequent are taken, and a warning says so.
    """
    counts: Counter[str] = Counter()
    for dataset_id in request.query.dataset_ids:
        for chunk in store.chunks.iter_chunks(dataset_id):
            counts.update(conditions.words_of(chunk.content))
        deadlines.check("the search")
    warnings = request.warnings
    words = sorted(counts, key=lambda word: (-counts[word], word))
    if len(words) > MAX_EXPANSIONS:
        asked = ", ".join(f"{prefix}*" for prefix in conditions.prefixes)
        warnings += (
            f"{asked} stands for {len(words):,} words: the {MAX_EXPANSIONS:,} most frequent are "
            "looked for; a longer prefix stands for fewer",
        )
    added = " ".join(sorted(words[:MAX_EXPANSIONS]))
    if not added:
        return attrs.evolve(request, warnings=warnings)

    def widened(text: str) -> str:
        return f"{text} {added}"

    return attrs.evolve(
        request,
        warnings=warnings,
        query=attrs.evolve(request.query, text=widened(request.query.text)),
        variants=[
            attrs.evolve(each, text=widened(each.text), embed_text=each.embed_text or each.text)
            for each in request.variants
        ],
    )


def _key(candidate: Candidate) -> tuple[str, Hashable]:
    if candidate.key is not None:
        return candidate.dataset_id, candidate.key
    return candidate.dataset_id, (candidate.doc_name, candidate.index)


_PAGE = 64


class FilterListing:
    """Lists chunks, layers or documents that pass a request's filter.

    They come by dataset, in the request's order, then by document name and chunk index. All have
    the score 0.
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
            for unit in units:
                hit = self._hydrator.hit(request, unit, 0.0, {})
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

    def _chunk_units(self, request: SearchRequest, dataset_id: str) -> Iterator[StoredUnit]:
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
                    yield unit

    def _document_units(self, request: SearchRequest, dataset_id: str) -> Iterator[StoredUnit]:
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
                yield unit

    def _layer_units(self, request: SearchRequest, dataset_id: str) -> Iterator[StoredUnit]:
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
                yield unit
            after = page[-1].doc_name
