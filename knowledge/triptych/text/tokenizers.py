"""Tokenizers, keywords and BM25 for texts without an index.

Search goes through :class:`triptych.text.Analyzer`. The tokenizers give whole words as they are
written, folded, without stems or pairs; they stand on the same normalisation, segmentation and
dictionaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Final, Protocol

from attrs import field, frozen

from triptych.errors import ValidationError
from triptych.text.analyzer import Analyzer
from triptych.text.english import ENGLISH_STOP_WORDS
from triptych.text.escapes import decode
from triptych.text.patterns import late
from triptych.text.words import (
    CHINESE_FUNCTION_CHARACTERS,
    chinese_words,
    fold,
    normalize,
    pairs,
    split_words,
)

CJK_SHARE: Final = 0.2
"""Share of Chinese, Japanese and Korean among a text's letters from which it is read as such."""

_CJK: Final = late(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\u30FC]")
_LETTER: Final = late(r"\p{L}")


class Tokenizer(Protocol):
    """Cuts text into tokens."""

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of ``text`` in order, duplicates kept."""
        ...


class SimpleTokenizer:
    """Words between white space and punctuation. A run of an unspaced script is one token."""

    def tokenize(self, text: str) -> list[str]:
        """Return the case-folded words of ``text`` in order, duplicates kept."""
        return [fold(run or token) for run, token in split_words(normalize(decode(text)))]


class CJKTokenizer:
    """As :class:`SimpleTokenizer`, with Chinese cut into words and other runs into pairs."""

    def tokenize(self, text: str) -> list[str]:
        """Return the words of ``text`` in order, duplicates kept.

        Chinese runs give jieba's words; Japanese, Korean and the other scripts without spaces
        give pairs of characters.
        """
        found: list[str] = []
        for run, token in split_words(normalize(decode(text))):
            found += _cut(run) if run else [fold(token)]
        return found


def _cut(run: str) -> list[str]:
    return chinese_words(run) or pairs(run) or [run]


def detect_tokenizer(text: str) -> Tokenizer:
    """Return the tokenizer for ``text``: CJK from a fifth of its letters on, else simple."""
    letters = len(_LETTER.findall(text))
    is_cjk = letters > 0 and len(_CJK.findall(text)) >= CJK_SHARE * letters
    return CJKTokenizer() if is_cjk else SimpleTokenizer()


def text_terms_of(
    text: str | Sequence[str], tokenizer: Tokenizer | Analyzer | None
) -> Sequence[str]:
    """Return the terms of a text; terms are returned as they are.

    Raises:
        TypeError: ``text`` is a string, and ``tokenizer`` is None.
    """
    if not isinstance(text, str):
        return text
    if tokenizer is None:
        raise TypeError("a text needs a tokenizer: pass tokenizer=, or the text's terms")
    return tokenizer.analyze(text) if isinstance(tokenizer, Analyzer) else tokenizer.tokenize(text)


def query_terms_of(
    query: str | Sequence[str], tokenizer: Tokenizer | Analyzer | None
) -> Sequence[str]:
    """Return the terms by which a query searches; terms are returned as they are.

    Raises:
        TypeError: ``query`` is a string, and ``tokenizer`` is None.
    """
    if isinstance(query, str) and isinstance(tokenizer, Analyzer):
        return tokenizer.analyze_query(query)
    return text_terms_of(query, tokenizer)


def extract_keywords(
    text: str, limit: int = 10, *, tokenizer: Tokenizer | Analyzer | None = None
) -> list[str]:
    """Return the up to ``limit`` most frequent words of ``text``, the most frequent first.

    Stop words, numbers and single characters are left out. Words that are equally frequent come
    in the order in which the text first has them.

    ``tokenizer`` cuts the text; None takes that of `detect_tokenizer`. An analyzer (see
    `get_analyzer`) gives terms of the index in place of words: stems, by which a query for the
    text would search.

    Raises:
        ValueError: ``limit`` is negative.
    """
    if limit < 0:
        raise ValueError(f"limit must not be negative, not {limit}")
    stop_words = ENGLISH_STOP_WORDS | CHINESE_FUNCTION_CHARACTERS
    counts = Counter(
        word
        for word in query_terms_of(text, tokenizer or detect_tokenizer(text))
        if len(word) > 1 and not word.isnumeric() and word.replace("’", "'") not in stop_words
    )
    return [word for word, _ in counts.most_common(limit)]


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
