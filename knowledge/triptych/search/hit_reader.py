"""What a search reads beside its lanes: texts that conditions judge, what steps on hits need."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence

import attrs

from triptych import deadlines
from triptych.contracts import Store
from triptych.errors import ModelMismatchError, NotAvailableError
from triptych.records import (
    NO_CHUNK,
    Candidate,
    ChunkPlace,
    DerivedChunk,
    DocumentInfo,
    FilterTree,
    Hit,
    Layer,
    Query,
    SourceDocument,
    Subject,
    Vector,
    parse_filter,
)
from triptych.records.filters import HEADING, conditions_of
from triptych.records.spaces import dense
from triptych.search.engine import Target
from triptych.search.request import SearchRequest
from triptych.search.syntax import merge_where, parse_query


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
    return Subject(
        name=name,
        metadata=info.metadata,
        version=info.version,
        updated_at=info.updated_at,
        expires_at=info.system.expires_at,
        headings={heading.casefold() for heading in headings},
    )


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


MAX_EXPANSIONS = 1000
"""The most words that the prefixes of one query stand for."""

_BATCH = 512  # texts that are held at a time


class TextVerifier:
    """Says which candidates of one search have a text that its conditions admit.

    Each text is read once, however many lanes bring it. An old text is never taken for a new one,
    since a key names one state.
    """

    def __init__(self, store: Store, request: SearchRequest) -> None:
        self._store = store
        self._target: Target = request.target
        self._conditions = request.conditions
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
            # What has vanished stays: the pipeline knows that it did, and asks once more.
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


def expand_prefixes(store: Store, request: SearchRequest) -> SearchRequest:
    """The request with keyword lanes that look for the words that its prefixes stand for.

    The words are those of the datasets' chunks, which are all read. Of more than `MAX_EXPANSIONS`
    the most frequent are taken, and a warning says so.
    """
    conditions = request.conditions
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
