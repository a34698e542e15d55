"""What steps on hits read of the store, at the versions that the hits are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triptych.contracts import Store
from triptych.errors import ModelMismatchError, NotAvailableError
from triptych.records import DerivedChunk, FilterTree, Hit, Layer, SourceDocument, Vector
from triptych.records.spaces import dense
from triptych.search.subjects import looks_at_headings, subject_of

_Place = tuple[str, str]


class StoreHitReader:
    """A `HitReader` for one run of the steps; each document and each chunk set is read once.

    Attributes:
        warnings: what the steps reported.
        missed: whether a document was no longer at the version of a hit.
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
        self.missed: bool = False

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
            self.missed = True
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
        path = chunks[hit.chunk_index].heading_path
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
        self.missed = True
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
