"""BM25 over the server's postings, exact: the lists of a query's rarest terms are read first.

As in `triptych_backends.index.bm25`, whose weights these are: once as many units as are wanted
reach more than the terms left out can add, no other unit can be among the best (Turtle and Flood,
Query Evaluation: Strategies and Optimizations, 1995).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.records import TermMatches
from triptych.text import TEXT_WEIGHT, CorpusStats, get_analyzer
from triptych_backends.index import SLACK, Scored, Statistics, Weights, pooled, weigh
from triptych_postgres.lanes import NAMES, Asked, best, scored
from triptych_postgres.postings import (
    Postings,
    buckets,
    decode,
    decode_shared,
    is_scattered,
)
from triptych_postgres.search_tables import FIELD_CODES, stored_term

# The extension intarray has operators of these names, too.
_OVERLAPS, _HOLDS = "OPERATOR(pg_catalog.&&)", "OPERATOR(pg_catalog.@>)"

AT_ONCE = 20_000
"""Postings that take no longer to read than to ask whether all of them are needed."""

FEW_OWNERS = 1_000
"""Where so few owners may pass, their units are looked at rather than postings."""

_WORTH = 30
"""Postings that are read in the time in which one unit is looked at."""

_PART = 16  # one score in so many says which others need not be sorted
_SPREAD = 32  # keys up to so many times as far apart as there are of them are counted in an array
_LAST = 2**63 - 1

_NOTHING = 1e-12  # more than what rounding leaves of a unit that was removed
_PRESET = (
    # Tables without statistics yet would be read from end to end.
    "set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), "
    "set_config('enable_mergejoin', 'off', true)"
)


@attrs.frozen
class _Term:
    """A term of one dataset, its weight in the query, and what is known of its postings.

    ``units`` hold it; ``most`` is the most that it adds to a score. ``shared`` are those of its
    postings that are read already.
    """

    id: int
    dataset: int
    weight: float
    units: int
    most: float
    shared: Postings


class _KnownTerm(NamedTuple):
    """A term that units of a dataset hold: in how many, how often at most, and how short at least;
    its postings are in so many rows, and in ``shared``, which was read from ``size`` bytes."""

    dataset: int
    word: str
    id: int
    units: int
    peak: int
    shortest: int
    rows: int
    shared: Postings
    size: int


def find_by_words(
    asked: Asked, query: str, *, wanted: Callable[[], None]
) -> tuple[list[Scored], TermMatches]:
    """The units with the best BM25 scores, and how often they hold the query's terms.

    Statistics are pooled over the datasets. ``wanted`` is called where postings are in so many
    rows that to join them would help.
    """
    languages = {each.id: each.language or "english" for each in asked.datasets}
    analyzers = {language: get_analyzer(language) for language in set(languages.values())}
    variants = {
        language: {
            term: tuple(map(stored_term, each)) for term, each in analyzer.variants(query).items()
        }
        for language, analyzer in analyzers.items()
    }
    every = pooled(variants.values())
    whole = sorted(every)
    words = sorted(set().union(*every.values()))
    if asked.limit <= 0 or not words:
        return [], TermMatches.of(whole, [])
    collection = _collection(asked)
    known = _known_terms(asked, words)
    if any(is_scattered(each.rows, each.units, each.size) for each in known):
        wanted()
    statistics = _statistics(asked, known, collection)
    weights = {
        language: weigh(statistics, Counter(analyzer.analyze_query(query)), variants[language])
        for language, analyzer in analyzers.items()
    }
    norms = next(iter(weights.values()))
    terms: list[_Term] = []
    for each in known:
        weight = weights[languages[each.dataset]].terms.get(each.word)
        if weight is not None:
            norm = norms.slope * each.shortest + norms.base
            most = weight * (1 - norm / (each.peak + norm))
            terms.append(_Term(each.id, each.dataset, weight, each.units, most, each.shared))
    terms.sort(key=lambda term: (-term.weight, term.id))
    if not terms:
        return [], TermMatches.of(whole, [])
    ranking = _Ranking(asked, terms, norms)
    few = min(FEW_OWNERS, sum(term.units for term in terms))
    rows = ranking.of_owners() if asked.predicates.greatest <= few else ranking.of_postings()
    found = best(scored(rows, asked.names), asked.limit)
    columns = {
        each.id: [at for at, term in enumerate(whole) if each.word in every[term]] for each in known
    }
    return found, TermMatches(whole, _counts(asked, found, columns, len(whole)))


def _counts(
    asked: Asked, found: Sequence[Scored], columns: Mapping[int, Sequence[int]], width: int
) -> NDArray[np.float64]:
    """How often each unit holds the terms with these columns, up to 1, shape (units, ``width``)."""
    counts = np.zeros((len(found), width))
    places = {row.key: at for at, row in enumerate(found)}
    rows = asked.session.text(
        "SELECT u.key, t, u.counts[array_position(u.terms, t)] FROM search_unit u, "
        "unnest(%s::int[]) t WHERE u.key = ANY(%s::bigint[]) AND t = ANY(u.terms)",
        (list(columns), list(places)),
        prepare=False,
    )
    for key, term, count in rows:
        counts[places[key], columns[term]] += count / TEXT_WEIGHT
    return np.minimum(counts, 1)


class _Ranking:
    """Scores units for one query, until no other can be among the best ``limit``."""

    def __init__(self, asked: Asked, terms: Sequence[_Term], weights: Weights) -> None:
        self._asked = asked
        self._terms = terms
        self._weights = weights
        self._read = 0  # the first so many terms' postings are read
        self._keys: NDArray[np.int64] = np.zeros(0, np.int64)
        self._scores: NDArray[np.float64] = np.zeros(0)
        self._looked_at: NDArray[np.int64] = np.zeros(0, np.int64)
        self._rows: list[tuple[Any, ...]] = []

    def of_owners(self) -> list[tuple[Any, ...]]:
        """All units of the owners that pass which hold a term."""
        return self._look_at(
            self._terms,
            f"u.field = %(field)s AND u.dataset_id = ANY(%(datasets)s::bigint[]) AND "
            f"u.terms {_OVERLAPS} %(terms)s::int[]",
            {
                "field": FIELD_CODES[self._asked.unit],
                "datasets": list({term.dataset for term in self._terms}),
                "terms": [term.id for term in self._terms],
            },
        )

    def of_postings(self) -> list[tuple[Any, ...]]:
        """A superset of the best units.

        The lists of the rarest terms are read, then as many more as are needed; the units that can
        still be among the best are looked at for the rest of the terms.
        """
        terms, limit = self._terms, self._asked.limit
        seen = count = 0
        while count < len(terms) and (seen < limit or seen + terms[count].units <= AT_ONCE):
            seen += terms[count].units
            count += 1
        self._read_lists(count)
        while True:
            rest = self._rest()
            hoped = self._hoped()
            unread = terms[self._read : self._read + 1]
            if unread and rest > hoped - SLACK:
                self._read_lists(1)
                continue
            places = np.flatnonzero(self._scores >= hoped - SLACK - rest)
            if not len(places):
                return self._rows
            if unread and len(places) * _WORTH > unread[0].units:
                self._read_lists(1)
                continue
            order = np.argsort(-self._scores[places], kind="stable")
            self._look_at_best(places[order][: 2 * limit + 32])

    def _rest(self) -> float:
        """The most that the terms whose lists are not read can add to a score."""
        sums: dict[int, float] = {}
        for term in self._terms[self._read :]:
            sums[term.dataset] = sums.get(term.dataset, 0.0) + term.most
        return max(sums.values(), default=0.0)

    def _hoped(self) -> float:
        """The score to be among the best, if all units that were found pass."""
        scores = np.concatenate([self._scores, [row[4] for row in self._rows]])
        limit = self._asked.limit
        if len(scores) < limit:
            return 0.0
        # What is below the last wanted one of a part is below that of all.
        part = scores[::_PART] if len(scores) >= limit * _PART else scores
        scores = scores[scores >= _nth(part, limit)]
        return _nth(scores, limit)

    def _read_lists(self, count: int) -> None:
        """Add what the next ``count`` terms' postings give."""
        read = self._terms[self._read : self._read + count]
        weights = {term.id: term.weight for term in read}
        self._read += count
        rows = self._asked.session.text(
            "SELECT term, block FROM search_posting WHERE term = ANY(%s::int[])",
            (list(weights),),
            prepare=False,
        )
        lists = [decode([row[0] for row in rows], [row[1] for row in rows])]
        lists += [term.shared for term in read]
        terms = np.concatenate([each.terms for each in lists])
        records = np.concatenate([each.records for each in lists])
        ids = np.array(sorted(weights), np.int32)
        by_id = np.array([weights[pk] for pk in ids.tolist()])
        counts = records["count"].astype(np.float64)
        norms = self._weights.slope * records["length"] + self._weights.base
        scores = by_id[np.searchsorted(ids, terms)] * np.sign(counts)
        scores *= 1 - norms / (np.abs(counts) + norms)
        new = ~np.isin(records["key"], self._looked_at)
        keys = np.concatenate([self._keys, records["key"][new]])
        added = np.concatenate([self._scores, scores[new]])
        self._keys, self._scores = _sums(keys, added)
        self._keep(self._scores > _NOTHING)

    def _look_at_best(self, places: NDArray[np.int64]) -> None:
        keys = self._keys[places]
        partial = dict(zip(keys.tolist(), self._scores[places].tolist(), strict=True))
        rows = self._look_at(
            self._terms[self._read :], "u.key = ANY(%(keys)s::bigint[])", {"keys": keys.tolist()}
        )
        self._rows += [(*row[:4], row[4] + partial[row[0]], row[5]) for row in rows]
        self._looked_at = np.concatenate([self._looked_at, keys])
        left = np.ones(len(self._keys), np.bool_)
        left[places] = False
        self._keep(left)

    def _keep(self, which: NDArray[np.bool_]) -> None:
        self._keys, self._scores = self._keys[which], self._scores[which]

    def _look_at(
        self, terms: Sequence[_Term], where: str, parameters: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        """Key, owner, position, dataset, score for ``terms``, and name of the units that pass."""
        bound: dict[str, Any] = {
            **self._asked.predicates.parameters,
            **parameters,
            "slope": self._weights.slope,
            "base": self._weights.base,
        }
        norm = "(%(slope)s::float8 * u.length + %(base)s::float8)"
        parts = ["0::float8"]
        for at, term in enumerate(terms):
            bound[f"t{at}"], bound[f"w{at}"] = term.id, term.weight
            # As weight * times / (times + norm), with one look for the term.
            times = f"u.counts[array_position(u.terms, %(t{at})s::int)]"
            parts.append(f"coalesce(%(w{at})s::float8 * (1 - {norm} / ({times} + {norm})), 0)")
        selection = self._asked.predicates.selection
        return self._asked.session.text(
            f"SELECT u.key, u.owner, u.position, u.dataset_id, {' + '.join(parts)}, n.name "
            f"FROM search_unit u JOIN ({NAMES[self._asked.unit]}) n ON n.id = u.owner "
            f"WHERE {where} {f'AND {selection}' if selection else ''}",
            bound,
            prepare=False,
        )


def _nth(scores: NDArray[np.float64], place: int) -> float:
    """The ``place``-th greatest of as many or more."""
    return float(np.partition(scores, len(scores) - place)[len(scores) - place])


def _sums(
    keys: NDArray[np.int64], scores: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The distinct ``keys`` in their order, and the sum of the scores of each, added in turn."""
    first = keys.min(initial=_LAST)
    if keys.max(initial=0) - first < _SPREAD * len(keys):
        places = keys - first  # without sorting them
        found = np.flatnonzero(np.bincount(places))
        return found + first, np.bincount(places, scores)[found].astype(np.float64)
    found, places = np.unique(keys, return_inverse=True)
    return found, np.bincount(places, scores, len(found)).astype(np.float64)


_KNOWN_TERMS = (
    "SELECT t.dataset_id, t.term, t.id, p.units, p.peak, p.shortest, p.rows, "
    f"(SELECT string_agg(r.block, '') FROM search_recent r WHERE r.dataset_id = t.dataset_id "
    f"AND r.field = t.field AND r.bucket IN ({buckets('t.id')})) FROM search_term t, LATERAL "
    "(SELECT coalesce(sum(units), 0) AS units, coalesce(max(peak), 0) AS peak, "
    "coalesce(min(shortest), 2147483647) AS shortest, count(*)::int AS rows "
    "FROM search_posting WHERE term = t.id) p WHERE t.dataset_id = ANY(%s::bigint[]) "
    "AND t.field = %s AND t.term = ANY(%s::text[]) ORDER BY t.dataset_id, t.term"
)


def _known_terms(asked: Asked, words: Sequence[str]) -> list[_KnownTerm]:
    """Those of ``words`` that any unit holds, for each dataset."""
    rows = asked.session.text(
        _KNOWN_TERMS, (asked.ids, FIELD_CODES[asked.unit], list(words)), prepare=False
    )
    known = []
    for dataset, word, pk, units, peak, shortest, count, block in rows:
        found = decode_shared([block or b""])
        mine = found.terms == pk
        shared = Postings(found.terms[mine], found.records[mine])
        counts, lengths = shared.records["count"], shared.records["length"]
        units += int(np.sign(counts).sum())
        if units > 0:
            peak = max(peak, counts.max(initial=0))
            shortest = min(shortest, lengths[counts > 0].min(initial=shortest))
            size = len(block or b"")
            known.append(_KnownTerm(dataset, word, pk, units, peak, shortest, count, shared, size))
    return known


def _collection(asked: Asked) -> tuple[int, int]:
    """How many units there are, and their length in all; and all that follows uses indexes."""
    ((units, length, *_),) = asked.session.text(
        f"SELECT coalesce(sum(units), 0), coalesce(sum(length), 0), {_PRESET} FROM search_stat "
        "WHERE dataset_id = ANY(%s::bigint[]) AND field = %s",
        (asked.ids, FIELD_CODES[asked.unit]),
    )
    return units, length


def _statistics(
    asked: Asked, known: Sequence[_KnownTerm], collection: tuple[int, int]
) -> Statistics:
    corpus, outside = asked.predicates.corpus, asked.predicates.outside
    if corpus and not outside:
        return _counted(asked, known, corpus)
    frequencies: Counter[str] = Counter()
    for each in known:
        frequencies[each.word] += each.units
    count, length = collection
    if outside:
        apart = _counted(asked, known, outside)
        count, length = count - apart.count, length - apart.length
        frequencies.subtract(apart.frequencies)
    return Statistics(count, length, frequencies)


def _counted(asked: Asked, known: Sequence[_KnownTerm], which: str) -> Statistics:
    """Those of a part of the collection."""
    parameters: dict[str, Any] = {
        **asked.predicates.parameters,
        "datasets": asked.ids,
        "field": FIELD_CODES[asked.unit],
    }
    counts = ["count(*)", "coalesce(sum(u.length), 0)"]
    for at, each in enumerate(known):
        parameters[f"t{at}"] = [each.id]
        counts.append(f"count(*) FILTER (WHERE u.terms {_HOLDS} %(t{at})s::int[])")
    (row,) = asked.session.text(
        f"SELECT {', '.join(counts)} FROM search_unit u WHERE u.dataset_id = "
        f"ANY(%(datasets)s::bigint[]) AND u.field = %(field)s AND {which}",
        parameters,
        prepare=False,
    )
    frequencies: Counter[str] = Counter()
    for each, units in zip(known, row[2:], strict=True):
        frequencies[each.word] += units
    return Statistics(row[0], row[1], frequencies)


def read_statistics(asked: Asked, words: Sequence[str]) -> CorpusStats:
    """See `DocLevelSearcher.corpus_stats`."""
    stored = {stored_term(word): word for word in words}
    collection = _collection(asked)
    found = _statistics(asked, _known_terms(asked, list(stored)), collection)
    return CorpusStats(
        document_count=found.count,
        total_length=found.length // TEXT_WEIGHT,
        document_frequencies={
            stored[word]: held for word, held in found.frequencies.items() if held
        },
    )
