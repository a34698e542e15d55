"""The keyword lane in Qdrant: BM25 over the analyzer's tokens, repeated words of a query too."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from attrs import evolve
from qdrant_client import models
from qdrant_client.models import FieldCondition, Filter, MatchAny

from triptych.text import get_analyzer
from triptych_backends.index.bm25 import K1, B
from triptych_backends.qdrant.place import Place
from triptych_backends.qdrant.points import LENGTH, Collections, Found


def best_by_words(
    collections: Collections,
    place: Place,
    text: str,
    must: Sequence[models.Condition],
    *,
    corpus: Sequence[models.Condition],
    limit: int,
) -> Sequence[Found]:
    """The ``limit`` best points for ``text``, best first, with Lucene's scores.

    Qdrant counts a word of the query once. A query that repeats words is asked in parts: all of
    its words, those that come twice or more, and so on; a point's score is the sum over them. No
    point that no part brought up can be better than the sum of the parts' last scores; they
    reach deeper until that is enough (Fagin's threshold algorithm).
    """
    counts = Counter(get_analyzer(place.layout.language).analyze_query(text))
    if not counts:
        return []
    levels = [
        " ".join(sorted(term for term, times in counts.items() if times >= level))
        for level in range(1, max(counts.values()) + 1)
    ]
    bounds = Filter(must=list(corpus))
    k, b = K1, B
    if place.has_empty:
        ratio = _length_ratio(collections.counts(place.collection, LENGTH, bounds))
        k, b = K1 * (1 - B + B * ratio), B * ratio / (1 - B + B * ratio)

    def ask(words: str, conditions: Sequence[models.Condition], depth: int) -> Sequence[Found]:
        found = collections.best_by_words(
            place.collection,
            words,
            Filter(must=list(conditions)),
            corpus=bounds,
            limit=depth,
            k=k,
            b=b,
        )
        # Qdrant's scores are times k1 + 1, which Lucene's are not.
        return [evolve(each, score=each.score / (k + 1)) for each in found]

    if len(levels) == 1:
        return ask(levels[0], must, limit)
    depth = limit
    while True:
        lists = [ask(words, must, depth) for words in levels]
        found = {each.payload["key"]: each for some in lists for each in some}
        if not found:
            return []
        # Of each point that any part brought up, its score in all of them.
        chosen = [*must, FieldCondition(key="key", match=MatchAny(any=list(found)))]
        sums: defaultdict[int, float] = defaultdict(float)
        for words in levels:
            for each in ask(words, chosen, len(found)):
                sums[each.payload["key"]] += each.score
        best = _in_order(found, sums)
        unseen = sum(some[-1].score for some in lists if len(some) == depth)
        if unseen == 0 or (len(best) >= limit and best[limit - 1].score > unseen):
            return best[:limit]
        depth *= 4


def _length_ratio(lengths: Mapping[int, int]) -> float:
    """How many times the average length is Qdrant's, which counts a token where there is none.

    With it in k1 and b a text's length over the average comes out as without those tokens.
    """
    total = sum(length * count for length, count in lengths.items())
    return (total + lengths.get(0, 0)) / total if total else 1.0


def _in_order(found: Mapping[int, Found], sums: Mapping[int, float]) -> list[Found]:
    scored = [evolve(each, score=sums[key]) for key, each in found.items()]
    return sorted(scored, key=lambda each: -each.score)
