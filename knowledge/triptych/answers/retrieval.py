"""The parameters for choosing the passages of a context."""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping, Sequence, Set
from typing import Final

import attrs

from triptych.contracts import ChunkRepo, DocumentReader
from triptych.records import (
    Candidate,
    DerivedChunk,
    Hit,
    Layer,
    ModelUsage,
    Query,
    Result,
    SourceDocument,
)
from triptych.search.fusion import min_max, reciprocal_ranks
from triptych.search.hydration import asks_for_headings
from triptych.search.pipeline import SearchPipeline
from triptych.search.postprocessing import STEP_SCORES


@attrs.frozen(kw_only=True, slots=True)
class ContextParameters:
    """How passages are weighed against each other; docs/explanation/context.md has the reasons.

    Attributes:
        depth: how many chunks are looked at.
        layer_depth: how many abstracts and overviews.
        rescored: whether chunks are ordered by their lanes' scores again, as parts of long texts
            should be; else the order of the search stands.
        vector: the weight of the vector lane's scores beside the keyword lane's, 0 to 1.
        k: of the reciprocal ranks ``1 / (k + rank)``.
        best_chunk: the weight of a document's rank by its best chunk in its chunks' scores.
        beside: the share of its own score that a chunk gives to those before and after it which
            were not found.
        bridge: the maximum number of tokens between two passages of a document that are joined
            into one, with the text between them.
        repeated: the share of a text's shingles that makes it a repetition when seen before.
        summaries: the share of the budget that abstracts and overviews may take.
        leading: of how many documents, by their best passages, abstracts and overviews may be
            taken.
        least_cut: the least tokens that a cut passage must keep.
    """

    depth: int = 100
    layer_depth: int = 50
    rescored: bool = True
    vector: float = 0.6
    k: float = 10.0
    best_chunk: float = 0.2
    beside: float = 0.3
    bridge: int = 25
    repeated: float = 0.8
    summaries: float = 0.05
    leading: int = 10
    least_cut: int = 24


_LEAD: Final = 1e-6
"""By how much the best hit of the search stands above every other score."""

Place = tuple[str, str]
"""Dataset and document."""


@attrs.frozen(kw_only=True, slots=True)
class ScoredPassage:
    """A hit and how well it answers.

    ``index`` is the chunk that is meant: the hit's own, or the one before or after it, which
    no search found.
    """

    hit: Hit
    index: int
    score: float

    @property
    def place(self) -> Place:
        """Its dataset and document."""
        return self.hit.dataset_id, self.hit.doc_name

    @property
    def order(self) -> tuple[float, str, str, int]:
        """What finds are sorted by: the best first, ties by place."""
        return -self.score, *self.place, self.index


@attrs.frozen(kw_only=True, slots=True)
class Retrieved:
    """Everything that was found, each list best first.

    ``result`` is that of the search for chunks, before layers say which documents lead; None where
    chunks are left out. ``usage`` is what models took to word the query, ``below``
    the chunks that are below the query's threshold.
    """

    passages: Sequence[ScoredPassage] = ()
    abstracts: Sequence[ScoredPassage] = ()
    overviews: Sequence[ScoredPassage] = ()
    result: Result | None = None
    usage: tuple[ModelUsage, ...] = ()
    below: Sequence[Candidate] = ()
    warnings: tuple[str, ...] = ()


def retrieve(
    searches: SearchPipeline, query: Query, layers: Set[Layer], recipe: ContextParameters
) -> Retrieved:
    """Search chunks, and the layers that may stand beside them.

    A passage's score is its own reciprocal rank, or a share of that of the found chunk beside it,
    and a part of that of its document's best chunk. The best hit of the search stays the best.

    Raises:
        TriptychError: as `SearchPipeline.search`.
    """
    depths = {
        Layer.ABSTRACT: recipe.layer_depth,
        Layer.OVERVIEW: recipe.layer_depth,
        Layer.DETAIL: recipe.depth,
    }
    asked = [layer for layer in depths if layer in layers]
    results, below = searches.search_layers(
        [attrs.evolve(query, layer=layer, top_k=depths[layer]) for layer in asked]
    )
    hits: dict[Layer, Sequence[Hit]] = {
        layer: result.hits for layer, result in zip(asked, results, strict=True)
    }
    abstracts, overviews = hits.get(Layer.ABSTRACT, ()), hits.get(Layer.OVERVIEW, ())
    chunks = list(hits.get(Layer.DETAIL, ()))
    best = chunks[0] if chunks else None
    if recipe.rescored:
        chunks = _by_lanes(chunks, recipe.vector)
    places = dict.fromkeys((hit.dataset_id, hit.doc_name) for hit in chunks)
    shares = reciprocal_ranks(len(places), recipe.k, recipe.best_chunk)
    leading = dict(zip(places, shares, strict=True))
    return Retrieved(
        passages=_passages(chunks, leading, recipe, best=best, widens=not asks_for_headings(query)),
        abstracts=_layers(abstracts, leading, recipe.k),
        overviews=_layers(overviews, leading, recipe.k),
        below=below,
        usage=tuple(usage for each in results for usage in each.usage),
        result=dict(zip(asked, results, strict=True)).get(Layer.DETAIL),
        warnings=tuple(dict.fromkeys(each for result in results for each in result.warnings)),
    )


