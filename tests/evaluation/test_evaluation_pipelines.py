"""Stages of a pipeline beside each other, and choices of a grid: what is measured, and reported."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

import triptych
from triptych import Service
from triptych.contracts import HitReader
from triptych.errors import NotFoundError, ValidationError
from triptych.evaluation import evaluate, evaluation_html, evaluation_json
from triptych.evaluation.collections import Collection, JudgedQuery
from triptych.evaluation.pipelines import ablation_stages, evaluate_pipelines, service_pipeline
from triptych.evaluation.tuning import grid_of, is_tuned_on, tune
from triptych.records import Candidate, Hit, RankedList, ResolvedQuery
from triptych.search import ChunkFilter, FragmentRewriter, ParaphraseRewriter, Pipeline
from triptych.search.fusion import RRFRanker
from triptych.testing.fakes import FakeLLM

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


def test_the_stages_of_a_pipeline(kb: Service) -> None:
    llm = FakeLLM()
    whole = Pipeline(
        name="p",
        search={"top_k": 4, "mode": None},
        rewriter=[FragmentRewriter(), ParaphraseRewriter(llm)],
        postprocessors=[Backwards(), Backwards()],
    )
    stages = ablation_stages(kb, whole)
    assert list(stages) == [
        *("bm25", "vector", "hybrid", "+ FragmentRewriter", "+ ParaphraseRewriter"),
        *("+ Backwards", "+ Backwards 2"),
    ]
    assert stages["bm25"].search == {"top_k": 4, "mode": "bm25"}
    assert stages["hybrid"].rewriter in (None, ())
    last = stages["+ Backwards 2"]
    assert (len(last.postprocessors), last.search["top_k"]) == (2, 4)
    keyword = attrs.evolve(whole, search={"mode": "bm25"}, rewriter=None, postprocessors=())
    assert list(ablation_stages(kb, keyword)) == ["bm25"]
    plain = triptych.open("memory://", embedder="none")
    assert list(ablation_stages(plain, service_pipeline(plain))) == ["bm25"]


def test_stages_are_measured_on_the_same_questions(kb: Service) -> None:
    llm = FakeLLM(lambda prompt, text: "no JSON")
    whole = Pipeline(name="p", postprocessors=[Backwards(), ChunkFilter(llm)])
    found = evaluate_pipelines(kb, questions(), ablation_stages(kb, whole), dataset_id="shore")
    assert len(found.query_ids) == 40
    means = {name: each.estimates["mrr"].mean for name, each in found.modes.items()}
    assert means["bm25"] == 1.0
    assert means["+ Backwards"] < 0.5
    assert means["+ ChunkFilter"] == means["+ Backwards"]
    calls = found.configuration["model_calls"]
    assert (calls["hybrid"], calls["+ ChunkFilter"]) == (0, 1)
    assert all(each.latency.p95 >= each.latency.p50 > 0 for each in found.modes.values())
    assert "Backwards" in evaluation_html(found)
    assert list(evaluation_json(found)["modes"]) == list(found.modes)


def test_a_service_pipeline_is_what_a_search_does(kb: Service) -> None:
    found = evaluate_pipelines(
        kb, questions(8), {"default": service_pipeline(kb)}, dataset_id="shore"
    )
    names = [hit.doc_name for hit in kb.search("note 0 of the harbour", dataset_id="shore")]
    assert [name for name, _ in found.modes["default"].rankings["a0"]] == names
    with pytest.raises(ValidationError, match="a question that has an answer"):
        evaluate_pipelines(kb, questions(0), {"d": service_pipeline(kb)}, dataset_id="shore")


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


def test_a_choice_that_is_better_is_found_and_shown_on_other_questions(kb: Service) -> None:
    start = Pipeline(name="p", search={"top_k": 8}, postprocessors=[Backwards()])
    made = tune(
        kb, questions(), {"top_k": [1, 8], "mode": ["bm25"]}, dataset_id="shore", pipeline=start
    )
    assert made.best == {"top_k": 1, "mode": "bm25"}
    assert made.gained
    assert made.summary.startswith("gained: ")
    assert made.tuned_on + len(made.held_out.query_ids) == 40
    asked = {query.query_id: query for query in questions().queries}
    assert not any(is_tuned_on(asked[each]) for each in made.held_out.query_ids)
    assert made.difference is not None
    assert made.difference.estimate.low > 0


def test_where_nothing_is_gained_that_is_said(kb: Service) -> None:
    start = service_pipeline(kb)
    same = tune(
        kb,
        questions(),
        {"ranker": ["rrf", "min-max"], "weights.bm25": [1, 2]},
        dataset_id="shore",
        pipeline=start,
    )
    assert len(same.choices) == 5
    assert (same.best, same.difference, same.gained) == ({}, None, False)
    assert same.summary.startswith("nothing is gained")
    assert list(same.held_out.modes) == ["default"]


@attrs.frozen
class Own:
    """RRF, and a note of the weights it was asked with."""

    seen: list[dict[str, float]]
    weights: dict[str, float] = attrs.field(factory=dict)

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> Sequence[Candidate]:
        self.seen.append(self.weights)
        return RRFRanker().rank(query, ranked_lists)


def test_weights_are_those_of_the_pipeline_s_own_ranker(kb: Service) -> None:
    seen: list[dict[str, float]] = []
    start = Pipeline(name="start", ranker=Own(seen))
    tune(kb, questions(), {"weights.bm25": [2.0]}, dataset_id="shore", pipeline=start)
    assert {} in seen
    assert {"bm25": 2.0} in seen
    with pytest.raises(ValidationError, match=r"the ranker Own has no depth: .* z-score"):
        tune(kb, questions(), {"depth": [30]}, dataset_id="shore", pipeline=start)


def test_grids_that_cannot_be_searched_are_refused(kb: Service) -> None:
    start = service_pipeline(kb)
    for grid, words in (
        ({}, "the grid is empty"),
        ({"colour": [1]}, "no key 'colour'"),
        ({"top_k": []}, "no values for 'top_k'"),
        ({"top_k": [*range(1, 30)], "depth": [*range(2, 30)]}, "at most 200"),
    ):
        with pytest.raises(ValidationError, match=words):
            grid_of(grid)
    for grid, words in (
        ({"ranker": ["best"]}, "no ranker 'best'"),
        ({"top_k": [0]}, "top_k"),
        ({"mode": ["colour"]}, "mode"),
    ):
        with pytest.raises(ValidationError, match=words):
            tune(kb, questions(), grid, dataset_id="shore", pipeline=start)
    with pytest.raises(ValidationError, match="no metric 'speed'"):
        tune(kb, questions(), {"top_k": [3]}, dataset_id="shore", pipeline=start, metric="speed")
