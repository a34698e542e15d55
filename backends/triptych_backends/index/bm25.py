"""BM25 as Lucene scores it, exact over live units.

`idf = ln(1 + (N - n + 0.5) / (n + 0.5))`, `tf / (tf + k1 * (1 - b + b * length / average))`
(Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009, section 3, with the idf of
Lucene's BM25Similarity, which is never negative). N, n and the average are those of the live
units of all the datasets asked about. Terms are counted as `triptych.text.labels` says.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from triptych._internal.turns import SEARCHES
from triptych.records import TermMatches
from triptych.text import CorpusStats
from triptych.text.labels import LABELLED_K1, TEXT_WEIGHT
from triptych.text.term_ids import FOREIGN
from triptych_backends.index import kernels
from triptych_backends.index.change_log import Scored
from triptych_backends.index.ranking import SLACK, RankedUnits, top_k
from triptych_backends.index.segment import (
    PREFIX,
    IntArray,
    PostingsLists,
    Segment,
    SegmentReader,
    common_places,
)
from triptych_backends.index.selection import Corpus

K1 = LABELLED_K1
B = 0.75
# A term that more than this share of a segment's units have, and more than so many, is looked up
# instead of walked.
FREQUENT = 1 / 8
MANY = 256
_TERMS_AT_ONCE = 128  # between two looks at who waits

List = tuple[float, int, int, int]  # a term's weight, its number, where its postings are


@frozen
class Statistics:
    """A corpus as a query sees it: live units, their total length, units that have each term."""

    count: int
    length: int
    frequencies: Mapping[str, int]

    def held_by(self, variants: Mapping[str, Iterable[str]]) -> dict[str, int]:
        """How many units have each term: any of its variants, and no unit has several."""
        found, known, most = dict[str, int](), self.frequencies, self.count
        for term, some in variants.items():
            count = 0
            for each in some:
                count += known.get(each, 0)
            found[term] = count if count < most else most
        return found

    def corpus_stats(self, variants: Mapping[str, Iterable[str]]) -> CorpusStats:
        """The statistics of some terms, each with all of its variants."""
        found = self.held_by(variants)
        return CorpusStats(
            document_count=self.count,
            total_length=self.length // TEXT_WEIGHT,
            document_frequencies={term: count for term, count in found.items() if count},
        )


@frozen
class Weights:
    """What scores are made of: each term's weight, greatest first, and length normalisation.

    A unit's sum runs over its terms in this order, whatever segment it is in: the same corpus
    gives the same scores bit for bit.
    """

    terms: dict[str, float]
    slope: float
    base: float


def find(views: Sequence[SegmentReader], terms: list[str]) -> list[dict[str, int]]:
    """For each view the numbers of those terms that its segment has."""
    found = []
    plain = [term for term in terms if term[0] != FOREIGN]
    for view in views:
        vocabulary = view.segment.text.vocabulary
        some = plain
        if len(plain) < len(terms) and (there := vocabulary.prefixes_of_languages):
            some = [term for term in terms if term[0] != FOREIGN or term[:PREFIX] in there]
        found.append(vocabulary.find(some))
    return found


def statistics(
    views: Sequence[SegmentReader],
    numbers: Sequence[Mapping[str, int]],
    corpora: Sequence[Corpus | None],
) -> Statistics:
    """The statistics of all live units of `views` together; `numbers` as from `find`.

    `corpora` are, for each view, what counts of it; None: all.
    """
    frequencies: dict[str, int] = {}
    count = length = 0
    for view, found, corpus in zip(views, numbers, corpora, strict=True):
        if corpus is None or corpus.apart:
            count, length = count + view.live_count, length + view.live_length
            held = view.document_frequencies(found.values())
            for term, number in zip(found, held, strict=True):
                frequencies[term] = frequencies.get(term, 0) + number
        if corpus is not None:
            units, sign = _living(view, corpus.units), -1 if corpus.apart else 1
            count += sign * len(units)
            length += sign * int(view.segment.lengths[units].sum(dtype=np.int64))
            held = view.document_frequencies(found.values(), units)
            for term, number in zip(found, held, strict=True):
                frequencies[term] = frequencies.get(term, 0) + sign * number
    return Statistics(count, length, frequencies)


def _living(view: SegmentReader, units: NDArray[np.int32]) -> NDArray[np.int32]:
    """Those of `units`, ascending, that are not dead."""
    if not len(view.dead):
        return units
    kept = np.ones(len(units), np.bool_)
    kept[common_places(units, view.dead)] = False
    return units[kept]


def weigh(
    corpus: Statistics, repeats: Mapping[str, int], variants: Mapping[str, Sequence[str]]
) -> Weights:
    """The weights of a query whose terms are repeated as `repeats` says.

    Each of a term's `variants` has its weight: units hold the term that hold any.
    """
    weights: dict[str, float] = {}
    held_by = corpus.held_by(variants)
    for term, times in repeats.items():
        frequency = held_by[term]
        weight = times * math.log1p((corpus.count - frequency + 0.5) / (frequency + 0.5))
        for each in variants[term]:
            weights[each] = weights.get(each, 0.0) - weight
    slope = K1 * B * corpus.count / corpus.length if corpus.length else 0.0
    ordered = sorted(zip(weights.values(), weights, strict=True))
    return Weights({term: -negative for negative, term in ordered}, slope, K1 * (1 - B))


def top(
    view: SegmentReader,
    numbers: Mapping[str, int],
    weights: Weights,
    limit: int,
    *,
    allowed: NDArray[np.int32] | None = None,
    bar: float = 0.0,
) -> tuple[IntArray, NDArray[np.float64]]:
    """The `limit` best live units of a view and their scores, those below `bar` perhaps left out.

    `allowed` are the only ordinals that count, ascending. The heaviest terms' postings are walked,
    down to the first term that many units have. From there on terms are looked up for the units
    seen so far: as soon as `limit` of these reach more than all terms left can add, no other unit
    can be among the best (Turtle and Flood, Query Evaluation: Strategies and Optimizations, 1995).
    Where that does not come true, what is left is added to every unit.
    """
    segment, text = view.segment, view.segment.text
    if kernels.compiled is not None:
        limit = min(limit, len(segment.keys))
        found, held = np.empty(limit, np.int64), np.empty(limit)
        of_units = segment.lengths, text.offsets, view.counting(allowed)
        arrays = (text.ids, text.counts, *of_units, found, held)
        asked = (weights.terms, numbers, weights.slope, weights.base, bar, segment.shortest)
        count = kernels.run(kernels.compiled.bm25, len(segment.keys), arrays, *asked)
        return found[:count], held[:count]
    norms = segment.norms(weights.slope, weights.base)
    lists = [
        (
            weight,
            numbers[term],
            int(text.offsets[numbers[term]]),
            int(text.offsets[numbers[term] + 1]),
        )
        for term, weight in weights.terms.items()
        if (number := numbers.get(term)) is not None
    ]
    frequent = max(len(segment) * FREQUENT, MANY)
    split = next((at for at, one in enumerate(lists) if one[3] - one[2] > frequent), len(lists))
    rest = lists[split:]
    scores = _walked(text, norms, lists[:split])
    view.leave_out(scores, allowed)
    if rest and split:
        units = np.flatnonzero(scores > 0)
        sums = scores.take(units)
        _look_up(segment, norms, rest, units, sums)
        chosen = top_k(sums, limit)
        if len(chosen) == limit:
            bar = max(bar, float(sums[chosen[-1]]))
        if bar - SLACK >= _weight(rest):
            return units[chosen], sums[chosen]
    for at, (weight, number, start, end) in enumerate(rest):
        if end - start > frequent:
            scores += _parts(norms.copy(), segment.counts_of(number), weight)
        else:
            scores += _walked(text, norms, rest[at : at + 1])
        left = rest[at + 1 :]
        if left and bar - SLACK >= _weight(left):
            units = np.flatnonzero(scores >= bar - SLACK - _weight(left))
            sums = scores.take(units)
            _look_up(segment, norms, left, units, sums)
            chosen = top_k(sums, limit)
            return units[chosen], sums[chosen]
    units = top_k(scores, limit, floor=0.0)
    return units, scores[units]


@frozen(eq=False)
class WordRanking:
    """The best units for a query's words, and what tells which of its terms they hold.

    ``hits`` end with where in ``found`` each row is, and which unit there; ``numbers`` are those of
    the terms' ``variants`` by the identity of a view. ``statistics`` are those of all variants, in
    one language only.
    """

    rows: list[Scored]
    hits: Sequence[tuple[Any, ...]] = ()
    variants: Mapping[str, Sequence[str]] = {}
    found: Sequence[RankedUnits] = ()
    numbers: Mapping[int, Mapping[str, int]] = {}
    statistics: Statistics | None = None

    def stats(self, terms: Collection[str]) -> CorpusStats | None:
        """See `Candidates.stats`."""
        known = self.statistics
        if known is None or not self.variants.keys() >= set(terms):
            return None
        return known.corpus_stats({term: self.variants[term] for term in terms})

    def matches(self) -> TermMatches:
        """How often each row's unit holds the terms: a term's postings are bisected."""
        terms = sorted(self.variants)
        counts = np.zeros((len(self.rows), len(terms)), np.float64)
        rows_of: dict[int, list[int]] = {}
        for row, hit in enumerate(self.hits):
            rows_of.setdefault(hit[-2], []).append(row)
        for part, rows in rows_of.items():
            view = self.found[part].view
            numbers = self.numbers[id(view)]
            columns, words = [], []
            for column, term in enumerate(terms):
                for each in self.variants[term]:
                    if each in numbers:
                        columns.append(column)
                        words.append(numbers[each])
            units = np.array([self.hits[row][-1] for row in rows])
            counts[rows] = held_counts(view.segment.text, words, columns, units, len(terms))
        return TermMatches(terms, np.minimum(counts / TEXT_WEIGHT, 1))


def held_counts(
    text: PostingsLists, words: Sequence[int], columns: Sequence[int], units: IntArray, width: int
) -> NDArray[np.float64]:
    """How often each unit has words: row i and column ``columns[k]`` count ``words[k]`` in unit i.

    Returns an array of shape (units, ``width``).
    """
    units = units.astype(text.ids.dtype)  # else each list would be converted
    found = np.zeros((len(units), width), np.float64)
    if kernels.compiled is not None:
        numbers, places = np.array(words, np.int64), np.array(columns, np.int64)
        arrays = (text.ids, text.counts, text.offsets, numbers, places, units, found)
        kernels.run(kernels.compiled.holds, len(words) * len(units), arrays, width)
        return found
    for at, (word, column) in enumerate(zip(words, columns, strict=True)):
        if at % _TERMS_AT_ONCE == 0:
            SEARCHES.pass_on("the search")
        held = slice(text.offsets[word], text.offsets[word + 1])
        ids, counts = text.ids[held], text.counts[held]
        places = ids.searchsorted(units)
        is_held = ids.take(places, mode="clip") == units
        found[:, column] += is_held * counts.take(places, mode="clip")
    return found


def _weight(lists: Sequence[List]) -> float:
    return sum(one[0] for one in lists)


def _look_up(
    segment: Segment,
    norms: NDArray[np.float64],
    lists: Sequence[List],
    units: IntArray,
    sums: NDArray[np.float64],
) -> None:
    """Add what the units have of the lists to their sums."""
    mine = norms.take(units)
    for weight, number, _, _ in lists:
        sums += _parts(mine.copy(), segment.counts_of(number).take(units), weight)


def _walked(
    text: PostingsLists, norms: NDArray[np.float64], lists: Sequence[List]
) -> NDArray[np.float64]:
    """The sums of the parts of all postings of the lists, shape (units,)."""
    if not lists:
        return np.zeros(len(norms))
    # Both uses below would convert them, each for itself.
    ids = _joined([text.ids[start:end] for _, _, start, end in lists]).astype(np.intp)
    counts = _joined([text.counts[start:end] for _, _, start, end in lists])
    weights = np.repeat([one[0] for one in lists], [end - start for _, _, start, end in lists])
    # Sums in the order of the lists.
    parts = _parts(norms.take(ids), counts, weights)
    sums: NDArray[np.float64] = np.asarray(np.bincount(ids, parts, len(norms)), np.float64)
    return sums


def _joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _parts(
    norms: NDArray[np.float64],
    counts: NDArray[np.unsignedinteger[Any]],
    weight: float | NDArray[np.float64],
) -> NDArray[np.float64]:
    """Each posting's part of a score; `norms` is overwritten."""
    norms += counts
    np.divide(counts, norms, out=norms)
    norms *= weight
    return norms


def pooled(variants: Iterable[Mapping[str, Sequence[str]]]) -> Mapping[str, Sequence[str]]:
    """Each term's variants in all languages."""
    found: dict[str, Sequence[str]] = {}
    for each in variants:
        both = {term: {*found[term], *each[term]} for term in found.keys() & each.keys()}
        found |= {**each, **{term: sorted(some) for term, some in both.items()}}
    return found
