"""What a hit counts for, and what fits into a budget."""

from __future__ import annotations

import pytest

from triptych.errors import ValidationError
from triptych.records import DerivedSig, Hit, Layer
from triptych_evaluation import JudgedQuery, evidence_within
from triptych_evaluation.targets import (
    DocumentNames,
    Targets,
    chunk_places,
    document_places,
    find_passage,
)

QUERY = JudgedQuery(query_id="q", text="x")


def hit(name: str, index: int, start: int = 0, end: int = 10) -> Hit:
    return Hit(
        dataset_id="d",
        doc_name=name,
        layer=Layer.DETAIL,
        content="x" * (end - start),
        score=1 / (index + 2),
        chunk_index=index,
        sig=DerivedSig(),
        start=start,
        end=end,
    )


def test_a_file_is_found_by_the_end_of_its_path() -> None:
    names = DocumentNames(["guide/start.md", "api/start.md", "start.md", "xstart.md", "b/one.md"])
    assert names.resolve("start.md", QUERY) == "start.md"
    assert names.resolve("guide/start.md", QUERY) == "guide/start.md"
    assert names.resolve("one.md", QUERY) == "b/one.md"
    assert names.resolve("ne.md", QUERY) is None
    several = DocumentNames(["guide/start.md", "api/start.md"])
    with pytest.raises(ValidationError, match=r"'api/start\.md', 'guide/start\.md'"):
        several.resolve("start.md", QUERY)


def test_a_passage_is_found_whatever_its_white_space() -> None:
    assert find_passage("at  most\nten.", "- At most ten,\nat most\n  ten. at most ten.") == [
        (15, 29),
        (30, 42),
    ]
    assert find_passage("a.c", "abc") == []


def test_documents_are_their_own_units() -> None:
    assert [place.unit for place in document_places([hit("a", -1), hit("b", -1)])] == ["a", "b"]


def test_a_document_is_credited_to_its_first_chunk() -> None:
    places = chunk_places([hit("a", 0), hit("a", 1), hit("b", 0)], [5, 6, 7], Targets(grades={}))
    assert [(place.name, place.unit, place.tokens) for place in places] == [
        ("a#0", "a", 5),
        ("a#1", "", 6),
        ("b#0", "b", 7),
    ]


def test_a_chunk_holds_a_passage_when_half_of_either_lies_in_the_other() -> None:
    passages = {"a": {"a#p1": [(0, 20)], "a#p2": [(100, 140), (28, 30)], "a#p3": [(31, 32)]}}
    targets = Targets(grades={"a#p1": 1, "a#p2": 2, "a#p3": 1}, passages=passages)

    def units(*spans: tuple[int, int]) -> list[list[str | int]]:
        hits = [hit("a", at, *span) for at, span in enumerate(spans)]
        places = chunk_places(hits, [9] * len(hits), targets)
        return [[place.name, place.unit, place.tokens] for place in places]

    assert units((11, 27)) == [["a#0", "a#p1", 9]]  # more than half of the chunk
    assert units((11, 30)) == [["a#0", "a#p2", 9]]  # 9 of 19 and of 20: not p1
    assert units((40, 90)) == [["a#0", "", 9]]
    # Several at once: the best first, and the text is paid for once.
    assert units((0, 32), (90, 150)) == [
        ["a#0", "a#p2", 9],
        ["a#0", "a#p1", 0],
        ["a#0", "a#p3", 0],
        ["a#1", "", 9],
    ]


def test_evidence_ends_with_the_text_that_passes_the_budget() -> None:
    found = [("a", 100), ("", 50), ("b", 60), ("c", 1000), ("d", 1)]
    grades = {"a": 1, "b": 2, "d": 1, "x": 0}
    shares = [evidence_within(budget, found, grades) for budget in (99, 100, 209, 210, 1210, 1211)]
    assert shares == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3, 2 / 3, 1])
    assert evidence_within(210, found, grades, least_grade=2) == 1
    assert evidence_within(210, found, {"a": 0}) == 0
