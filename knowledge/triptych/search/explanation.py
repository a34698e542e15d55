"""Explaining why a search finds a document or does not: its rank in each lane, and obstacles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf

import attrs

from triptych.contracts import Store
from triptych.errors import NotFoundError, ValidationError
from triptych.records import (
    NO_CHUNK,
    And,
    Candidate,
    Condition,
    DerivedChunk,
    DerivedSig,
    DocumentInfo,
    Explanation,
    FilterTree,
    Hit,
    LaneRank,
    Layer,
    Obstacle,
    RankedList,
    ResolvedQuery,
)
from triptych.records.documents import document_subject, has_expired
from triptych.records.filters import (
    EXPIRES_AT,
    HEADING,
    NAME,
    UPDATED_AT,
    VERSION,
    conditions_of,
)
from triptych.records.metadata import text_of
from triptych.records.unread import Unread
from triptych.search.code_ranking import CodeRanking, code_places, factors
from triptych.search.engine import SearchEngine
from triptych.search.hydration import subject_of
from triptych.search.listing import TextVerifier
from triptych.search.query import has_words
from triptych.search.request import Found, SearchRequest
from triptych.search.trace import Stage, traced
from triptych.text import get_analyzer, label_of, titles_of
from triptych.vectors.lanes import ModelSet

_LOOKED = 1_000  # how far down each lane is searched for the document
_NOT_ALONE = ("stale", "no_vectors", "min_score")  # what does not keep a document out by itself

Find = Callable[[SearchRequest], Found]


@attrs.frozen(kw_only=True, eq=False)
class Explainer:
    """Searches once more, and looks for one document at every stage.

    ``find`` runs the pipeline.
    """

    _store: Store
    _models: ModelSet
    _engine: SearchEngine
    _find: Find

    def explain(self, request: SearchRequest, doc_name: str) -> Explanation:
        """What became of a document in the search of ``request``.

        Raises:
            NotFoundError: none of the datasets that are searched has it.
            ValidationError: several have it, or the query has no words.
        """
        query = request.query
        if not has_words(query.text):
            raise ValidationError("the query has no words, so that there is no ranking: add words")
        info = self._info(query.dataset_ids, doc_name)
        sig = self._store.chunks.get_doc_sig(info.dataset_id, doc_name)
        with traced() as stages:
            found = self._find(request)
        shown = found.hits[: query.top_k]
        rank = _place(shown, info)
        lanes, best = self._lanes(request, found, info)
        fused = stages[0].ranking
        at = _place(fused, info)
        matched, lacking = self._words(request, info)
        explanation = Explanation(
            dataset_id=info.dataset_id,
            doc_name=doc_name,
            rank=rank,
            score=shown[rank - 1].score if rank else None if at is None else fused[at - 1].score,
            fused_rank=at,
            needed=shown[-1].score if len(shown) == query.top_k else None,
            lanes=lanes,
            matched=matched,
            lacking=lacking,
            as_code=_as_code(stages, query, info),
            stale=None if sig is None else self._models.stale_reason(sig, info),
            warnings=(*request.warnings, *found.warnings, *_unread(info)),
        )
        if rank is not None:
            return explanation
        obstacles = [
            *self._stored(request, info, sig, explanation),
            *_filtered(query.filter.tree, info, self._chunks(info)),
            *self._unmet(request, info, best),
            *self._unfresh(request, info, best),
        ]
        if all(each.kind in _NOT_ALONE for each in obstacles):
            # What comes later judges only what has come so far.
            obstacles += _ranked(query, explanation)
            obstacles += _dropped(stages, info, query.top_k)
        if at is not None and all(each.kind in _NOT_ALONE for each in obstacles):
            message = (
                f"its best passage is number {at} of the ranking, and {query.top_k} hits are shown:"
                " ask for more by top_k"
            )
            obstacles.append(Obstacle(kind="top_k", message=message))
        return attrs.evolve(explanation, obstacles=tuple(obstacles))

    def _info(self, dataset_ids: Sequence[str], doc_name: str) -> DocumentInfo:
        documents = self._store.documents
        found = [
            info for each in dataset_ids if (info := documents.get_info(each, doc_name)) is not None
        ]
        if not found:
            where = ", ".join(map(repr, dataset_ids))
            raise NotFoundError(f"there is no document {doc_name!r} in {where}")
        if len(found) > 1:
            where = ", ".join(repr(info.dataset_id) for info in found)
            raise ValidationError(f"{doc_name!r} is in several datasets: search one of {where}")
        return found[0]

    def _lanes(
        self, request: SearchRequest, found: Found, info: DocumentInfo
    ) -> tuple[tuple[LaneRank, ...], Sequence[Candidate]]:
        """How each lane sees the document, and the candidates that are it."""
        brought: dict[str, Sequence[Candidate]] = {}
        for _, ranked in found.lists or ():
            brought.setdefault(ranked.lane, ranked.candidates)
        own = _named(info)
        deep = self._lists(request, request.query.filter.tree, _LOOKED)
        ranks: dict[str, LaneRank] = {}
        best = []
        # Alone the document has the scores that it has among all.
        for ranked in self._lists(request, own, 1):
            mine = [each for each in ranked.candidates if _is(each, info)]
            known = ranks.get(ranked.lane)
            if known is None or (mine and (known.score is None or mine[0].score > known.score)):
                came = brought.get(ranked.lane, ())
                ranks[ranked.lane] = LaneRank(
                    lane=ranked.lane,
                    score=mine[0].score if mine else None,
                    chunk_index=mine[0].index if mine else NO_CHUNK,
                    brings=len(came),
                    last=came[-1].score if len(came) else None,
                )
            best += mine
        for ranked in deep:
            place, known = _place(ranked.candidates, info), ranks.get(ranked.lane)
            if place is not None and known is not None and place < (known.rank or place + 1):
                ranks[ranked.lane] = attrs.evolve(known, rank=place)
        return tuple(ranks.values()), best

    def _lists(
        self,
        request: SearchRequest,
        tree: FilterTree | None,
        limit: int,
        *,
        fresh: bool = False,
    ) -> Sequence[RankedList]:
        variants = [
            attrs.evolve(
                each,
                limit=limit,
                min_scores={},
                filter=attrs.evolve(
                    each.filter, tree=tree, fresh=each.filter.fresh if fresh else None
                ),
            )
            for each in request.variants
        ]
        ranking = self._engine.retrieve(request.target, variants, limit)
        return [ranked for _, ranked in ranking.lists]

    def _words(
        self, request: SearchRequest, info: DocumentInfo
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of the query that the document holds, and those that it does not."""
        analyzer = get_analyzer(request.language_of(info.dataset_id))
        document = self._store.documents.get(info.dataset_id, info.name)
        label = label_of(info.name, text_of(info.metadata, "title"))
        content = "" if document is None else document.content
        # A text's words are all in one language, a document's may be in several.
        texts = (label, content, *content.split("\n\n"))
        found = {term for each in texts for term in analyzer.analyze(each)}
        variants = analyzer.variants(request.query.text)
        held = {term for term, some in variants.items() if not found.isdisjoint(some)}
        asked = request.terms_in(info.dataset_id)
        words: dict[str, str] = {}
        for typed in request.query.text.split():
            terms = [each for each in analyzer.analyze_query(typed) if each in asked]
            # The first term of a compound is the whole; scripts without spaces have many words.
            for term in terms[:1] if typed.isascii() else terms:
                words.setdefault(term, typed if len(terms) == 1 or typed.isascii() else term)
        matched = dict.fromkeys(word for term, word in words.items() if term in held)
        lacking = dict.fromkeys(word for term, word in words.items() if term not in held)
        return tuple(matched), tuple(lacking)

    def _stored(
        self,
        request: SearchRequest,
        info: DocumentInfo,
        sig: DerivedSig | None,
        so_far: Explanation,
    ) -> Iterator[Obstacle]:
        """What is in the way before anything is ranked."""
        query = request.query
        within = query.filter.within
        if within and not within.admits(document_subject(info)):
            message = f"it expired at {info.system.expires_at}: no search finds it any more"
            yield Obstacle(kind="expired", message=message)
            return
        if request.target == "layer":
            if not any(each.score is not None for each in so_far.lanes) and not self._has(
                info, query.layer
            ):
                message = f"it has no {query.layer}: `triptych layers build` makes it"
                yield Obstacle(kind="not_indexed", message=message)
            return
        if sig is None:
            message = "it is stored, but not indexed yet: `triptych rebuild` or the next sync does"
            yield Obstacle(kind="not_indexed", message=message)
        if no_text := info.system.unread.no_text:
            yield Obstacle(kind="no_text", message=f"its file gave no text: {no_text}")
            return
        if so_far.stale not in (None, "vector"):
            message = f"what is searched of it is stale ({so_far.stale}): `triptych rebuild`"
            yield Obstacle(kind="stale", message=message)
        absent = {each.lane for each in so_far.lanes if each.score is None}
        for lane in self._models.lanes if sig is not None else ():
            waiting = lane.name in absent and self._store.chunks.waiting(
                info.dataset_id, lane.space, [info.name]
            )
            if waiting:
                message = f"its {lane.vectors} are still to come: `triptych embed` makes them"
                yield Obstacle(kind="no_vectors", message=message)

    def _chunks(self, info: DocumentInfo) -> Sequence[DerivedChunk]:
        return list(self._store.chunks.iter_chunks(info.dataset_id, info.name))

    def _has(self, info: DocumentInfo, layer: Layer) -> bool:
        return self._store.layers.get(info.dataset_id, info.name, layer) is not None

    def _unfresh(
        self, request: SearchRequest, info: DocumentInfo, best: Sequence[Candidate]
    ) -> Iterator[Obstacle]:
        """That it is stale, where only fresh hits are asked for."""
        if request.query.filter.fresh is None or not best:
            return
        lists = self._lists(request, _named(info), 1, fresh=True)
        if not any(_is(each, info) for ranked in lists for each in ranked.candidates):
            message = "it is stale, and only fresh hits are asked for: `triptych rebuild`"
            yield Obstacle(kind="not_fresh", message=message)

    def _unmet(
        self, request: SearchRequest, info: DocumentInfo, best: Sequence[Candidate]
    ) -> Iterator[Obstacle]:
        """The phrases, prefixes and excluded words that its passages do not allow."""
        asked = request.conditions
        if asked is None or not best:
            return
        if request.target == "layer":
            meets = bool(TextVerifier(self._store, request.target, asked)(best))
        else:
            meets = any(asked.admits(chunk.content) for chunk in self._chunks(info))
        if not meets:
            must = [f'hold "{each}"' for each in asked.phrases]
            must += [f"hold a word that begins with {each}" for each in asked.prefixes]
            must += [f'not hold "{each}"' for each in asked.excluded]
            must += [f"hold no word that begins with {each}" for each in asked.excluded_prefixes]
            message = f"a hit must {' and '.join(must)}: none of its passages does"
            yield Obstacle(kind="condition", message=message)


