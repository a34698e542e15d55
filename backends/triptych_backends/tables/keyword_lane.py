"""BM25 over a table: the server's text search finds candidates, their texts are scored here.

The rarest words of the query are asked for first, until about `ENOUGH` rows may hold one; of those
the `POOL` best by the sum of ``idf * ts_rank`` are read and scored by Lucene's BM25 with the
analyzer of all stores. Words that were left out are asked for after all where they could lift
another row above the last of the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Final

import attrs
from psycopg import sql

from triptych.records import Filter, FilterTree
from triptych.text import Analyzer
from triptych.text.scoring import CorpusStats, score_text
from triptych_backends.tables.catalog import Pair, Table
from triptych_backends.tables.columns import identifier
from triptych_backends.tables.conditions import Parameters, name_condition
from triptych_backends.tables.connections import Reader
from triptych_backends.tables.query_words import QueryWord, matches, query_words, rank
from triptych_backends.tables.rows import searched
from triptych_backends.tables.statistics import Statistics
from triptych_backends.tables.vector_lane import Found

__all__ = ["ENOUGH", "POOL", "KeywordSearch", "Text"]

POOL: Final = 200
"""The least number of texts that are read and scored."""

ENOUGH: Final = 10_000
"""Rows that the rarest words may match before the others are left out."""

Text = tuple[str, int, str]
"""A row's name, the number of its pair of columns, and the text."""


@attrs.frozen
class _Part:
    """A pair of columns of one table, and how many of its texts hold each word."""

    table: Table
    pair: Pair
    texts: int
    frequencies: Sequence[int]


@attrs.frozen
class KeywordSearch:
    """The keyword lane over the pairs of several tables, with pooled statistics."""

    analyzer: Analyzer
    statistics: Statistics

    def find(
        self,
        reader: Reader,
        tables: Sequence[Table],
        text: str,
        limit: int,
        filter_: Filter,
        nearest: Mapping[tuple[int, int], Sequence[str]],
    ) -> list[tuple[Table, Found]]:
        """The best rows for ``text``, best first.

        ``nearest`` has, by the number of the table and of the pair, the rows to look among where
        the table's own text search is not asked.
        """
        words = query_words(self.analyzer, text)
        if not words or limit <= 0:
            return []
        places = [(at, table, pair) for at, table in enumerate(tables) for pair in table.pairs]
        parts = []
        for at, table, pair in places:
            if (at, pair.index) not in nearest:
                frequencies = self.statistics.frequencies(
                    reader, table, pair, words, filter_.within
                )
                texts = self.statistics.texts(reader, table, pair, filter_.within)
                parts.append(_Part(table, pair, texts, frequencies))
        near: list[tuple[Table, Text]] = []
        for at, table, pair in places:
            if names := nearest.get((at, pair.index)):
                near += [(table, each) for each in _named(reader, table, pair, names, filter_.tree)]
        return self._ranked(reader, parts, near, words, text, limit, filter_.tree)

    def _ranked(
        self,
        reader: Reader,
        parts: Sequence[_Part],
        near: Sequence[tuple[Table, Text]],
        words: Sequence[QueryWord],
        text: str,
        limit: int,
        tree: FilterTree | None,
    ) -> list[tuple[Table, Found]]:
        held = [sum(part.frequencies[at] for part in parts) for at in range(len(words))]
        total = sum(part.texts for part in parts)
        weights = [log(1 + (max(total, each) - each + 0.5) / (each + 0.5)) for each in held]
        rarest = sorted(range(len(words)), key=lambda at: held[at])
        asked = _first(rarest, held)
        while True:
            pool = list(near)
            for part in parts:
                pool += [
                    (part.table, each)
                    for each in _best(
                        reader, part, words, weights, asked, max(POOL, 2 * limit), tree
                    )
                ]
            found = self._scored(pool, words, held, total, text)
            left = [at for at in rarest if at not in asked and held[at]]
            bar = found[limit - 1][1][2] if len(found) >= limit else 0.0
            # A row that holds none of the words asked for scores less than the idf of the others.
            if not left or not parts or sum(weights[at] for at in left) <= bar:
                return found[:limit]
            asked = [*asked, left[0]]

    def _scored(
        self,
        pool: Sequence[tuple[Table, Text]],
        words: Sequence[QueryWord],
        held: Sequence[int],
        total: int,
        text: str,
    ) -> list[tuple[Table, Found]]:
        texts: dict[tuple[str, str, int], tuple[Table, Text]] = {}
        for table, each in pool:
            texts.setdefault((table.spec.name, *each[:2]), (table, each))
        terms = [self.analyzer.analyze(each[2]) for _, each in texts.values()]
        wanted = self.analyzer.analyze_query(text)
        stats = _statistics(terms, words, held, total, wanted)
        found = []
        for (table, (name, pair, _)), own in zip(texts.values(), terms, strict=True):
            score = round(score_text(wanted, own, stats), 6)
            if score > 0:
                found.append((table, (name, pair, score)))
        found.sort(key=lambda each: (-each[1][2], each[1][0], each[1][1], each[0].spec.name))
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
    """The collection's statistics: its counts by the server, the length by what was read."""
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


def _best(
    reader: Reader,
    part: _Part,
    words: Sequence[QueryWord],
    weights: Sequence[float],
    asked: Sequence[int],
    limit: int,
    tree: FilterTree | None,
) -> list[Text]:
    """The texts that hold one of the words asked for: the best ``limit`` by all words."""
    table, pair, values = part.table, part.pair, Parameters()
    held = [at for at in asked if part.frequencies[at]]
    if not held:
        return []
    holds = sql.SQL(" OR ").join(matches(words[at], pair.search, pair.text, values) for at in held)
    score = sql.SQL(" + ").join(
        sql.SQL("{} * {}").format(
            values.add(weights[at], "float8"), rank(word, pair.search, pair.text, values)
        )
        for at, word in enumerate(words)
    )
    rows = reader.rows(
        sql.SQL(
            "SELECT {id}::text, {text}::text FROM {table} WHERE ({holds}) AND {text} IS NOT NULL "
            "AND {where} ORDER BY {score} DESC, {id} LIMIT {limit}"
        ).format(
            id=identifier(table.id.name),
            text=identifier(pair.text.name),
            table=table.name,
            holds=holds,
            where=searched(table, tree, values),
            score=score,
            limit=values.add(limit, "int8"),
        ),
        values,
    )
    return [(name, pair.index, text) for name, text in rows]


def _named(
    reader: Reader, table: Table, pair: Pair, names: Sequence[str], tree: FilterTree | None
) -> list[Text]:
    values = Parameters()
    rows = reader.rows(
        sql.SQL("SELECT {}::text, {}::text FROM {} WHERE {} AND {} IS NOT NULL AND {}").format(
            identifier(table.id.name),
            identifier(pair.text.name),
            table.name,
            name_condition(table.id, list(names), values),
            identifier(pair.text.name),
            searched(table, tree, values),
        ),
        values,
    )
    return [(name, pair.index, text) for name, text in rows]