def _by_lanes(hits: Sequence[Hit], vector: float) -> list[Hit]:
    """The hits by the weighted sum of their lanes' scores, each lane's from 0 to 1.

    ``vector`` is the weight of the vector lane, the rest that of the keyword lane; other lanes
    count one half. The order stays where one lane only found the hits, and where a step of the
    search gave them another: a rerank, or MMR. Nearly equal ranks of a fusion hide how far one hit
    stands above the next, which weighs more here than who is at the very top.
    """
    names = {name for hit in hits for name in hit.scores}
    lanes = sorted(names - STEP_SCORES)
    if len(lanes) < 2 or not names.isdisjoint(("mmr", "rerank")):
        return list(hits)
    weights = {"bm25": 1 - vector, "vector": vector}
    scores = [0.0] * len(hits)
    for lane in lanes:
        found = [at for at, hit in enumerate(hits) if lane in hit.scores]
        shares = min_max([hits[at].scores[lane] for at in found], weights.get(lane, 0.5))
        for at, share in zip(found, shares, strict=True):
            scores[at] += share
    order = sorted(range(len(hits)), key=lambda at: (-round(scores[at], 6), at))
    return [hits[at] for at in order]


def _key(hit: Hit) -> tuple[str, str, int]:
    return hit.dataset_id, hit.doc_name, hit.chunk_index


def _passages(
    chunks: Sequence[Hit],
    leading: Mapping[Place, float],
    recipe: ContextParameters,
    *,
    best: Hit | None,
    widens: bool,
) -> tuple[ScoredPassage, ...]:
    """The chunks with the score of each; ``widens`` adds those beside them that were not found.

    What stands beside a chunk lifts none above another that was found: a document of one chunk has
    nothing beside it, and is no worse evidence for that.
    """
    own: dict[tuple[str, str, int], float] = {}
    hits: dict[tuple[str, str, int], Hit] = {}
    for rank, hit in enumerate(chunks, start=1):
        key = _key(hit)
        if key not in own:
            own[key], hits[key] = 1 / (recipe.k + rank), hit
    scores = dict(own)
    for (dataset_id, name, index), score in own.items() if widens and recipe.beside else ():
        for near in (index - 1, index + 1):
            key = dataset_id, name, near
            if near >= 0 and key not in own:
                scores[key] = max(scores.get(key, 0.0), recipe.beside * score)
                hits.setdefault(key, hits[dataset_id, name, index])
    finds = [
        ScoredPassage(hit=hits[key], index=key[2], score=score + leading.get(key[:2], 0.0))
        for key, score in scores.items()
    ]
    if best is not None:
        # The search knows best what is best; the rest of this decides what else is shown.
        first = next(find for find in finds if (*find.place, find.index) == _key(best))
        most = max(find.score for find in finds)
        finds[finds.index(first)] = attrs.evolve(first, score=most + _LEAD)
    return tuple(sorted(finds, key=lambda find: find.order))


def _layers(
    hits: Sequence[Hit], leading: Mapping[Place, float], k: float
) -> tuple[ScoredPassage, ...]:
    """Layers by their documents' scores and their own ranks: a folder has only its own."""
    finds = [
        ScoredPassage(
            hit=hit,
            index=hit.chunk_index,
            score=1 / (k + rank) + leading.get((hit.dataset_id, hit.doc_name), 0.0),
        )
        for rank, hit in enumerate(hits, start=1)
    ]
    return tuple(sorted(finds, key=lambda find: find.order))


_OF_A_CHUNK = (
    *("content", "occurrence", "sig", "start", "end", "offset", "start_line", "heading_path"),
    *("locator", "window_start", "window_end"),
)
_LINE_END: Final = re.compile(r"\r\n?|\n")


@attrs.frozen(eq=False)
class Source:
    """A document, and where its lines end."""

    document: SourceDocument
    _line_ends: Sequence[int]

    def lines(self, start: int, end: int) -> tuple[int, int]:
        """The first and the last line of a span, from 1."""
        text = self.document.content[start:end].rstrip()
        first = bisect.bisect_right(self._line_ends, start)
        last = bisect.bisect_right(self._line_ends, start + len(text))
        return first + 1, last + 1


@attrs.define
class Sources:
    """Documents and their chunks, each read once."""

    _documents: DocumentReader
    _chunks: ChunkRepo
    _read: dict[Place, Source | None] = attrs.field(factory=dict, init=False)
    _sets: dict[Place, Sequence[DerivedChunk]] = attrs.field(factory=dict, init=False)

    def of(self, hit: Hit) -> Source | None:
        """The document that ``hit`` is of, if its text stands there now as the hit has it."""
        place = hit.dataset_id, hit.doc_name
        if place not in self._read:
            document = self._documents.get(*place)
            self._read[place] = None if document is None else _source(document)
        source = self._read[place]
        if source is None or source.document.content[hit.start : hit.end] != hit.content:
            return None
        return source

    def meant(self, find: ScoredPassage) -> Hit | None:
        """The hit that a find means: its own, or the chunk beside it, if there is one."""
        hit = find.hit
        if find.index == hit.chunk_index:
            return hit
        place = find.place
        if place not in self._sets:
            self._sets[place] = tuple(self._chunks.iter_chunks(*place))
        chunks, at = self._sets[place], hit.chunk_index
        # A set that was replaced meanwhile says nothing about this hit.
        if find.index >= len(chunks) or (chunks[at].start, chunks[at].end) != (hit.start, hit.end):
            return None
        chunk = chunks[find.index]
        own = {name: getattr(chunk, name) for name in _OF_A_CHUNK}
        return attrs.evolve(hit, **own, chunk_index=chunk.index, window=None)


def _source(document: SourceDocument) -> Source:
    return Source(document, [found.end() for found in _LINE_END.finditer(document.content)])
