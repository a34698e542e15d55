"""BM25 in the server, exact: the units that hold the rarest terms of a query are scored first.

As in `triptych_backends.index.bm25`, whose weights these are: once as many units as are wanted
reach more than the terms left out can add, no other unit can be among the best (Turtle and Flood,
Query Evaluation: Strategies and Optimizations, 1995).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from triptych.text import CorpusStats
from triptych_backends.index import Field, Scored, TextAnalyzer
from triptych_backends.index.bm25 import Statistics, Weights, count_terms, weigh
from triptych_backends.index.top_k import SLACK
from triptych_backends.postgres.predicates import Predicates
from triptych_backends.postgres.ranking import NAMES, best, scored
from triptych_backends.postgres.search_tables import FIELD_CODES, stored_term
from triptych_backends.postgres.session import PostgresSession
from triptych_backends.sql.transaction import Dataset

__all__ = ["find_by_words", "read_statistics"]

# The extension intarray has operators of these names, too, which our index does not serve.
_OVERLAPS, _HOLDS = "OPERATOR(pg_catalog.&&)", "OPERATOR(pg_catalog.@>)"


@attrs.frozen
class _Term:
    """A term of one dataset: its id, its weight, and how many of the dataset's units hold it."""

    id: int
    weight: float
    units: int


def find_by_words(
    session: PostgresSession,
    unit: Field,
    datasets: Sequence[Dataset],
    query: str,
    limit: int,
    predicates: Predicates,
    analyzers: Callable[[str], TextAnalyzer],
    pooled: CorpusStats | None = None,
) -> list[Scored]:
    """The units with the best BM25 scores.

    Statistics are ``pooled``, or else those of ``datasets`` together.
    """
    languages = {each.id: each.language or "english" for each in datasets}
    repeats = {
        language: count_terms(list(map(stored_term, analyzers(language).analyze_query(query))))
        for language in set(languages.values())
    }
    words = sorted({term for counted in repeats.values() for term in counted})
    if limit <= 0 or not words:
        return []
    known = _known_terms(session, unit, datasets, words)
    if pooled is None:
        statistics = _statistics(session, unit, datasets, known, predicates)
    else:
        statistics = Statistics(
            pooled.document_count,
            pooled.total_length,
            {stored_term(word): held for word, held in pooled.document_frequencies.items()},
        )
    weights = {language: weigh(statistics, counted) for language, counted in repeats.items()}
    terms: list[_Term] = []
    for dataset, word, pk, units in known:
        weight = weights[languages[dataset]].terms.get(word)
        if weight is not None:
            terms.append(_Term(pk, weight, units))
    terms.sort(key=lambda term: (-term.weight, term.id))
    if not terms:
        return []
    names = {each.id: each.name for each in datasets}
    return _ranked(session, unit, names, terms, next(iter(weights.values())), limit, predicates)


def _ranked(
    session: PostgresSession,
    unit: Field,
    names: Mapping[int, str],
    terms: Sequence[_Term],
    weights: Weights,
    limit: int,
    predicates: Predicates,
) -> list[Scored]:
    # A table without statistics yet would be read from end to end. The statement is never prepared:
    # a plan that was kept would not look at this setting.
    session.text("SELECT set_config('enable_seqscan', 'off', true)")
    count, seen = 0, 0
    while count < len(terms) and seen < limit:
        seen += terms[count].units
        count += 1
    while True:
        rows = _score(session, unit, names, terms, count, weights, limit, predicates)
        rest = sum(term.weight for term in terms[count:])
        bar = sorted((row[4] for row in rows), reverse=True)[limit - 1] if len(rows) >= limit else 0
        if not rest or bar - SLACK >= rest:
            return best(scored(rows, names), limit)
        while count < len(terms) and sum(term.weight for term in terms[count:]) > bar - SLACK:
            count += 1


