"""The weight of a list of cosines, from how far they are apart."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

import triptych
from support.ranking import QUERY
from support.rows import each_row
from triptych.records import Candidates, EmbedKind, RankedList, ResolvedQuery
from triptych.search import ZScoreRanker
from triptych.search.evidence import telling_apart

DEPTH = 10
RANGE = (0.2, 0.6)
COSINES = st.lists(st.floats(-1, 1), min_size=DEPTH, max_size=3 * DEPTH)


def ranked(
    scores: Sequence[float], lane: str = "vector", cosine_range: tuple[float, float] | None = RANGE
) -> RankedList:
    rows = [
        (-score, f"{at:03}", 0, "d", at) for at, score in enumerate(sorted(scores, reverse=True))
    ]
    return RankedList(lane=lane, candidates=Candidates(rows, lane), cosine_range=cosine_range)


@given(COSINES)
def test_it_is_bounded(scores: list[float]) -> None:
    assert 0.5 <= telling_apart(ranked(scores), DEPTH) <= 2.0


@given(COSINES, st.floats(0.1, 1.0))
def test_scores_that_lie_closer_together_never_weigh_more(
    scores: list[float], share: float
) -> None:
    closer = ranked([each * share for each in scores])
    assert telling_apart(closer, DEPTH) <= telling_apart(ranked(scores), DEPTH) + 1e-12


@given(COSINES, st.floats(-0.5, 0.5))
def test_how_near_the_texts_are_is_nothing_to_it(scores: list[float], nearer: float) -> None:
    moved = ranked([each + nearer for each in scores])
    assert telling_apart(moved, DEPTH) == pytest.approx(telling_apart(ranked(scores), DEPTH))


@given(COSINES)
def test_it_is_1_without_a_range_and_where_the_list_is_all_there_is(scores: list[float]) -> None:
    assert telling_apart(ranked(scores, cosine_range=None), DEPTH) == 1.0
    assert telling_apart(ranked(scores), len(scores) + 1) == 1.0


@each_row(
    ("share", "factor"),
    [(1 / 36, 0.5), (1 / 8, 1.0), (1 / 6.1, 1.0), (2 / 3, 2.0), (1 / 18, 0.5**0.5)],
)
def test_beyond_the_usual_spread_it_is_the_root_of_the_share(share: float, factor: float) -> None:
    deviation = (RANGE[1] - RANGE[0]) * share
    halves = np.repeat([0.5 + deviation, 0.5 - deviation], DEPTH // 2)
    assert telling_apart(ranked(halves.tolist()), DEPTH) == pytest.approx(factor)


@given(COSINES)
def test_a_lane_alone_has_the_same_scores(scores: list[float]) -> None:
    ranker = ZScoreRanker(depth=DEPTH)
    plain = ranker.rank(QUERY, [ranked(scores, cosine_range=None)])
    assert ranker.rank(QUERY, [ranked(scores)]) == plain


@given(COSINES)
def test_weights_are_shares_and_the_factor_is_that_of_the_dense_list(scores: list[float]) -> None:
    words = ranked([3.0, 2.0], "bm25", None)
    (keyword, _), (vector, _) = ZScoreRanker(depth=DEPTH).weigh([words, ranked(scores)])
    assert keyword + vector == pytest.approx(1.0)
    assert vector == pytest.approx(keyword * telling_apart(ranked(scores), DEPTH))
    off = ZScoreRanker(depth=DEPTH, evidence=False).weigh([words, ranked(scores)])
    assert [weight for weight, _ in off] == [0.5, 0.5]


@attrs.frozen
class Lengths:
    """Embeds a text by its length."""

    cosine_range: tuple[float, float] | None
    signature: str = "lengths"
    dimension: int = 2

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        turned = np.array([len(text) for text in texts]) / 100
        return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)


@attrs.frozen
class Recording(ZScoreRanker):
    """A ranker that records the cosine range of each list."""

    told: dict[str, object] = attrs.field(factory=dict)

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> Candidates:
        self.told.update({each.lane: each.cosine_range for each in ranked_lists})
        return super().rank(query, ranked_lists)


@pytest.mark.parametrize("cosine_range", [RANGE, None])
def test_the_embedders_range_reaches_the_ranker(cosine_range: tuple[float, float] | None) -> None:
    ranker = Recording()
    with triptych.open(
        "memory://", embedder=Lengths(cosine_range=cosine_range), ranker=ranker, llm=None
    ) as kb:
        kb.put_documents("d", {"a": "some words", "b": "more words"})
        kb.search("words", dataset_id="d")
        assert ranker.told == {"bm25": None, "vector": cosine_range}
        ranker.told.clear()
        kb.search_documents("words", dataset_id="d")
        assert ranker.told == {"bm25": None, "vector": cosine_range}
