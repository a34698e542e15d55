"""The words of a query, as the database's text search is asked for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from triptych.text import Analyzer
from triptych.text.words import normalize, query_terms, tokens

_MOST: Final = 32
"""Words of a query that are looked for; the terms of all are scored."""


@attrs.frozen
class QueryWord:
    """A word of a query and the analyzer's terms of it.

    Languages without spaces are looked for as substrings: few text searches cut them.
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
            for term in query_terms(run):
                if term in wanted:
                    found.setdefault(term, QueryWord(term, (term,), unspaced=True))
            continue
        terms = tuple(term for term in analyzer.analyze(token) if term in wanted)
        if terms:
            found.setdefault(token.lower(), QueryWord(token, terms))
    return list(found.values())[:_MOST]