def _unread(info: DocumentInfo) -> Iterator[str]:
    """The words of the document's file that no search finds."""
    if omissions := info.system.unread.omissions:
        yield f"of the file of {info.name!r}, {Unread(omissions=omissions)}"


def _is(each: Candidate | Hit, info: DocumentInfo) -> bool:
    return each.doc_name == info.name and each.dataset_id == info.dataset_id


def _place(several: Sequence[Candidate | Hit], info: DocumentInfo) -> int | None:
    """The place of the document's first passage, from 1."""
    return next((at for at, each in enumerate(several, start=1) if _is(each, info)), None)


def _dropped(stages: Sequence[Stage], info: DocumentInfo, top_k: int) -> Iterator[Obstacle]:
    """The steps that leave out the document where it would have been shown."""
    for earlier, stage in pairwise(stages):
        before, after = _place(earlier.ranking, info), _place(stage.ranking[:top_k], info)
        if stage.kind == "step" and after is None and before is not None and before <= top_k:
            at = _place(stage.ranking, info)
            does = "leaves it out" if at is None else f"makes it number {at}"
            yield Obstacle(kind="step", message=f"the step {stage.name} {does}")


def _as_code(stages: Sequence[Stage], query: ResolvedQuery, info: DocumentInfo) -> tuple[str, ...]:
    """What the step for code counted for the document's best passage."""
    for earlier, stage in pairwise(stages):
        best = next((each for each in stage.ranking if _is(each, info)), None)
        if stage.name == CodeRanking.__name__ and isinstance(best, Hit):
            before = [each for each in earlier.ranking if isinstance(each, Hit)]
            code = [before[at] for at in code_places(before)]
            for hit, own in zip(code, factors(query, code), strict=True):
                if _is(hit, info) and hit.chunk_index == best.chunk_index:
                    return tuple(f"{why} (×{factor:.2f})" for why, factor in own.items())
    return ()


