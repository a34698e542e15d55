"""Pipelines beside the modes: what is measured, and reported."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

import triptych
from triptych import Service
from triptych.contracts import HitReader
from triptych.errors import NotFoundError, ValidationError
from triptych.records import Hit, ResolvedQuery
from triptych.search import Pipeline
from triptych_evaluation import Collection, JudgedQuery, evaluate

THINGS = ("harbour", "lighthouse", "keeper", "storm", "signal", "lantern", "ferry", "anchor")


@attrs.frozen
class Backwards:
    """Turns the hits round."""

    def depth(self, query: ResolvedQuery) -> int:
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        return list(reversed(hits))


@pytest.fixture
def kb() -> Service:
    service = triptych.open("memory://", embedder="hash")
    service.put_documents(
        "shore",
        {f"{thing}.md": f"The {thing} is near the shore, as a note says." for thing in THINGS},
    )
    return service


def questions(number: int = 40) -> Collection:
    there = [
        JudgedQuery(
            query_id=f"a{at}",
            text=f"note {at} of the {THINGS[at % 8]}",
            grades={f"{THINGS[at % 8]}.md": 1},
        )
        for at in range(number)
    ]
    absent = JudgedQuery(query_id="none", text="zebra", unanswerable=True)
    return Collection(name="shore", queries=(*there, absent))


def test_a_pipeline_is_evaluated_beside_the_modes(kb: Service) -> None:
    asked = questions()
    asked = attrs.evolve(asked, queries=(attrs.evolve(asked.queries[0], keywords=("harbour",)),))
    pipelines = [
        Pipeline(name="words", search={"mode": "bm25"}),
        Pipeline(name="back", search={"mode": "bm25"}, postprocessors=[Backwards()]),
        Pipeline(name="bm25"),
        Pipeline(name="tables", over=kb),
    ]
    kb = Service(kb.store, attrs.evolve(kb.options, pipelines=pipelines))
    found = evaluate(kb, asked, dataset_id="shore", pipelines=["words", "back"])
    assert list(found.modes) == ["bm25", "vector", "hybrid", "words", "back"]
    assert found.modes["words"].values == found.modes["bm25"].values
    # Whole documents have no postprocessors; the chunks that answer have.
    assert found.modes["back"].values == found.modes["bm25"].values
    assert (
        sum("without the postprocessors of the pipeline 'back'" in e for e in found.warnings) == 1
    )
    assert found.modes["words"].checks["keywords@1"].mean == 1
    assert found.modes["back"].checks["keywords@1"].mean == 0
    assert found.configuration["pipelines"]["back"]["postprocessors"] == ["Backwards"]
    chunks = evaluate(
        kb, asked, dataset_id="shore", modes=[], pipelines=["back"], granularity="chunk"
    )
    assert list(chunks.modes) == ["back"]
    assert chunks.modes["back"].estimates["recall@1"].mean == 0
    assert not any("postprocessors" in each for each in chunks.warnings)
    for modes, named, said in (
        (["bm25"], ["bm25"], "called as a mode"),
        ([], [], "at least one mode or pipeline"),
        (["bm25"], ["tables"], "searches other tables"),
    ):
        with pytest.raises(ValidationError, match=said):
            evaluate(kb, asked, dataset_id="shore", modes=modes, pipelines=named)
    with pytest.raises(NotFoundError, match="there are words, back"):
        evaluate(kb, asked, dataset_id="shore", pipelines=["none"])
