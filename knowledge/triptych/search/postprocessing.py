"""The keyword boost: hits whose text holds the query's words move up.

A rough instrument, off by default: BM25 weighs words better, and hybrid search has it. It serves
searches by vector alone, and queries where a word as it is spelt, in any place, matters most.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

import attrs

from triptych.records import Hit
from triptych.text import CJKTokenizer
from triptych.text.words import normalize, tokens

__all__ = ["boosted", "query_keywords"]

_LEAST = 3  # code points of the shortest word that counts
_LEAST_UNSPACED = 2  # the same in scripts without spaces, where most words are that short
_DIGITS = 9  # as fused scores are rounded


def query_keywords(text: str) -> tuple[str, ...]:
    """The words of a query that count, each once, folded, in their order.

    A word has 3 code points or more. Scripts without spaces are cut into words as the analyzer
    cuts them, Chinese into jieba's words and the others into pairs of characters; there 2 are
    enough. Stop words count as well: a short query should not end up without any word.
    """
    return tuple(
        word
        for word in dict.fromkeys(CJKTokenizer().tokenize(text))
        if len(word) >= (_LEAST_UNSPACED if _is_unspaced(word) else _LEAST)
    )


def boosted(hits: Iterable[Hit], keywords: Sequence[str], weight: float) -> list[Hit]:
    """The hits with ``score * (1 + weight * n)`` in place of ``score``, best first.

    ``n`` is how many of ``keywords`` the hit's content holds, in any place and any case. A
    negative score (a cosine can be one) rises by the same share of its size. Ties come in order
    of document name, chunk index, dataset. Source: go-rag's KeywordFilter, where the weight is
    0.1 and words are what white space parts.
    """
    raised = []
    for hit in hits:
        text = _folded(hit.content)
        matches = sum(keyword in text for keyword in keywords)
        score = round(hit.score + abs(hit.score) * weight * matches, _DIGITS)
        raised.append(attrs.evolve(hit, score=score))
    return sorted(
        raised, key=lambda hit: (-hit.score, hit.doc_name, hit.chunk_index, hit.dataset_id)
    )


def _folded(text: str) -> str:
    """``text`` as the tokenizer folds words, but whole."""
    folded = normalize(text).casefold()
    return unicodedata.normalize("NFKC", folded.replace("i\u0307", "i"))


def _is_unspaced(word: str) -> bool:
    found = tokens(word)
    return bool(found and found[0][0])
