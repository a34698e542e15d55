"""Postprocessors: steps that process the hits of a search after fusion, before the final limit.

Each is a `Postprocessor`. The keyword boost is always the first, then the ranking of code; others
follow in the order in which they were given to the Service.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

from triptych import deadlines
from triptych._internal.turns import SEARCHES
from triptych.contracts import HitReader, Postprocessor
from triptych.records import Hit, ResolvedQuery
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
        if isinstance(step, BUILT_IN):
            before, hits = hits, step(query, hits, reader)
            if hits is before:
                continue
        else:
            deadlines.check("the search")
            with SEARCHES.given_up():
                hits = step(query, hits, reader)
        note("step", type(step).__name__, hits, f"left out by {type(step).__name__}")
    if query.per_document is not None:
        hits = at_most(hits, query.per_document)
        why = f"its document has {query.per_document} better hits"
        note("per_document", "per document", hits, why)
    return hits
