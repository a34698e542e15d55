"""Candidates as rows: the same as the records they stand for."""

import pytest

from support.ranking import fuse_lanes
from triptych import RRFRanker
from triptych.records import Candidate, Candidates


def record(name: str, score: float, **fields: object) -> Candidate:
    return Candidate(
        **{"dataset_id": "d", "doc_name": name, "index": 0, "key": name, "score": score} | fields
    )


def test_rows_are_the_records() -> None:
    records = [record("a", 2.0, source="bm25"), record("b", 1.0, scores={"bm25": 1.0})]
    rows = Candidates.of(records)
    assert rows == records
    assert records == rows
    assert rows[1] == records[1]
    assert rows[-1] == records[-1]
    assert rows[:1] == records[:1]
    assert list(rows) == records
    assert len(rows) == 2
    assert records[0] in rows
    assert Candidates.of(rows) is rows
    assert repr(rows) == f"Candidates({records!r})"
    assert rows != "ab"
    with pytest.raises(IndexError):
        rows[2]
    with pytest.raises(TypeError):
        hash(rows)


def test_rows_of_a_lane_have_its_name() -> None:
    lane = Candidates([(-1.5, "a", 3, "d", 7), (-1.0, "b", 0, "d", 8)], "vector")
    assert lane[0] == record("a", 1.5, index=3, key=7, source="vector")
    kept = lane.where(lambda row: -row[0] >= 1.2)
    assert [each.doc_name for each in kept] == ["a"]
    assert kept[0].source == "vector"


def test_keys_that_do_not_compare_are_ranked() -> None:
    """Two states of one chunk, seen by two lanes, tie in all that ranks."""
    lanes = {"bm25": [record("a", 1.0, key=object())], "vector": [record("a", 1.0, key="new")]}
    fused = fuse_lanes(RRFRanker(), lanes)
    assert [each.source for each in fused] == ["", ""]
    assert {each.key for each in fused} == {lanes["bm25"][0].key, "new"}