def _score(
    session: PostgresSession,
    unit: Field,
    names: Mapping[int, str],
    terms: Sequence[_Term],
    count: int,
    weights: Weights,
    limit: int,
    predicates: Predicates,
) -> list[tuple[Any, ...]]:
    """The best of the units that hold one of the first ``count`` terms, ties included.

    A term's id is of one dataset and kind of unit. So nothing else bounds the statement, and only
    the index over the terms serves it.
    """
    parameters: dict[str, Any] = {
        **predicates.parameters,
        "first": [term.id for term in terms[:count]],
        "slope": weights.slope,
        "base": weights.base,
        "limit": limit,
        "slack": SLACK,
    }
    parts = []
    norm = "(%(slope)s::float8 * u.length + %(base)s::float8)"
    for at, term in enumerate(terms):
        parameters[f"t{at}"], parameters[f"w{at}"] = term.id, term.weight
        # As weight * times / (times + norm), with one look for the term.
        times = f"u.counts[array_position(u.terms, %(t{at})s::int)]"
        parts.append(f"coalesce(%(w{at})s::float8 * (1 - {norm} / ({times} + {norm})), 0)")
    where = f"AND {predicates.selection}" if predicates.selection else ""
    return session.text(
        "WITH found AS MATERIALIZED (SELECT u.key, u.owner, u.position, u.dataset_id, "
        f"{' + '.join(parts)} AS score FROM search_unit u "
        f"WHERE u.terms {_OVERLAPS} %(first)s::int[] {where}), "
        "best AS (SELECT score FROM found ORDER BY score DESC LIMIT %(limit)s) "
        f"SELECT f.key, f.owner, f.position, f.dataset_id, f.score, n.name FROM found f "
        f"JOIN ({NAMES[unit]}) n ON n.id = f.owner "
        "WHERE f.score >= (SELECT min(score) FROM best) - %(slack)s",
        parameters,
        prepare=False,
    )


def _known_terms(
    session: PostgresSession, unit: Field, datasets: Sequence[Dataset], words: Sequence[str]
) -> list[tuple[Any, ...]]:
    """Dataset, word, id and how many units hold it, of those words that any unit holds."""
    return session.text(
        "SELECT dataset_id, term, id, units FROM search_term WHERE units > 0 AND "
        "dataset_id = ANY(%s::bigint[]) AND field = %s AND term = ANY(%s::text[]) "
        "ORDER BY dataset_id, term",
        ([each.id for each in datasets], FIELD_CODES[unit], list(words)),
    )


def _statistics(
    session: PostgresSession,
    unit: Field,
    datasets: Sequence[Dataset],
    known: Sequence[tuple[Any, ...]],
    predicates: Predicates,
) -> Statistics:
    if predicates.corpus:
        return _bounded_statistics(session, unit, datasets, known, predicates)
    rows = session.text(
        "SELECT coalesce(sum(units), 0), coalesce(sum(length), 0) FROM search_stat "
        "WHERE dataset_id = ANY(%s::bigint[]) AND field = %s",
        ([each.id for each in datasets], FIELD_CODES[unit]),
    )
    frequencies: Counter[str] = Counter()
    for _, word, _, units in known:
        frequencies[word] += units
    return Statistics(rows[0][0], rows[0][1], frequencies)


def _bounded_statistics(
    session: PostgresSession,
    unit: Field,
    datasets: Sequence[Dataset],
    known: Sequence[tuple[Any, ...]],
    predicates: Predicates,
) -> Statistics:
    """Those of a part of the collection: counted."""
    parameters: dict[str, Any] = {
        **predicates.parameters,
        "datasets": [each.id for each in datasets],
        "field": FIELD_CODES[unit],
    }
    counts = ["count(*)", "coalesce(sum(u.length), 0)"]
    for at, (_, _, pk, _) in enumerate(known):
        parameters[f"t{at}"] = [pk]
        counts.append(f"count(*) FILTER (WHERE u.terms {_HOLDS} %(t{at})s::int[])")
    (row,) = session.text(
        f"SELECT {', '.join(counts)} FROM search_unit u WHERE u.dataset_id = "
        f"ANY(%(datasets)s::bigint[]) AND u.field = %(field)s AND {predicates.corpus}",
        parameters,
        prepare=False,
    )
    frequencies: Counter[str] = Counter()
    for (_, word, _, _), units in zip(known, row[2:], strict=True):
        frequencies[word] += units
    return Statistics(row[0], row[1], frequencies)


def read_statistics(
    session: PostgresSession,
    unit: Field,
    datasets: Sequence[Dataset],
    words: Sequence[str],
    predicates: Predicates,
) -> CorpusStats:
    """See `CorpusStatsReader.corpus_stats`."""
    stored = {stored_term(word): word for word in words}
    known = _known_terms(session, unit, datasets, list(stored))
    found = _statistics(session, unit, datasets, known, predicates)
    return CorpusStats(
        document_count=found.count,
        total_length=found.length,
        document_frequencies={
            stored[word]: held for word, held in found.frequencies.items() if held
        },
    )
