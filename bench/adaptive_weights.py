"""Do weights that follow the query beat equal ones? On lanes that bench/fusion.py has cached.

    python bench/fusion.py FOLDER/*.zip --cache CACHE
    python bench/adaptive_weights.py FOLDER/*.zip --cache CACHE [--level chunk]

Each way fuses z-scores, 30 deep, and weighs the keyword lane by what the two lists show: how far
their first candidates stand above the rest, how far above the second, or how many of a lane's
first three the other lane has found. ``power`` raises scores before they are added. Prints the
mean nDCG@10, the worst collection less its better lane with p, and on how many collections a way
is above equal weights; at last, what the best weight of each collection, chosen with its labels,
would give.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fusion import LANES, Asked, gain, lanes_of
from triptych_evaluation import randomisation_test

Scores = Mapping[str, NDArray[np.float64]]
Units = Mapping[str, Sequence[str]]
KeywordShare = Callable[[Scores, Units], float]
DEPTH = 30


def standardised(lane: str, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores as `ZScoreRanker` makes them: what a keyword lane does not find counts as 0."""
    found = scores[:DEPTH]
    if not len(found):
        return found
    padded = found
    if lane != "vector" and len(found) < DEPTH and found.min() >= 0:
        padded = np.concatenate([found, np.zeros(DEPTH - len(found))])
    deviation = padded.std()
    return np.ones(len(found)) if deviation < 1e-9 else (found - padded.min()) / deviation


def fused(asked: Asked, share: KeywordShare, power: float = 1.0) -> list[str]:
    """The units of a query in the order of a way."""
    scores = {lane: standardised(lane, np.asarray(asked.found[lane][1])) for lane in LANES}
    units = {lane: list(asked.found[lane][0])[:DEPTH] for lane in LANES}
    keyword = share(scores, units)
    totals: dict[str, float] = {}
    for lane, weight in zip(LANES, (keyword, 1 - keyword), strict=True):
        for unit, value in zip(units[lane], scores[lane], strict=True):
            totals[unit] = totals.get(unit, 0.0) + weight * float(value) ** power
    return sorted(totals, key=lambda unit: (-round(totals[unit], 9), unit))


def constant(keyword: float) -> KeywordShare:
    """The same weight for every query."""
    return lambda scores, units: keyword


def _logistic(difference: float, slope: float) -> float:
    return float(1 / (1 + np.exp(-slope * difference)))


def by_first(slope: float) -> KeywordShare:
    """By how much further one lane's first candidate stands out."""

    def share(scores: Scores, units: Units) -> float:
        first = [scores[lane][0] if len(scores[lane]) else 0.0 for lane in LANES]
        return _logistic(first[0] - first[1], slope)

    return share


def by_gap(slope: float) -> KeywordShare:
    """By the gap between the first and the second candidate."""

    def share(scores: Scores, units: Units) -> float:
        gaps = [
            each[0] - each[min(1, len(each) - 1)] if len(each) else 0.0
            for each in (scores[lane] for lane in LANES)
        ]
        return _logistic(gaps[0] - gaps[1], slope)

    return share


def by_agreement(slope: float) -> KeywordShare:
    """By how many of a lane's first three the other lane has found."""

    def share(scores: Scores, units: Units) -> float:
        found = [
            np.mean([unit in set(units[other]) for unit in units[lane][:3]]) if units[lane] else 0.0
            for lane, other in (LANES, LANES[::-1])
        ]
        return _logistic(float(found[0] - found[1]), slope)

    return share


WAYS: Mapping[str, tuple[KeywordShare, float]] = {
    "equal weights": (constant(0.5), 1.0),
    "first candidate, 0.1": (by_first(0.1), 1.0),
    "first candidate, 0.2": (by_first(0.2), 1.0),
    "first candidate, 0.5": (by_first(0.5), 1.0),
    "gap, 0.3": (by_gap(0.3), 1.0),
    "gap, 0.6": (by_gap(0.6), 1.0),
    "agreement, 1": (by_agreement(1.0), 1.0),
    "agreement, -1": (by_agreement(-1.0), 1.0),
    "power 1.25": (constant(0.5), 1.25),
    "power 1.5": (constant(0.5), 1.5),
    "power 2": (constant(0.5), 2.0),
    "keyword 0.4": (constant(0.4), 1.0),
    "keyword 0.6": (constant(0.6), 1.0),
}


def main() -> None:
    """Compare the ways."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("collections", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--level", choices=("document", "chunk"), default="document")
    parser.add_argument("--embedder", default="local")
    options = parser.parse_args()
    asked = {
        path.stem: lanes_of(path, options.cache, options.level, options.embedder)
        for path in options.collections
    }
    lanes = {
        name: {lane: [gain(q, list(q.found[lane][0])) for q in each] for lane in LANES}
        for name, each in asked.items()
    }
    best_lane = {name: max(each.values(), key=np.mean) for name, each in lanes.items()}

    def values(share: KeywordShare, power: float) -> dict[str, list[float]]:
        return {
            name: [gain(q, fused(q, share, power)) for q in each] for name, each in asked.items()
        }

    equal = values(*WAYS["equal weights"])
    print(f"{'nDCG@10':22} {'mean':>6}  {'worst, less its better lane':40} above equal weights")
    for way, (share, power) in WAYS.items():
        found = values(share, power)
        behind = {name: np.mean(found[name]) - np.mean(best_lane[name]) for name in found}
        worst = min(behind, key=lambda name: behind[name])
        p = randomisation_test(found[worst], best_lane[worst])
        above = sum(np.mean(found[name]) > np.mean(equal[name]) + 1e-9 for name in found)
        mean = np.mean([np.mean(each) for each in found.values()])
        told = f"{worst} {behind[worst]:+.4f}, p {p:.3f}"
        print(f"{way:22} {mean:.4f}  {told:40} {above} of {len(found)}")
    weights = [values(constant(keyword), 1.0) for keyword in np.arange(0.2, 0.85, 0.1)]
    chosen = [max(np.mean(each[name]) for each in weights) for name in asked]
    print(f"{'best, with labels':22} {np.mean(chosen):.4f}")


if __name__ == "__main__":
    main()
