"""Ways to fuse the keyword and the vector lane, compared on collections in BEIR layout.

    python bench/build_collections.py FOLDER --data DIR
    python bench/fusion.py FOLDER/*.zip --cache CACHE [--level chunk] [--embedder local]

Puts each collection into a store in ``CACHE``, asks both lanes of the public API for their best
200, keeps their scores there, and fuses them here, in NumPy, in every way of `WAYS`. Prints
nDCG@10 for each collection, their mean, and how far the worst collection is below the better of
its two lanes; then, for ``--of``, the difference to other ways with 95% intervals by bootstrap
and p by a paired randomisation test, and which way a choice on all other collections would have
made for each collection. The fusions of the library are in `triptych.search.fusion`: `WAYS` has
more, and a test holds ``rrf``, ``min-max`` and ``z-score`` to the library's order.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

import triptych
from triptych import Query
from triptych_evaluation import bootstrap, randomisation_test, read_beir
from triptych_evaluation.metrics import ndcg_at

LANES = ("bm25", "vector")
DEPTH = 200
K = 10
Shares = Callable[[str, NDArray[np.float64]], NDArray[np.float64]]
"""From a lane's name and its scores, best first, to what each adds to its candidate's total."""


@attrs.frozen
class Asked:
    """A query's grades by document, and what each lane found: units and their scores."""

    grades: Mapping[str, int]
    found: Mapping[str, tuple[Sequence[str], NDArray[np.float64]]]


def lanes_of(path: Path, cache: Path, level: str, embedder: str) -> list[Asked]:
    """What the lanes find for each query of a collection; asked once, then read from ``cache``."""
    kept = cache / f"{path.stem}.{level}.json"
    if not kept.exists():
        collection = read_beir(path)
        rows = []
        with triptych.open(cache / f"{path.stem}.db", embedder=embedder) as kb:
            assert collection.documents is not None
            kb.put_documents("collection", collection.documents())
            search = kb.search_documents if level == "document" else kb.search
            for query in collection.queries:
                found = {}
                for lane in LANES:
                    hits = search(
                        Query(text=query.text, dataset_id="collection", mode=lane, top_k=DEPTH)
                    )
                    units = [f"{hit.doc_name}\t{hit.chunk_index}" for hit in hits]
                    found[lane] = [units, [hit.score for hit in hits]]
                rows.append({"grades": dict(query.grades), "found": found})
        kept.write_text(json.dumps(rows), encoding="utf-8")
    return [
        Asked(
            row["grades"],
            {lane: (units, np.array(scores)) for lane, (units, scores) in row["found"].items()},
        )
        for row in json.loads(kept.read_text(encoding="utf-8"))
    ]


def fused(asked: Asked, shares: Shares, depth: int) -> list[str]:
    """The units in the order of their totals, ties by name."""
    totals: dict[str, float] = {}
    for lane, (units, scores) in asked.found.items():
        if units:
            given = shares(lane, scores[:depth]).tolist()
            for unit, share in zip(units, given, strict=False):
                totals[unit] = totals.get(unit, 0.0) + share
    return sorted(totals, key=lambda unit: (-round(totals[unit], 9), unit))


def gain(asked: Asked, order: Sequence[str]) -> float:
    """nDCG of the documents in the order of their best unit."""
    documents = dict.fromkeys(unit.split("\t")[0] for unit in order[: K * K])
    return ndcg_at(K, list(documents)[:K], asked.grades)


def rrf(k: float) -> Shares:
    """Reciprocal ranks."""
    return lambda lane, scores: 1 / (k + 1 + np.arange(len(scores)))


