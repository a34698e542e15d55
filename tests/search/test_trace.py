"""`triptych.search.trace`: the ranking after each stage of a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pytest

import triptych
from triptych.contracts import HitReader
from triptych.records import Hit, ResolvedQuery
from triptych.search import Pipeline, Stage, traced
from triptych.service import Service


@attrs.frozen
class Reversed:
    """A reranker that puts the last hit first, and leaves out the best one."""

    def depth(self, query: ResolvedQuery) -> int:
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        return hits[:0:-1]


@pytest.fixture
def kb() -> Iterator[Service]:
    pipelines = [Pipeline(name="reversed", lanes=["bm25"], postprocessors=[Reversed()])]
    with triptych.open("memory://", embedder="hash", pipelines=pipelines) as opened:
        for at in range(4):
            opened.put_document("d", f"{at}", "tea " * (8 - at) + "filler " * at)
        yield opened


def names(stage: Stage) -> list[str]:
    return [each.doc_name for each in stage.ranking]


def test_the_stages_of_a_search_are_those_that_its_hits_went_through(kb: Service) -> None:
    with traced() as stages:
        found = kb.pipeline("reversed").search("tea", dataset_id="d", top_k=4)
    assert [each.kind for each in stages] == ["fusion", "reading", "step", "shown"]
    fused = names(stages[0])
    assert names(stages[1]) == fused
    assert (stages[2].name, names(stages[2])) == ("Reversed", fused[:0:-1])
    assert names(stages[3]) == [hit.doc_name for hit in found]


def test_options_that_leave_out_hits_are_stages(kb: Service) -> None:
    best = kb.search("tea", dataset_id="d")[0].score
    with traced() as stages:
        kb.search(
            "tea", dataset_id="d", mode="bm25", threshold=0, per_document=1, keyword_boost=0.1
        )
    assert best
    kinds = {each.kind: each.name for each in stages}
    assert kinds == {
        "fusion": "bm25",
        "threshold": "threshold",
        "reading": "read",
        "step": "KeywordBoost",
        "per_document": "per document",
        "shown": "shown",
    }


def test_only_the_last_search_of_the_block_is_there_and_none_after_it(kb: Service) -> None:
    with traced() as stages:
        kb.search("filler", dataset_id="d", mode="bm25")
        kb.search("tea", dataset_id="d", top_k=1)
    kb.search("filler", dataset_id="d", mode="bm25")
    assert [each.name for each in stages] == ["fusion", "read", "shown"]
    assert len(stages[-1].ranking) == 1


def test_what_is_traced_is_searched_and_not_taken_from_a_cache() -> None:
    with triptych.open("memory://", embedder="hash", semantic_cache=True) as kb:
        kb.put_document("d", "tea.md", "A cup of tea.")
        for _ in range(2):
            with traced() as stages:
                kb.search("tea", dataset_id="d")
            assert [names(each) for each in stages] == [["tea.md"]] * 3
        assert kb.search("tea", dataset_id="d").hits
        assert kb.cache_stats().hits == 0
