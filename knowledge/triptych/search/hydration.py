"""Hydration: reading the texts of candidates to make hits, and data for postprocessors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from triptych._internal.turns import SEARCHES
from triptych.contracts import DocLevelSearcher, HitReader, Store
from triptych.errors import ModelMismatchError, NotAvailableError
from triptych.records import (
    Candidate,
    Candidates,
    ChunkPlace,
    DerivedChunk,
    DerivedLayer,
    DocumentInfo,
    FilterTree,
    Hit,
    Layer,
    Query,
    SourceDocument,
    StaleReason,
    StoredUnit,
    Subject,
    Vector,
    parse_filter,
)
from triptych.records.documents import document_subject
from triptych.records.filters import HEADING, conditions_of
from triptych.records.spaces import dense
from triptych.search.engine import Target
from triptych.search.file_location import changed_since
from triptych.search.request import SearchRequest
from triptych.search.syntax import merge_where, parse_query
from triptych.text import headings_in, titles_of
from triptych.vectors.lanes import ModelSet


@attrs.frozen(kw_only=True)
class Hydrated:
    """The hits of some candidates, in their order.

    ``complete`` is whether each candidate has one.
    ``versions`` holds the version of each document in the snapshot that the hits were read in.
    ``files`` says what has become of the documents' files since, by `changed_since`.
    """

    hits: Sequence[Hit]
    complete: bool
    versions: Mapping[tuple[str, str], int]
    files: Mapping[tuple[str, str], str] = attrs.field(factory=dict)


_AT_ONCE = 100  # hits that are made between two looks at who waits


@attrs.frozen(eq=False)
class Hydrator:
    """Reads what candidates stand for, and says what of it is stale."""

    _store: Store
    _models: ModelSet
    _whole: DocLevelSearcher | None
    _locate: Callable[[], Callable[[DocumentInfo], Path | None]] | None = None

    def hits(self, request: SearchRequest, candidates: Sequence[Candidate], most: int) -> Hydrated:
        """Return the hits of the first ``most`` of ``candidates``, all read in one snapshot.

        Stale hits are left out when the request asks for fresh ones, and what a lane finds that is
        not stored, as one over an index of somebody's own may. A lane that knows no keys names a
        chunk by its place: such a chunk is read by itself.
        """
        known = Candidates.of(candidates)  # rows need not become records
        keys = [row[4] for row in known.rows[:most]]
        found = self._fetch(
            request.target, [each for each in keys if not isinstance(each, ChunkPlace)]
        )
        hits: list[Hit] = []
        within = request.query.filter.within
        versions: dict[tuple[str, str], int] = {}
        files: dict[tuple[str, str], str] = {}
        path_of = None if self._locate is None or not keys else self._locate()
        for at, key in enumerate(keys):
            unit = self._chunk_at(key) if isinstance(key, ChunkPlace) else found.get(key)
            if at % _AT_ONCE == _AT_ONCE - 1:
                SEARCHES.pass_on("the search")
            if unit is None:
                continue
            document = unit.document
            # A lane of others may name what the search must not see.
            if within and document and not within.admits(document_subject(document)):
                continue
            file = None
            if path_of is not None and document and (path := path_of(document)) is not None:
                place = document.dataset_id, document.name
                if place not in files:
                    files[place] = changed_since(path, document)
                file = None if files[place] == "gone" else str(path)
            scores = {} if known.scores is None else known.scores[at]
            hit = self.hit(request, unit, -known.rows[at][0], scores, file)
            if hit is None:
                continue
            hits.append(hit)
            if document is not None:
                versions[hit.dataset_id, hit.doc_name] = document.version
        complete = len(hits) == len(keys)
        return Hydrated(hits=hits, complete=complete, versions=versions, files=files)

    def hit(
        self,
        request: SearchRequest,
        found: StoredUnit,
        score: float,
        scores: Mapping[str, float],
        file: str | None = None,
    ) -> Hit | None:
        """Return the hit of a unit that was read already; None if the request leaves it out."""
        chunk, layer, document = found.chunk, found.layer, found.document
        if layer is not None:
            stale = self._layer_stale(request, found, layer)
            fields = _layer_fields(layer)
        elif document is None or (chunk is None and request.target != "document"):
            return None
        else:
            sig, models, stale = found.sig, self._models, None
            is_same = (
                sig.input_sig == document.input_sig != "" and sig.embed_sig == models.embed_sig
            )
            # Most are fresh.
            if not is_same or (sig.chunker_sig, sig.prompt_sig) != (models.chunker_sig, ""):
                stale = models.stale_reason(sig, document)
            fields = _document_fields(found, document) if chunk is None else {}
        if stale == "vector":
            stale = None  # it is of the newest text: the result has a warning for all of them
        if stale is not None and request.query.filter.fresh is not None:
            return None
        metadata = {} if document is None else document.metadata
        if chunk is None or layer is not None:
            fields |= {"terms": request.terms_in(fields["dataset_id"]), "stale": stale}
            return Hit(**fields, score=score, scores=scores, metadata=metadata, file=file)
        # Each by its name: a search makes many, and a mapping of them takes as long as the hit.
        return Hit(
            dataset_id=chunk.dataset_id,
            doc_name=chunk.doc_name,
            layer=Layer.DETAIL,
            content=chunk.content,
            score=score,
            chunk_index=chunk.index,
            occurrence=chunk.occurrence,
            sig=chunk.sig,
            metadata=metadata,
            scores=scores,
            start=chunk.start,
            end=chunk.end,
            offset=chunk.offset,
            start_line=chunk.start_line,
            heading_path=chunk.heading_path,
            locator=chunk.locator,
            window_start=chunk.window_start,
            window_end=chunk.window_end,
            terms=request.terms.get(chunk.dataset_id) or request.terms_in(chunk.dataset_id),
            stale=stale,
            file=file,
        )

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

    def _fetch(self, target: Target, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        if target == "chunk":
            fetch = self._store.chunks.fetch
        elif target == "layer":
            fetch = self._store.layers.fetch
        elif self._whole is not None:
            fetch = self._whole.fetch_docs
        else:
            raise NotAvailableError(
                "this store cannot search whole documents: use search(), or another backend"
            )
        return fetch(keys) if keys else {}

    def _chunk_at(self, place: ChunkPlace) -> StoredUnit | None:
        for chunk in self._store.chunks.iter_chunks(place.dataset_id, place.doc_name):
            if chunk.index == place.index:
                info = self._store.documents.get_info(place.dataset_id, place.doc_name)
                return StoredUnit(key=place, sig=chunk.sig, document=info, chunk=chunk)
        return None

    def _layer_stale(
        self, request: SearchRequest, found: StoredUnit, layer: DerivedLayer
    ) -> StaleReason | None:
        from triptych.derivation.layers import inputs_of, layer_stale_reason

        inputs = request.inputs.get(layer.dataset_id)
        if inputs is None:
            inputs = inputs_of(self._store.layers, layer.dataset_id)
            request.inputs[layer.dataset_id] = inputs
        return layer_stale_reason(
            found.sig,
            found.document,
            self._models.embed_sig,
            partial(inputs, layer.doc_name),
        )


def _layer_fields(layer: DerivedLayer) -> dict[str, Any]:
    return {
        "dataset_id": layer.dataset_id,
        "doc_name": layer.doc_name,
        "layer": layer.layer,
        "content": layer.content,
        "sig": layer.sig,
        "end": len(layer.content),
    }


def _document_fields(found: StoredUnit, document: DocumentInfo) -> dict[str, Any]:
    return {
        "dataset_id": document.dataset_id,
        "doc_name": document.name,
        "layer": None,
        "content": found.opening,
        "sig": found.sig,
        "end": len(found.opening),
    }


def looks_at_headings(tree: FilterTree | None) -> bool:
    """Whether one chunk of a document may pass ``tree`` and another not."""
    return any(condition.field == HEADING for condition in conditions_of(tree))


def asks_for_headings(query: Query) -> bool:
    """`looks_at_headings` of what ``query`` asks for, its text included."""
    where = query.where
    if query.syntax is True and (fields := parse_query(query).where):
        where = merge_where(where, {key: tuple(values) for key, values in fields.items()})
    return looks_at_headings(parse_filter(where))


def subject_of(name: str, info: DocumentInfo | None, chunks: Sequence[DerivedChunk]) -> Subject:
    """What a filter judges of ``chunks`` of a document; ``info`` None: of a layer above it."""
    if info is None:
        return Subject(name=name)
    headings = itertools.chain.from_iterable(chunk.heading_path for chunk in chunks)
    return document_subject(info, headings_in(headings))


_Place = tuple[str, str]


class StoreHitReader:
    """A `HitReader` for one run of the steps; each document and each chunk set is read once.

    Attributes:
        warnings: what the steps reported.
    """

    def __init__(
        self, store: Store, versions: Mapping[_Place, int], tree: FilterTree | None = None
    ) -> None:
        """``versions`` holds the version of each document when the hits were read.

        What stands beside a hit ends where ``tree``, the search's filter, excludes a chunk.
        """
        self._store = store
        self._versions = versions
        self._tree = tree if tree is not None and looks_at_headings(tree) else None
        self._documents: dict[_Place, SourceDocument | None] = {}
        self._sets: dict[_Place, Sequence[DerivedChunk]] = {}
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        """See `HitReader.warn`."""
        self.warnings.append(message)

    def vectors(self, hits: Sequence[Hit]) -> Sequence[Vector | None]:
        """See `HitReader.vectors`."""
        digests: dict[str, list[str]] = {}
        for hit in hits:
            if hit.layer is Layer.DETAIL:
                digests.setdefault(hit.dataset_id, []).append(hit.sig.input_sig)
        space = self._space(list(digests))
        known = {
            dataset_id: self._store.chunks.known_vectors(
                dataset_id, dense(space), list(dict.fromkeys(several))
            )
            for dataset_id, several in digests.items()
        }
        return [
            known[hit.dataset_id].get(hit.sig.input_sig) if hit.layer is Layer.DETAIL else None
            for hit in hits
        ]

    def windows(self, hits: Sequence[Hit]) -> Sequence[str | None]:
        """See `HitReader.windows`."""
        return [self._window(hit) for hit in hits]

    def source(self, hit: Hit) -> str | None:
        """See `HitReader.source`."""
        # The spans of a stale source lie in a text that is no longer the document's.
        if hit.layer not in (Layer.DETAIL, None) or hit.stale == "source":
            return None
        place = hit.dataset_id, hit.doc_name
        if place not in self._documents:
            self._documents[place] = self._store.documents.get(*place)
        document = self._documents[place]
        if document is None or document.version != self._versions.get(place):
            return None
        return document.content

    def neighbours(self, hit: Hit, before: int, after: int) -> Sequence[DerivedChunk]:
        """See `HitReader.neighbours`."""
        at, chunks = hit.chunk_index, self._chunks(hit)
        if not chunks:
            return ()
        return self._admitted(hit, chunks, max(at - before, 0), min(at + after, len(chunks) - 1))

    def section(self, hit: Hit) -> Sequence[DerivedChunk]:
        """See `HitReader.section`."""
        chunks = self._chunks(hit)
        if not chunks:
            return ()
        path = titles_of(chunks[hit.chunk_index].heading_path)
        first = last = hit.chunk_index
        while first > 0 and chunks[first - 1].heading_path[: len(path)] == path:
            first -= 1
        while last + 1 < len(chunks) and chunks[last + 1].heading_path[: len(path)] == path:
            last += 1
        return self._admitted(hit, chunks, first, last)

    def _window(self, hit: Hit) -> str | None:
        if hit.window is not None or hit.window_start is None:
            return hit.window
        content = self.source(hit)
        return None if content is None else content[hit.window_start : hit.window_end]

    def _admitted(
        self, hit: Hit, chunks: Sequence[DerivedChunk], first: int, last: int
    ) -> Sequence[DerivedChunk]:
        """The chunks from ``first`` to ``last`` around the hit's own that pass the filter."""
        tree, at = self._tree, hit.chunk_index
        if tree is None:
            return chunks[first : last + 1]
        info = self._store.documents.get_info(hit.dataset_id, hit.doc_name)

        def passes(place: int) -> bool:
            return tree.admits(subject_of(hit.doc_name, info, [chunks[place]]))

        low = high = at
        while low > first and passes(low - 1):
            low -= 1
        while high < last and passes(high + 1):
            high += 1
        return chunks[low : high + 1]

    def _chunks(self, hit: Hit) -> Sequence[DerivedChunk]:
        """All chunks of the hit's document, if that of the hit is still among them."""
        if hit.layer is not Layer.DETAIL:
            return ()
        place = hit.dataset_id, hit.doc_name
        if place not in self._sets:
            self._sets[place] = tuple(self._store.chunks.iter_chunks(*place))
        chunks, at = self._sets[place], hit.chunk_index
        if at < len(chunks):
            chunk = chunks[at]
            same = chunk.sig.input_sig == hit.sig.input_sig
            if same and chunk.sig.source_version == hit.sig.source_version:
                return chunks
        return ()

    def _space(self, dataset_ids: Sequence[str]) -> str:
        """The embedding space of all the datasets."""
        spaces: dict[str, str] = {}
        for dataset_id in dataset_ids:
            config = self._store.chunks.config(dataset_id)
            if config is None or not config.embed_sig:
                raise NotAvailableError(
                    f"the dataset {dataset_id!r} has no vectors, which a step of this search "
                    "compares: `triptych embed` adds them; or leave the step out"
                )
            spaces[dataset_id] = config.embed_sig
        several = sorted(set(spaces.values()))
        if len(several) > 1:
            raise ModelMismatchError(
                f"the datasets have vectors of several models ({', '.join(map(repr, several))}), "
                "and a step of this search compares them: search one dataset, or rebuild the "
                "others with the same embedder",
                stored=several[0],
                configured=several[1],
            )
        return several[0] if several else ""
