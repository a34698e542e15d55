"""BM25 over texts that are not ours: their database finds candidates, they are scored here.

The rarest words of the query are asked for first, until about `ENOUGH` rows may hold one; of those
the `POOL` best by the idf of the words that they hold are read and scored by Lucene's BM25 with the
analyzer of all stores. Words that were left out are asked for after all where they could lift
another row above the last of the best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log
from typing import Final

import attrs

from triptych.records import FilterTree
from triptych.text import Analyzer, CorpusStats, score_text
from triptych_inplace.source import Counts
from triptych_inplace.table import OpenTable, QueryWord, Text, WantedWord

POOL: Final = 200
"""The least number of texts that are read and scored."""

ENOUGH: Final = 10_000
"""Rows that the rarest words may match before the others are left out."""


@attrs.frozen
class Part:
    """The texts of one pair of a table: how many there are, and how many hold each word."""

    table: OpenTable
    pair: int
    texts: int
    frequencies: Sequence[int]

    @classmethod
    def of(
        cls,
        table: OpenTable,
        pair: int,
        words: Sequence[QueryWord],
        within: FilterTree | None,
        counts: Counts,
    ) -> Part:
        """The part, counted among the rows within a filter, or as it was counted before."""

        def count(word: QueryWord | None) -> int:
            key = "texts", table.spec.name, pair, within, word
            return counts.get(key, lambda: table.count_texts(pair, within, word))

        return cls(table, pair, count(None), [count(word) for word in words])


def find_by_keyword(
    analyzer: Analyzer,
    parts: Sequence[Part],
    near: Sequence[Text],
    words: Sequence[QueryWord],
    text: str,
    tree: FilterTree | None,
    limit: int,
) -> list[tuple[Text, float, Counter[str]]]:
    """The best texts for the query ``text`` that pass ``tree``, best first.

    Each comes with its score and its terms, counted. ``near`` are texts to
    look among where a database's own text search is not asked.
    """
    held = [sum(part.frequencies[at] for part in parts) for at in range(len(words))]
    total = sum(part.texts for part in parts)
    weights = [log(1 + (max(total, each) - each + 0.5) / (each + 0.5)) for each in held]
    rarest = sorted(range(len(words)), key=lambda at: held[at])
    asked = _first(rarest, held)
    while True:
        pool = list(near)
        for part in parts:
            there = [
                WantedWord(words[at], weights[at], part.frequencies[at])
                for at in asked
                if part.frequencies[at]
            ]
            if there:
                pool += part.table.best_texts(part.pair, there, tree, max(POOL, 2 * limit))
        found = _scored(analyzer, pool, words, held, total, text)
        left = [at for at in rarest if at not in asked and held[at]]
        bar = found[limit - 1][1] if len(found) >= limit else 0.0
        # A row that holds none of the words asked for scores less than the idf of the others.
        if not left or not parts or sum(weights[at] for at in left) <= bar:
            return found[:limit]
        asked = [*asked, left[0]]


def _scored(
    analyzer: Analyzer,
    pool: Sequence[Text],
    words: Sequence[QueryWord],
    held: Sequence[int],
    total: int,
    text: str,
) -> list[tuple[Text, float, Counter[str]]]:
    texts = list(dict.fromkeys(pool))
    terms = [analyzer.analyze(each.content) for each in texts]
    wanted = analyzer.analyze_query(text)
    stats = _statistics(terms, words, held, total, wanted)
    found = []
    for each, own in zip(texts, terms, strict=True):
        score = round(score_text(wanted, own, stats), 6)
        if score > 0:
            found.append((each, score, Counter(own)))
    found.sort(key=lambda each: (-each[1], each[0].name, each[0].index, each[0].dataset_id))
    return found


def _first(rarest: Sequence[int], held: Sequence[int]) -> list[int]:
    """The words that are asked for at first."""
    asked: list[int] = []
    rows = 0
    for at in rarest:
        rows += held[at]
        if rows > ENOUGH and any(held[each] for each in asked):
            break
        asked.append(at)
    return asked


def _statistics(
    terms: Sequence[Sequence[str]],
    words: Sequence[QueryWord],
    held: Sequence[int],
    total: int,
    wanted: Sequence[str],
) -> CorpusStats:
    """The collection's statistics: its counts by the database, the length by what was read."""
    frequencies = {term: sum(term in own for own in map(set, terms)) for term in set(wanted)}
    for word, count in zip(words, held, strict=True):
        for term in word.terms:
            frequencies[term] = max(frequencies.get(term, 0), count)
    count = max(total, len(terms), *frequencies.values(), 1)
    length = sum(map(len, terms)) / max(len(terms), 1)
    return CorpusStats(
        document_count=count,
        total_length=max(round(length * count), 1),
        document_frequencies=frequencies,
    )
