"""Weights of lanes from what the keyword lane found: a name that one text holds, and a question."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st

from support.ranking import QUERY, fuse_lanes
from triptych.records import NO_CHUNK, Candidate, Candidates, RankedList, TermMatches
from triptych.search import ZScoreRanker
from triptych.search.evidence import KeywordEvidence, keyword_evidence
from triptych.search.fusion import in_order

DEPTH = 10
TERMS = ("a", "b", "c", "d")


def found(scores: Sequence[float], held: Sequence[str], first: int = 0) -> Candidates:
    """Candidates of a keyword lane, each with the terms that it holds, a letter for each."""
    rows = [(-score, f"{first + at:03}", 0, "d", first + at) for at, score in enumerate(scores)]
    return Candidates(rows, "bm25", matches=lambda: TermMatches.of(TERMS, list(map(Counter, held))))


def near(count: int, first: int = 0) -> list[Candidate]:
    return [
        Candidate(
            dataset_id="d",
            doc_name=f"{first + at:03}",
            index=0,
            key=first + at,
            score=0.9 - at / 50,
        )
        for at in range(count)
    ]


def evidence(scores: Sequence[float], held: Sequence[str]) -> KeywordEvidence:
    known = keyword_evidence(found(scores, held), DEPTH)
    assert known is not None
    return known


@st.composite
def keyword_lanes(draw: st.DrawFn) -> Candidates:
    held = draw(st.lists(st.sets(st.sampled_from(TERMS), min_size=1), min_size=1, max_size=15))
    scores = draw(
        st.lists(st.integers(1, 99), min_size=len(held), max_size=len(held)).map(
            lambda each: sorted(each, reverse=True)
        )
    )
    return found(scores, ["".join(sorted(each)) for each in held])


@given(keyword_lanes(), st.integers(2, 60))
def test_strength_and_coverage_are_shares(keyword: Candidates, depth: int) -> None:
    known = keyword_evidence(keyword, depth)
    assert known is not None
    assert 0.0 <= known.strength <= 1.0
    assert len(known.coverage) == len(keyword)
    assert all(0.0 < each <= 1.0 + 1e-12 for each in known.coverage)


@given(keyword_lanes())
def test_one_lane_keeps_its_own_order(keyword: Candidates) -> None:
    for lists in ({"bm25": keyword}, {"bm25": keyword, "vector": []}):
        fused = fuse_lanes(ZScoreRanker(depth=DEPTH), lists)
        assert [each.key for each in fused] == [each.key for each in in_order(keyword, "bm25")]


@given(keyword_lanes(), st.integers(1, 15), st.integers(0, 15))
def test_every_candidate_stays_with_a_score_from_0_and_its_own_scores(
    keyword: Candidates, count: int, first: int
) -> None:
    vector = near(count, first)
    fused = fuse_lanes(ZScoreRanker(depth=DEPTH), {"bm25": keyword, "vector": vector})
    own = {each.key: each.score for each in keyword}
    assert {each.key for each in fused} == {*own, *(each.key for each in vector)}
    assert all(each.score >= 0.0 and math.isfinite(each.score) for each in fused)
    assert all(each.scores.get("bm25") == own.get(each.key) for each in fused)


@given(keyword_lanes(), st.integers(1, 15))
def test_without_evidence_lanes_weigh_alike(keyword: Candidates, count: int) -> None:
    """As where the lane does not know which terms its candidates hold."""
    vector = near(count, 5)
    unknown = Candidates(keyword.rows, "bm25")
    plain = fuse_lanes(ZScoreRanker(depth=DEPTH), {"bm25": unknown, "vector": vector})
    off = ZScoreRanker(depth=DEPTH, evidence=False)
    assert fuse_lanes(off, {"bm25": keyword, "vector": vector}) == plain


def test_one_text_that_holds_a_rare_name_outweighs_what_is_near() -> None:
    """The vector lane has another first, and all its others agree with the keyword lane's rest."""
    scores, held = [9.0, *[2.0 - at / 100 for at in range(DEPTH - 1)]], ["abcd", *"a" * 9]
    keyword, vector = found(scores, held), near(DEPTH, 1)
    assert evidence(scores, held).strength > 0.9
    first, second, *_ = fuse_lanes(ZScoreRanker(depth=DEPTH), {"bm25": keyword, "vector": vector})
    assert (first.doc_name, second.score / first.score < 0.2) == ("000", True)


def test_texts_that_share_the_words_of_a_question_leave_the_lanes_alike() -> None:
    held = ["abc", "abd", "ab", "bc", "acd", "ab", "cd", "bd", "ad", "bc"]
    assert evidence([10.0 - at for at in range(DEPTH)], held).strength < 0.15


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_only_texts_that_hold_anything_of_a_query_settle_it_by_what_they_hold(
    count: int,
) -> None:
    """Of a small dataset too: what a list lacks counts as texts that hold nothing."""
    whole = evidence([5.0] * count, ["abcd"] * count)
    half = evidence([5.0] * count, ["ab"] * count)
    assert whole.strength > half.strength > 0.0
    assert whole.coverage == pytest.approx([1.0] * count)