def _filtered(
    tree: FilterTree | None, info: DocumentInfo, chunks: Sequence[DerivedChunk]
) -> Iterator[Obstacle]:
    """The conditions of the filter that the document does not pass."""
    if tree is None:
        return
    subject = subject_of(info.name, info, chunks)
    parts = tree.parts if isinstance(tree, And) else (tree,)
    for part in parts:
        if part.admits(subject):
            continue
        if isinstance(part, And):
            yield from _filtered(part, info, chunks)
            continue
        fields = dict.fromkeys(each.field for each in conditions_of(part))
        if set(fields) == {EXPIRES_AT} and has_expired(info):
            continue  # that it has expired is said already
        has = {name: _value(name, info, chunks) for name in fields}
        said = ", ".join(f"{name} is {value!r}" for name, value in has.items())
        message = f"the filter leaves it out: {said}, and that is not what `where` asks for"
        yield Obstacle(kind="filter", message=message)


def _named(info: DocumentInfo) -> Condition:
    return Condition(NAME, "in", (("text", info.name),))


def _value(field: str, info: DocumentInfo, chunks: Sequence[DerivedChunk]) -> object:
    if field == HEADING:
        return sorted({each for chunk in chunks for each in titles_of(chunk.heading_path)})
    own: Mapping[str, object] = {
        NAME: info.name,
        VERSION: info.version,
        UPDATED_AT: info.updated_at,
        EXPIRES_AT: info.system.expires_at,
    }
    return own.get(field, info.metadata.get(field))


