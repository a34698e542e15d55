"""The exact ten best of every query, so that no system wins by being wrong.

BM25 is Lucene's (`triptych.text.score_text` gives the formula) over a system's own terms, with its
own k1 and b; vectors are compared by inner product. A hit counts as right when its exact score is
not below the tenth best: of equal scores any may be returned.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.corpus import Given, Vectors, key_of

LIMIT = 10
TOLERANCE = 1e-5

Hits = Sequence[tuple[str, int]]
Analyze = Callable[[str], list[str]]
_Posting = tuple[NDArray[np.int64], NDArray[np.float64]]


def chunks_of(corpus: Path) -> Iterator[tuple[str, str, str]]:
    """Ids, texts and labels of a prepared corpus."""
    with (corpus / "corpus.jsonl").open("rb") as lines:
        for line in lines:
            row = json.loads(line)
            for at, (start, end, label, _) in enumerate(row["chunks"]):
                yield f"{row['name']}#{at}", row["content"][start:end], label


def wrong_texts(corpus: Path, lanes: Mapping[str, Sequence[Hits]]) -> int:
    """How many hits brought another text than their chunk's."""
    found = {hit for hits in lanes.values() for query in hits for hit, _ in query}
    texts = {
        chunk: zlib.crc32(text.encode()) for chunk, text, _ in chunks_of(corpus) if chunk in found
    }
    return sum(
        texts.get(hit) != digest
        for hits in lanes.values()
        for query in hits
        for hit, digest in query
    )


def share(scores: Sequence[float], best: Sequence[float]) -> float:
    """The share of the exact best (positive, descending) that hits of these scores make up."""
    if not best:
        return 1.0
    floor = best[-1] - TOLERANCE * abs(best[-1])
    return min(len(best), sum(score >= floor for score in scores)) / len(best)


class ExactBM25:
    """Brute force over the terms of some queries; one pass over the corpus.

    With `labels` a word of a chunk's label counts for half a word of its text.
    """

    def __init__(
        self,
        corpus: Path,
        queries: Sequence[str],
        terms: Analyze,
        asked: Analyze,
        labels: bool = False,
    ) -> None:
        self._queries = [asked(query) for query in queries]
        wanted = {term for query in self._queries for term in query}
        ids: dict[str, tuple[list[int], list[float]]] = {term: ([], []) for term in wanted}
        self._ordinals: dict[str, int] = {}
        lengths: list[float] = []
        for ordinal, (chunk, text, label) in enumerate(chunks_of(corpus)):
            self._ordinals[chunk] = ordinal
            counts: dict[str, float] = {**Counter(terms(text))}
            for term in terms(label) if labels else ():
                counts[term] = counts.get(term, 0) + 0.5
            lengths.append(sum(counts.values()))
            for term in wanted & counts.keys():
                ids[term][0].append(ordinal)
                ids[term][1].append(counts[term])
        self._lengths = np.array(lengths, np.float64)
        self._postings: dict[str, _Posting] = {
            term: (np.array(at, np.int64), np.array(counts, np.float64))
            for term, (at, counts) in ids.items()
        }

    def scores(self, number: int, k1: float, b: float) -> NDArray[np.float64]:
        """The score of every chunk for a query."""
        total = len(self._lengths)
        norms = k1 * (1 - b + b * self._lengths / self._lengths.mean())
        made = np.zeros(total)
        for term in self._queries[number]:
            at, counts = self._postings[term]
            idf = log(1 + (total - len(at) + 0.5) / (len(at) + 0.5))
            made[at] += idf * counts / (counts + norms[at])
        return made

    def agreement(self, found: Sequence[Hits], bm25: tuple[float, float]) -> float:
        shares = []
        for number, hits in enumerate(found):
            scores = self.scores(number, *bm25)
            count = min(LIMIT, len(scores))
            best = np.sort(np.partition(scores, -count)[-count:])[::-1]
            ranked = [float(scores[self._ordinals[hit]]) for hit in unique(hits)]
            shares.append(share(ranked, best[best > 0].tolist()))
        return round(float(np.mean(shares)), 4)


class ExactVectors:
    """Every chunk's inner product with some queries' vectors; the ten best of each."""

    def __init__(self, corpus: Path, queries: Vectors, given: Given) -> None:
        self._queries = queries
        self._given = given
        self._best = np.full((len(queries), 0), -np.inf, np.float32)
        chunks = chunks_of(corpus)
        while batch := [key_of(text) for _, text, _ in islice(chunks, 50_000)]:
            joined = np.hstack([self._best, queries @ given.rows(batch).T])
            count = min(LIMIT, joined.shape[1])
            self._best = np.partition(joined, -count, axis=1)[:, -count:]
        self._best = -np.sort(-self._best, axis=1)

    def agreement(self, found: Sequence[Hits]) -> float:
        shares = []
        for query, best, hits in zip(self._queries, self._best, found, strict=False):
            rows = self._given.rows(list(unique(hits).values())) if hits else self._best[:0, :0]
            scores = (rows @ query).tolist() if hits else []
            shares.append(share(scores, best.tolist()))
        return round(float(np.mean(shares)), 4)


def unique(hits: Hits) -> dict[str, int]:
    """Hits by id: one returned twice counts once."""
    return dict(hits)
