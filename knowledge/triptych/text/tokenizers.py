"""Tokenizers and keywords for texts without an index.

Search goes through :class:`triptych.text.Analyzer`. The tokenizers give whole words as they are
written, folded, without stems or pairs; they stand on the same normalisation, segmentation and
dictionaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

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
