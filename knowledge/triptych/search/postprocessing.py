"""Postprocessors: steps that process the hits of a search after fusion, before the final limit.

Each is a `Postprocessor`. The keyword boost is always the first, then the ranking of code; others
follow in the order in which they were given to the Service.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext

import attrs

from triptych import deadlines
from triptych._internal.turns import SEARCHES
from triptych.contracts import HitReader, Postprocessor
from triptych.errors import ValidationError
from triptych.records import DerivedChunk, Hit, ResolvedQuery, check_whole
from triptych.records.values import whole
from triptych.search.code_ranking import CodeRanking
from triptych.search.query import MAX_TOP_K, over_fetch
from triptych.search.trace import note
from triptych.text import CJKTokenizer
from triptych.text.escapes import decode
from triptych.text.words import normalize, split_words

STEP_SCORES = frozenset({"code", "filter", "fused", "mmr", "rerank"})
"""The keys that steps add to `Hit.scores`, in addition to the names of lanes."""


_LEAST = 3  # code points of the shortest word that counts
_LEAST_UNSPACED = 2  # the same in scripts without spaces, where most words are that short
_DEEPER = 4  # times as many hits as are asked for
_DIGITS = 9  # as fused scores are rounded


@attrs.frozen
class KeywordBoost:
    """Raises the score of hits with words of the query, by ``query.keyword_boost`` a word.

    See `boost_scores`. It is coarse and off by default: BM25, which hybrid search includes, weighs
    words better. Use it for vector-only searches, and for queries in which exact words matter most.
    """

    def depth(self, query: ResolvedQuery) -> int:
        """Return the number of candidates: more than requested if it is on."""
        return over_fetch(query.top_k) if query.keyword_boost else query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits with their new scores, best first."""
        if not query.keyword_boost:
            return hits
        return boost_scores(hits, query_keywords(query.text), query.keyword_boost)


@attrs.frozen
class PerDocument:
    """Keeps at most the ``most`` best hits of each document.

    There are 4 times as many candidates as requested hits. ``Query.per_document`` does the same
    after all steps, with as many candidates as it needs to fill the result.

    Raises:
        ValidationError: ``most`` is below 1.
    """

    most: int = attrs.field(default=1, validator=whole(least=1))

    def depth(self, query: ResolvedQuery) -> int:
        """Return how many hits it chooses from."""
        return min(max(_DEEPER * query.top_k, over_fetch(query.top_k)), MAX_TOP_K)

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits without the excess ones."""
        return at_most(hits, self.most)


def at_most(hits: Iterable[Hit], each: int | None, limit: int | None = None) -> list[Hit]:
    """Return the first ``each`` hits of every document (None: all), ``limit`` of them at most."""
    if each is None:
        return list(itertools.islice(hits, limit))
    counts: Counter[tuple[str, str]] = Counter()
    kept: list[Hit] = []
    for hit in hits:
        if len(kept) == limit:
            break
        place = hit.dataset_id, hit.doc_name
        counts[place] += 1
        if counts[place] <= each:
            kept.append(hit)
    return kept


def boost_scores(hits: Iterable[Hit], keywords: Sequence[str], weight: float) -> list[Hit]:
    """Return the hits with ``score * (1 + weight * n)`` in place of ``score``, best first.

    ``n`` is how many of ``keywords`` the hit's content holds, in any place and any case. A
    negative score (a cosine can be one) rises by the same share of its size. Ties come in order
    of document name, chunk index, dataset. Source: go-rag's KeywordFilter, where the weight is
    0.1 and words are what white space separates.
    """
    raised = []
    for hit in hits:
        text = _folded(hit.content)
        matches = sum(keyword in text for keyword in keywords)
        score = round(hit.score + abs(hit.score) * weight * matches, _DIGITS)
        raised.append(attrs.evolve(hit, score=score))
    return sorted(raised, key=in_order)


def query_keywords(text: str) -> tuple[str, ...]:
    """Return the words of a query that count for `KeywordBoost`, each once, folded, in order.

    A word has 3 code points or more. Scripts without spaces are cut into words as the analyzer
    cuts them, Chinese into jieba's words and the others into pairs of characters; there 2 are
    enough. Stop words count as well: a short query should not end up without any word.
    """
    return tuple(
        word
        for word in dict.fromkeys(CJKTokenizer().tokenize(text))
        if len(word) >= (_LEAST_UNSPACED if _is_unspaced(word) else _LEAST)
    )


def in_order(hit: Hit) -> tuple[float, str, int, str]:
    """Return what hits are ordered by: the best first, ties by name, chunk and dataset."""
    return -hit.score, hit.doc_name, hit.chunk_index, hit.dataset_id


def _folded(text: str) -> str:
    """``text`` as the tokenizer folds words, but whole."""
    folded = normalize(decode(text)).casefold()
    return unicodedata.normalize("NFKC", folded.replace("i\u0307", "i"))


def _is_unspaced(word: str) -> bool:
    found = split_words(word)
    return bool(found and found[0][0])


BUILT_IN = (KeywordBoost, CodeRanking)
"""The steps that a Service has without being asked; they read nothing but the hits."""


def run_steps(
    query: ResolvedQuery, steps: Iterable[Postprocessor], hits: Sequence[Hit], reader: HitReader
) -> Sequence[Hit]:
    """Return what the steps, one after the other, and ``query.per_document`` make of the hits."""
    for step in steps:
        deadlines.check("the search")
        built_in, before = isinstance(step, BUILT_IN), hits
        with nullcontext() if built_in else SEARCHES.given_up():
            hits = step(query, hits, reader)
        if not built_in or hits is not before:
            note("step", type(step).__name__, hits, f"left out by {type(step).__name__}")
    if query.per_document is not None:
        hits = at_most(hits, query.per_document)
        why = f"its document has {query.per_document} better hits"
        note("per_document", "per document", hits, why)
    return hits


@attrs.frozen
class Neighbours:
    """Extends each hit by the ``before`` previous and the ``after`` next chunks.

    The content of a hit is then its document's text from the start of the first chunk to the end of
    the last: ``source.content[hit.start:hit.end] == hit.content`` still holds. Overlapping hits are
    merged into the best of them, so that there may be fewer hits than requested. A hit whose text
    cannot be read at its version is unchanged.

    Raises:
        ValidationError: a number is below 0, or both are 0.
    """

    before: int = 1
    after: int = 1

    def __attrs_post_init__(self) -> None:
        if check_whole(self.before, "before") + check_whole(self.after, "after") == 0:
            raise ValidationError("before and after are 0: give at least one of them")

    def depth(self, query: ResolvedQuery) -> int:
        """Return the number of hits to extend."""
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the wider hits, in their order."""
        return _widened(hits, reader, lambda hit: reader.neighbours(hit, self.before, self.after))


