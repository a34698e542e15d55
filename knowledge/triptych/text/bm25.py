"""BM25 of texts without an index, and the statistics of a collection that it weighs terms by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log

from attrs import field, frozen

from triptych.errors import ValidationError
from triptych.text.analyzer import Analyzer
from triptych.text.tokenizers import Tokenizer, query_terms_of, text_terms_of


@frozen(kw_only=True, slots=True)
class CorpusStats:
    """What BM25 needs to know of a collection.

    Attributes:
        document_count: number of texts.
        total_length: number of terms of all texts together.
        document_frequencies: for each term, the number of texts that hold it; 1 or more.
    """

    document_count: int
    total_length: int
    document_frequencies: Mapping[str, int] = field(repr=False)

    @property
    def average_length(self) -> float:
        """Mean number of terms of a text; 0.0 for an empty collection."""
        return self.total_length / self.document_count if self.document_count else 0.0

    def with_documents(self, documents: Iterable[Sequence[str]]) -> CorpusStats:
        """Return the statistics of the collection after ``documents`` have joined it.

        They are those of `corpus_stats` over all texts. Each text is given as its terms.
        """
        added = corpus_stats(documents)
        return CorpusStats(
            document_count=self.document_count + added.document_count,
            total_length=self.total_length + added.total_length,
            document_frequencies=dict(
                Counter(self.document_frequencies) + Counter(added.document_frequencies)
            ),
        )

    def without_documents(self, documents: Iterable[Sequence[str]]) -> CorpusStats:
        """Return the statistics of the collection after ``documents`` have left it.

        They are those of `corpus_stats` over the texts that stay. Each text is given as its terms,
        the same as when it joined.

        Raises:
            ValidationError: the collection cannot hold all of ``documents``.
        """
        gone = corpus_stats(documents)
        left = Counter(self.document_frequencies)
        left.subtract(gone.document_frequencies)
        count = self.document_count - gone.document_count
        length = self.total_length - gone.total_length
        if min(count, length, *left.values(), 0) < 0 or (length and not count):
            raise ValidationError(
                "the collection does not hold all of the documents to be left out: give each as "
                "the terms that it joined with"
            )
        return CorpusStats(
            document_count=count, total_length=length, document_frequencies=dict(+left)
        )

    def pooled(self, variants: Mapping[str, Sequence[str]]) -> CorpusStats:
        """Return the statistics with a term in place of its variants (`Analyzer.variants`)."""
        held, known = self.document_frequencies, {}
        for term, some in variants.items():
            count = 0
            for each in some:
                count += held.get(each, 0)
            if count:
                known[term] = min(count, self.document_count)
        return CorpusStats(
            document_count=self.document_count,
            total_length=self.total_length,
            document_frequencies=known,
        )

    def idf(self, term: str) -> float:
        """Return Lucene's inverse document frequency, ``ln(1 + (N - n + 0.5) / (n + 0.5))``."""
        return self.idfs((term,))[0]

    def idfs(self, terms: Iterable[str]) -> list[float]:
        """Return the `idf` of each term."""
        count, found = self.document_count, []
        for term in terms:
            held_by = self.document_frequencies.get(term, 0)
            found.append(log(1 + (count - held_by + 0.5) / (held_by + 0.5)))
        return found


def corpus_stats(
    documents: Iterable[str | Sequence[str]], *, tokenizer: Tokenizer | Analyzer | None = None
) -> CorpusStats:
    """Return the statistics of ``documents``; an iterator is read once.

    Each is given as its terms, or as a text, which ``tokenizer`` cuts.

    Raises:
        TypeError: there is a text and no ``tokenizer``.
    """
    count = length = 0
    frequencies: Counter[str] = Counter()
    for document in documents:
        terms = text_terms_of(document, tokenizer)
        count += 1
        length += len(terms)
        frequencies.update(set(terms))
    return CorpusStats(
        document_count=count,
        total_length=length,
        document_frequencies=dict(frequencies),
    )


def score_text(
    query: str | Sequence[str],
    text: str | Sequence[str],
    stats: CorpusStats | None = None,
    *,
    tokenizer: Tokenizer | Analyzer | None = None,
    k1: float = 1.2,
    b: float = 0.75,
) -> float:
    """Return the BM25 score of a text for a query; 0.0 for no match.

    Each is given as its terms, or as a text, which ``tokenizer`` cuts. An analyzer (see
    `get_analyzer`) gives the index's own terms, and a query's without stop words. ``stats`` are
    of terms of the same kind; None: those of a collection that holds this text only, so that
    all words weigh alike.

    Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009),
    section 3, as Lucene computes it: with an idf that is never negative, and without the constant
    factor ``k1 + 1``. A term that the query holds twice counts twice.

    Raises:
        TypeError: there is a text and no ``tokenizer``.
    """
    query_terms = query_terms_of(query, tokenizer)
    text_terms = text_terms_of(text, tokenizer)
    stats = corpus_stats([text_terms]) if stats is None else stats
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