def min_max(lowest: Mapping[str, float] | None = None) -> Shares:
    """From 0 to 1; ``lowest`` is the score that a lane's worst can have, if not the list's own."""

    def shares(lane: str, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        low = (lowest or {}).get(lane, scores.min())
        return (scores - low) / (scores.max() - low) if scores.max() > low else np.ones(len(scores))

    return shares


def z_score(
    *, vector: float = 0.5, absent: str = "last", first: int | None = None, zeros: int = 0
) -> Shares:
    """In standard deviations of the lane: above its last candidate, or above its mean.

    A candidate that a lane lacks gets 0 from it. ``first`` takes the deviation of so many best.
    A keyword lane of less than ``zeros`` candidates is filled up to so many with scores of 0.
    """
    weights = {"bm25": 2 * (1 - vector), "vector": 2 * vector}

    def shares(lane: str, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        if lane == "bm25" and len(scores) < zeros and scores.max() > 0:
            filled = np.concatenate([scores, np.zeros(zeros - len(scores))])
            return weights[lane] * scores / filled.std()
        if scores.max() == scores.min():
            return np.full(len(scores), weights[lane])
        zero = scores.min() if absent == "last" else scores.mean()
        return weights[lane] * (scores - zero) / (scores[:first].std() or scores.std())

    return shares


def three_sigma(lane: str, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distribution-based: from three deviations below the mean to three above, clipped."""
    if scores.max() == scores.min():
        return np.full(len(scores), 0.5)
    return np.clip((scores - scores.mean()) / (6 * scores.std()) + 0.5, 0, 1)


def alone(name: str) -> Shares:
    """One lane, the other left out."""
    return lambda lane, scores: scores + 2 if lane == name else np.zeros(len(scores))


WAYS: Mapping[str, tuple[Shares, int]] = {
    "bm25": (alone("bm25"), DEPTH),
    "vector": (alone("vector"), DEPTH),
    **{f"rrf k={k} @{depth}": (rrf(k), depth) for k in (5, 10, 60) for depth in (30, 100)},
    **{f"min-max @{depth}": (min_max(), depth) for depth in (30, 50, 100)},
    "min-max, BM25 from 0 @100": (min_max({"bm25": 0.0}), 100),
    **{f"z-score @{depth}": (z_score(zeros=depth), depth) for depth in (30, 50, 100, 200)},
    "z-score, no zeros @30": (z_score(), 30),
    **{
        f"z-score, absent at the mean @{depth}": (z_score(absent="mean"), depth)
        for depth in (30, 50, 100, 200)
    },
    **{
        f"z-score, vector {share} @100": (z_score(vector=share, zeros=100), 100)
        for share in (0.4, 0.6)
    },
    "3 sigma @100": (three_sigma, 100),
}


def compare(values: Mapping[str, Mapping[str, Sequence[float]]], of: str) -> None:
    """Print what ``of`` is worth beside each lane's better one and beside every other way."""
    names = list(values[of])
    better = {
        name: max(LANES, key=lambda lane: float(np.mean(values[lane][name]))) for name in names
    }
    for other in ("better lane", "rrf k=60 @30"):
        print(f"\n{of}, less the {other}: mean [95% interval], p")
        for name in names:
            base = values[better[name] if other == "better lane" else other][name]
            differences = np.subtract(values[of][name], base).tolist()
            estimate = bootstrap({"": differences})[""]
            p = randomisation_test(values[of][name], base)
            print(
                f"{name:11} {estimate.mean:+.4f} [{estimate.low:+.4f}, {estimate.high:+.4f}] "
                f"p {p:.4f}"
            )


def leave_one_out(values: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Print which way has the best mean on the others, and what it is worth on the one left out."""
    names = list(values[LANES[0]])
    means = {way: {name: float(np.mean(by[name])) for name in names} for way, by in values.items()}
    print("\nleft out    the best way on the others        its nDCG@10, RRF's")
    for name in names:
        best = max(means, key=lambda way: sum(means[way][each] for each in names if each != name))
        print(f"{name:11} {best:32} {means[best][name]:.4f} {means['rrf k=60 @30'][name]:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("collections", type=Path, nargs="+", help="zip files in BEIR layout")
    parser.add_argument("--cache", type=Path, required=True, help="a folder for stores and scores")
    parser.add_argument("--level", choices=["document", "chunk"], default="document")
    parser.add_argument("--embedder", default="local")
    parser.add_argument("--of", default="z-score @100", help="the way to compare with others")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    values: dict[str, dict[str, list[float]]] = {way: {} for way in WAYS}
    for path in options.collections:
        queries = lanes_of(path, options.cache, options.level, options.embedder)
        for way, (shares, depth) in WAYS.items():
            values[way][path.stem] = [gain(each, fused(each, shares, depth)) for each in queries]
    names = [path.stem for path in options.collections]
    print(f"{'nDCG@10':36}" + "".join(f"{name[:9]:>10}" for name in names) + "      mean     worst")
    for way, by in values.items():
        means: list[Any] = [np.mean(by[name]) for name in names]
        above = [
            mean - max(np.mean(values[lane][name]) for lane in LANES)
            for mean, name in zip(means, names, strict=True)
        ]
        row = "".join(f"{mean:10.4f}" for mean in [*means, np.mean(means)])
        print(f"{way:36}{row}{min(above):+10.4f}")
    compare(values, options.of)
    leave_one_out(values)


if __name__ == "__main__":
    main()
