"""The words of a query, as the server's text search is asked for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from psycopg import sql

from triptych.text import Analyzer, cjk
from triptych.text.words import normalize, tokens
from triptych_backends.tables.catalog import TextSearch
from triptych_backends.tables.columns import Column, identifier
from triptych_backends.tables.conditions import Parameters

__all__ = ["QueryWord", "matches", "query_words", "rank"]

_MOST: Final = 32
"""Words of a query that are looked for; the terms of all are scored."""


@attrs.frozen
class QueryWord:
    """A word of a query and the analyzer's terms of it.

    Languages without spaces are looked for as substrings: no text search of the server cuts them.
    """

    text: str
    terms: tuple[str, ...]
    unspaced: bool = False


def query_words(analyzer: Analyzer, text: str) -> Sequence[QueryWord]:
    """The words of ``text`` that it searches by, each once."""
    wanted = set(analyzer.analyze_query(text))
    found: dict[str, QueryWord] = {}
    for run, token in tokens(normalize(text)):
        if run:
            for term in cjk.query_terms(run):
                if term in wanted:
                    found.setdefault(term, QueryWord(term, (term,), unspaced=True))
            continue
        terms = tuple(term for term in analyzer.analyze(token) if term in wanted)
        if terms:
            found.setdefault(token.lower(), QueryWord(token, terms))
    return list(found.values())[:_MOST]


def _asked(word: QueryWord, search: TextSearch, values: Parameters) -> sql.Composable:
    return sql.SQL("plainto_tsquery({}::regconfig, {})").format(
        sql.Literal(search.config), values.add(word.text, "text")
    )


def matches(
    word: QueryWord, search: TextSearch, text: Column, values: Parameters
) -> sql.Composable:
    """The condition that a text holds the word."""
    if word.unspaced:
        escaped = word.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return sql.SQL("{}::text LIKE {}").format(
            identifier(text.name), values.add(f"%{escaped}%", "text")
        )
    return sql.SQL("{} @@ {}").format(search.document, _asked(word, search, values))


def rank(word: QueryWord, search: TextSearch, text: Column, values: Parameters) -> sql.Composable:
    """How much a text is about the word, from 0 to about 0.1: `ts_rank`, by its length."""
    if word.unspaced:
        return sql.SQL("CASE WHEN {} THEN 0.06 ELSE 0 END").format(
            matches(word, search, text, values)
        )
    return sql.SQL("ts_rank({}, {}, 1)").format(search.document, _asked(word, search, values))