def _ranked(query: ResolvedQuery, so_far: Explanation) -> Iterator[Obstacle]:
    """What the lanes' scores and the ranking have against it."""
    for lane in so_far.lanes:
        least = query.min_scores.get(lane.lane)
        if least is not None and lane.score is not None and lane.score < least:
            message = (
                f"its score in the lane {lane.lane} is {lane.score:.4g}, and min_scores asks for "
                f"{least:.4g}"
            )
            yield Obstacle(kind="min_score", message=message)
    seen = [lane for lane in so_far.lanes if lane.score is not None]
    bringing = [
        lane for lane in seen if (lane.score or 0.0) >= query.min_scores.get(lane.lane, -inf)
    ]
    if not seen:
        lacking = ", ".join(so_far.lacking)
        without = f": it has no {lacking}" if so_far.lacking and not so_far.matched else ""
        yield Obstacle(kind="not_found", message=f"no lane finds it{without}")
    elif bringing and so_far.fused_rank is None:
        places = "; ".join(
            f"{lane.lane} brings its best {lane.brings}, where it is "
            + (f"number {lane.rank}" if lane.rank else f"not among the first {_LOOKED:,}")
            for lane in bringing
        )
        yield Obstacle(kind="rank", message=f"other passages are better: {places}")
    elif bringing and query.threshold is not None and (so_far.score or 0) < query.threshold:
        message = f"its score is {so_far.score:.4f}, and the threshold {query.threshold:.4f}"
        yield Obstacle(kind="threshold", message=message)