@attrs.frozen
class Parents:
    """Extends each hit to its section: the chunks under the same headings, including subsections.

    A document without headings is one section. If the section is longer than ``limit`` code points,
    the hit gets the nearest chunks. Otherwise as `Neighbours`.

    Raises:
        ValidationError: ``limit`` is below 1.
    """

    limit: int = attrs.field(default=4000, validator=whole(least=1))

    def depth(self, query: ResolvedQuery) -> int:
        """Return the number of hits to extend."""
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the wider hits, in their order."""
        return _widened(hits, reader, lambda hit: self._around(hit, reader.section(hit)))

    def _around(self, hit: Hit, chunks: Sequence[DerivedChunk]) -> Sequence[DerivedChunk]:
        """As many of ``chunks`` around the hit's own as fit, one after and one before in turn."""
        if not chunks:
            return ()
        own = chunks[hit.chunk_index - chunks[0].index]
        first = last = own.index - chunks[0].index
        while True:
            wider = [(first, last + 1), (first - 1, last)]
            if chunks[last].end - own.end > own.start - chunks[first].start:
                wider.reverse()  # the side that has less so far
            for low, high in wider:
                inside = low >= 0 and high < len(chunks)
                if inside and chunks[high].end - chunks[low].start <= self.limit:
                    first, last = low, high
                    break
            else:
                return chunks[first : last + 1]


def _widened(
    hits: Sequence[Hit],
    reader: HitReader,
    around: Callable[[Hit], Sequence[DerivedChunk]],
) -> list[Hit]:
    """Each hit with the text of the chunks ``around`` it, those that overlap as one."""
    merged: list[Hit] = []
    for hit in hits:
        chunks, content = around(hit), reader.source(hit)
        place = len(merged)
        if chunks and content is not None:
            wide = _spanning(hit, [_start_of(hit), _start_of(chunks[0])], chunks[-1].end, content)
            while (at := _overlapping(merged, wide)) is not None:
                other = merged.pop(at)
                best, rest = (other, wide) if at < place else (wide, other)
                starts = [_start_of(other), _start_of(wide)]
                wide = _spanning(best, starts, rest.end, content)
                place = min(place, at)
            hit = wide
        merged.insert(place, hit)
    return merged


def _start_of(unit: Hit | DerivedChunk) -> tuple[int, int, int]:
    """Where a text starts: in code points, in bytes, and its line."""
    return unit.start, unit.offset, unit.start_line


def _spanning(hit: Hit, starts: Sequence[tuple[int, int, int]], end: int, content: str) -> Hit:
    """``hit`` from the first of ``starts`` to ``end``, or to its own end."""
    start, offset, line = min(starts)
    end = max(end, hit.end)
    wide = attrs.evolve(
        hit, content=content[start:end], start=start, end=end, offset=offset, start_line=line
    )
    window = hit.window_start, hit.window_end
    if window[0] is not None and window[1] is not None and start <= window[0] <= window[1] <= end:
        wide = attrs.evolve(wide, window_start=None, window_end=None, window=None)
    return wide


def _overlapping(hits: Sequence[Hit], wide: Hit) -> int | None:
    """The place of the first of ``hits`` whose text overlaps that of ``wide``."""
    document = wide.dataset_id, wide.doc_name
    for at, hit in enumerate(hits):
        same = (hit.dataset_id, hit.doc_name) == document
        if same and hit.start < wide.end and wide.start < hit.end:
            return at
    return None
