"""BM25 of one text, from statistics of a collection: for whoever has texts and no index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log

from attrs import field, frozen


@frozen(kw_only=True, slots=True)
class CorpusStats:
    """What BM25 needs to know of a collection.

    Attributes:
        document_count: number of texts.
        average_length: mean number of terms of a text; 0.0 for an empty collection.
        document_frequencies: for each term, the number of texts that hold it.
    """

    document_count: int
    average_length: float
    document_frequencies: Mapping[str, int] = field(repr=False)

    def idf(self, term: str) -> float:
        """Return Lucene's inverse document frequency, ``ln(1 + (N - n + 0.5) / (n + 0.5))``."""
        held_by = self.document_frequencies.get(term, 0)
        return log(1 + (self.document_count - held_by + 0.5) / (held_by + 0.5))


def corpus_stats(documents: Iterable[Sequence[str]]) -> CorpusStats:
    """Return the statistics of ``documents``, each given as its terms; an iterator is read once."""
    count = length = 0
    frequencies: Counter[str] = Counter()
    for terms in documents:
        count += 1
        length += len(terms)
        frequencies.update(set(terms))
    return CorpusStats(
        document_count=count,
        average_length=length / count if count else 0.0,
        document_frequencies=dict(frequencies),
    )


def score_text(
    query_terms: Sequence[str],
    text_terms: Sequence[str],
    stats: CorpusStats,
    *,
    k1: float = 1.2,
    b: float = 0.75,
) -> float:
    """Return the BM25 score of a text for a query, both given as their terms; 0.0 for no match.

    Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009),
    section 3, as Lucene computes it: with an idf that is never negative, and without the constant
    factor ``k1 + 1``. A term that the query holds twice counts twice.
    """
    if not text_terms or stats.average_length == 0:
        return 0.0
    frequencies = Counter(text_terms)
    saturation = k1 * (1 - b + b * len(text_terms) / stats.average_length)
    return sum(
        (
            stats.idf(term) * frequencies[term] / (frequencies[term] + saturation)
            for term in query_terms
            if term in frequencies
        ),
        0.0,
    )
