"""Terms of the scripts that put no spaces between words: Chinese, Japanese, Korean, Thai, …

A run is indexed as all its pairs of neighbouring characters, and every Han character or Hangul
syllable by itself, so that a query of one character finds each text that holds it. A run of Han
characters also gives the words of more than two characters that jieba sees in it; its words of
two are pairs already. A query asks for pairs and jieba's words, and for single characters only
where jieba sees a word: a text is never matched twice over the same characters by accident of
length.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Final

import regex

_HAN: Final = regex.compile(r"\p{Han}")
_KANA: Final = regex.compile(r"[\p{Hiragana}\p{Katakana}\u30FC]")
_SYLLABLE: Final = regex.compile(r"[\p{Han}\p{Hangul}]")

# Particles, pronouns, prepositions and copulas that are a word by themselves.
CHINESE_FUNCTION_CHARACTERS: Final = frozenset(
    "的了是在和与及或也都就而之于为以将被把从对向等着过吗呢吧啊呀这那其此该我你他她它们个有不没"
)


@cache
def chinese_segmenter() -> Callable[[str], list[str]]:
    """Return the function that cuts Chinese text into words, loading its dictionary once.

    jieba's dictionary segmentation without its hidden Markov model: words that are guessed rather
    than known cost precision. rjieba and jieba give the same words; rjieba is faster.

    Raises:
        ModuleNotFoundError: neither rjieba nor jieba is installed.
    """
    try:
        rjieba_cut = importlib.import_module("rjieba").cut
    except ModuleNotFoundError:
        return _pure_python_segmenter()

    def cut(run: str) -> list[str]:
        words: list[str] = rjieba_cut(run, False)
        return words

    return cut


def _pure_python_segmenter() -> Callable[[str], list[str]]:
    try:
        jieba_cut = importlib.import_module("jieba").lcut
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Chinese text needs a word segmenter: install rjieba, or jieba where rjieba has no "
            "wheel"
        ) from error
    # Loading the dictionary is not news for whoever reads the standard error stream.
    logging.getLogger("jieba").setLevel(logging.WARNING)

    def cut(run: str) -> list[str]:
        words: list[str] = jieba_cut(run, HMM=False)
        return words

    return cut


def chinese_words(run: str) -> list[str]:
    """Return jieba's words of ``run``; none when it holds kana (it is Japanese) or no Han."""
    if _KANA.search(run) or not _HAN.search(run):
        return []
    return chinese_segmenter()(run)


def index_terms(run: str) -> list[str]:
    """Return the terms under which ``run`` is found: characters, pairs, longer Chinese words."""
    if len(run) == 1:
        return [run]
    terms: list[str] = _SYLLABLE.findall(run)
    terms += pairs(run)
    terms += [word for word in chinese_words(run) if len(word) > 2]
    return terms


def query_terms(run: str) -> list[str]:
    """Return the terms by which a query that holds ``run`` searches; all are index terms."""
    if len(run) == 1:
        return [run]
    terms = pairs(run)
    for word in chinese_words(run):
        # The segmenter gives back what is not Han one by one.
        if len(word) > 2 or (len(word) == 1 and _HAN.match(word)):
            terms.append(word)
    return terms


def pairs(run: str) -> list[str]:
    """Return every two neighbouring characters of ``run``."""
    return [first + second for first, second in pairwise(run)]
