"""What the lanes say of how well a query is answered: a few numbers, each higher for better.

They are read off the lanes' own scores, before fusion: a fused score says how a hit compares with
the others of its query, and nothing of whether any of them answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from triptych.records import Candidates, RankedList
from triptych.text import CorpusStats

SIGNALS: Mapping[str, str] = {
    "bm25_share": "bm25",
    "bm25_best": "bm25",
    "vector_best": "vector",
}
"""The signals, each with the lane that it is of.

bm25_share: the best BM25 score, as a share of the sum of the idf of the query's terms, which is
    more than any text can reach. A rare word that the best text does not hold makes it small, and
    so does one that is nowhere.
bm25_best: the best BM25 score itself: a match of one word says less than one of five.
vector_best: the best cosine.
"""


def signals_of(
    lists: Iterable[RankedList], terms: Sequence[str], stats: CorpusStats | None
) -> Mapping[str, float]:
    """The signals of the lanes that ran for one wording of a query.

    ``terms`` are the query's, as the analyzer cuts them, and ``stats`` the statistics of them;
    None leaves out what needs them. A lane that found nothing gives 0.
    """
    by_lane = {each.lane: Candidates.of(each.candidates) for each in lists}
    found: dict[str, float] = {}
    if "bm25" in by_lane:
        best = _best(by_lane["bm25"])
        found["bm25_best"] = best
        if stats is not None:
            most = math.fsum(stats.idf(term) for term in terms)
            found["bm25_share"] = best / most if most else 0.0
    if "vector" in by_lane:
        found["vector_best"] = _best(by_lane["vector"])
    return found


def _best(candidates: Candidates) -> float:
    return -float(candidates.rows[0][0]) if candidates.rows else 0.0