def test_words_that_most_of_a_small_dataset_holds_are_no_evidence() -> None:
    """Eight of ten texts hold the whole question: the vector lane brings all ten."""
    lists = [
        RankedList(lane="bm25", candidates=found([5.0] * 8, ["abcd"] * 8)),
        RankedList(lane="vector", candidates=near(10)),
    ]
    (_, known), (vector, _) = ZScoreRanker().weigh(lists)
    assert known is not None
    assert known.strength < 0.05
    assert vector > 0.48


def test_of_a_single_text_nothing_is_told() -> None:
    lists = {"bm25": found([5.0], ["abcd"]), "vector": near(1)}
    (hit,) = fuse_lanes(ZScoreRanker(), lists)
    assert (hit.key, hit.scores) == (0, {"bm25": 5.0, "vector": 0.9})


def test_whole_documents_are_no_evidence() -> None:
    whole = [(*row[:2], NO_CHUNK, *row[3:]) for row in found([9.0, 1.0], ["abcd", "a"]).rows]
    matches = TermMatches.of(TERMS, [Counter("abcd"), Counter("a")])
    assert keyword_evidence(Candidates(whole, "bm25", matches=lambda: matches), DEPTH) is None


def test_no_candidates_and_no_terms_are_no_evidence() -> None:
    assert keyword_evidence(found([], []), DEPTH) is None
    assert keyword_evidence(in_order(near(3), "vector"), DEPTH) is None


@given(keyword_lanes())
def test_vectors_without_weight_leave_the_keyword_lane_its_order(keyword: Candidates) -> None:
    ranker = ZScoreRanker(depth=DEPTH, weights={"vector": 0.0})
    fused = fuse_lanes(ranker, {"bm25": keyword, "vector": near(3, 100)})
    own = [each.key for each in in_order(keyword, "bm25")]
    assert [each.key for each in fused if each.key in own] == own


def test_weights_are_shares_of_what_the_evidence_leaves() -> None:
    scores, held = [9.0, *[1.0] * 9], ["abcd", *"a" * 9]
    lists = [
        RankedList(lane="bm25", candidates=found(scores, held)),
        RankedList(lane="vector", candidates=near(10, 40)),
        RankedList(lane="sparse", candidates=near(10, 80)),
    ]
    (keyword, known), (vector, _), (sparse, _) = ZScoreRanker(depth=DEPTH).weigh(lists)
    assert known is not None
    assert keyword == sparse
    assert vector == pytest.approx(keyword * (1 - evidence(scores, held).strength))
    assert keyword + vector + sparse == pytest.approx(1.0)


def test_the_weight_of_the_keyword_lane_decides_whether_its_evidence_counts() -> None:
    """Who gives it none has the order of the others."""
    keyword = found([9.0, 1.0], ["abcd", "a"], 3)
    vector = near(6)
    fused = fuse_lanes(
        ZScoreRanker(depth=DEPTH, weights={"bm25": 0.0}), {"bm25": keyword, "vector": vector}
    )
    assert [each.key for each in fused] == [each.key for each in vector]


def test_of_several_wordings_each_list_has_its_say_by_its_weight() -> None:
    sure = [9.0, *[1.0] * 9], ["abcd", *"a" * 9]
    vague = [3.0] * 10, ["ab"] * 10
    lists = [
        RankedList(lane="bm25", candidates=found(*sure), weight=3.0),
        RankedList(lane="bm25", candidates=found(*vague, 20), weight=1.0),
        RankedList(lane="vector", candidates=near(10, 40)),
    ]
    fused = ZScoreRanker(depth=DEPTH).rank(QUERY, lists)
    nearest = next(each.score for each in fused if each.doc_name == "040")
    spread = float(np.std([each.score for each in near(10)]))
    deviations = (0.9 - (0.9 - 9 / 50)) / spread
    left = 1 - (3 * evidence(*sure).strength + evidence(*vague).strength) / 4
    assert nearest == pytest.approx(deviations * left / (3 + 1 + left), abs=1e-9)


@pytest.mark.parametrize(
    ("of_one_document", "count", "is_sure"),
    [
        (True, 0.5, True),
        (True, 1.0, False),
        (False, 0.5, False),
    ],
)
def test_a_name_counts_once_for_its_document(
    of_one_document: bool, count: float, is_sure: bool
) -> None:
    """The passages of a document all have its name, and their texts may have its words, too."""
    counts = [{"a": 1.0}, *[{"a": count}] * 9]
    rows = [(-1.0, "one" if of_one_document else str(at), at, "d", at) for at in range(len(counts))]
    matches = TermMatches.of(["a"], counts)
    known = keyword_evidence(Candidates(rows, "bm25", matches=lambda: matches), DEPTH)
    assert known is not None
    assert (known.strength > 0.5) == is_sure
    assert known.coverage.tolist() == [1.0] * 10


def test_candidates_that_are_left_out_take_their_terms_along() -> None:
    keyword = found([3.0, 2.0, 1.0], ["a", "bc", "d"])
    kept = keyword.where(lambda row: row[0] != -2.0)
    assert kept.matches is not None
    assert kept.matches().counts.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    second = keyword[1:].at([0]).matches
    assert second is not None
    assert second().counts.tolist() == [[0, 1, 1, 0]]
