"""Postprocessors: steps on the hits of a search, after fusion and before the cut.

Each is a `Postprocessor`. The keyword boost is the first of every search; a rerank and others come
after it, in the order in which the Service was given them.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

from triptych.contracts import HitReader
from triptych.errors import ValidationError
from triptych.records import Hit, ResolvedQuery, check_whole
from triptych.search.query import MAX_TOP_K, over_fetch
from triptych.text import CJKTokenizer
from triptych.text.words import normalize, tokens

STEP_SCORES = frozenset({"filter", "fused", "mmr", "rerank"})
"""The keys of `Hit.scores` that steps add, beside those of the lanes."""


_LEAST = 3  # code points of the shortest word that counts
_LEAST_UNSPACED = 2  # the same in scripts without spaces, where most words are that short
_DEEPER = 4  # times as many hits as are asked for
_DIGITS = 9  # as fused scores are rounded


@attrs.frozen
class KeywordBoost:
    """Hits whose text holds the query's words move up, as far as ``query.keyword_boost`` says.

    See `boost_scores`. It is a rough instrument, off by default: BM25 weighs words better, and
    hybrid search has it. It serves searches by vector only, and queries where a word as it is
    spelt matters most.
    """

    def depth(self, query: ResolvedQuery) -> int:
        """Return how many hits it chooses from: more than asked for where it is on."""
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
    """At most ``most`` hits of each document, the best of them.

    It chooses from 4 times as many hits as are asked for. ``Query.per_document`` does the same
    after all steps, and looks as far down as it takes to fill the result.

    Raises:
        ValidationError: ``most`` is below 1.
    """

    most: int = 1

    def __attrs_post_init__(self) -> None:
        if check_whole(self.most, "most") < 1:
            raise ValidationError(f"most is {self.most}: keep at least 1 hit of each document")

    def depth(self, query: ResolvedQuery) -> int:
        """Return how many hits it chooses from."""
        return min(max(_DEEPER * query.top_k, over_fetch(query.top_k)), MAX_TOP_K)

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits without those that are one too many."""
        return at_most(hits, self.most)


def at_most(hits: Iterable[Hit], each: int | None, limit: int | None = None) -> list[Hit]:
    """Return the first ``each`` hits of every document (None: all), ``limit`` of them at most."""
    counts: Counter[tuple[str, str]] = Counter()
    kept: list[Hit] = []
    for hit in hits:
        if len(kept) == limit:
            break
        place = hit.dataset_id, hit.doc_name
        counts[place] += 1
        if each is None or counts[place] <= each:
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
    folded = normalize(text).casefold()
    return unicodedata.normalize("NFKC", folded.replace("i\u0307", "i"))


def _is_unspaced(word: str) -> bool:
    found = tokens(word)
    return bool(found and found[0][0])
