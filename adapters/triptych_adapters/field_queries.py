"""Queries that name fields alone: what a person asks for is a list of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triptych.errors import ValidationError
from triptych.records import Query
from triptych.search import ParsedQuery, parse_query

_WORD = "word"


def only_fields(text: str) -> Mapping[str, Sequence[str]]:
    """Return the fields of a query without words, such as ``tags:tea``; {} of any other."""
    try:
        parsed = parse_query(Query(text=f"{text} {_WORD}"))
    except ValidationError:
        return {}
    return parsed.where if parsed == ParsedQuery(text=_WORD, where=parsed.where) else {}
