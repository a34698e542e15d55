"""Named pipelines: what each finds, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pytest

import triptych
from support.rows import each_row
from triptych import NotFoundError, Query, Service, ServiceOptions, ValidationError
from triptych.contracts import HitReader
from triptych.records import Hit, QueryVariant, ResolvedQuery
from triptych.search import Pipeline
from triptych.search.fusion import ZScoreRanker
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import FakeEmbedder


class Same:
    """A rewriter that looks for the same words, whatever the query."""

    def rewrite(self, query: Query) -> Sequence[QueryVariant]:
        return [QueryVariant(text="garden")]


@attrs.frozen
class Last:
    """A postprocessor that turns the hits around."""

    def depth(self, query: ResolvedQuery) -> int:
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        return list(reversed(hits))


@pytest.fixture
def kb() -> Iterator[Service]:
    pipelines = [
        Pipeline(name="help", datasets=("faq", "manual"), search={"top_k": 2}),
        Pipeline(name="english", search={"where": {"lang": "en"}, "mode": "bm25"}),
        Pipeline(name="garden", rewriter=Same()),
        Pipeline(name="reverse", postprocessors=[Last()], search={"mode": "bm25"}),
        Pipeline(name="words", lanes=["bm25"], ranker=ZScoreRanker(weights={"bm25": 2.0})),
        Pipeline(name="small", datasets=["faq"], token_budget=60),
    ]
    options = ServiceOptions(embedder=FakeEmbedder(), pipelines=pipelines)
    with Service(MemoryStore(), options=options) as service:
        for dataset_id in ("faq", "manual", "news"):
            for name, lang in (("a.txt", "en"), ("b.txt", "de")):
                text = f"The {dataset_id} on the garden and the house, {name}. " * 3
                service.put_document(dataset_id, name, text, {"lang": lang})
        yield service


def test_a_pipeline_looks_into_its_datasets(kb: Service) -> None:
    found = kb.pipeline("help").search("house")
    assert len(found.hits) == 2
    assert {hit.dataset_id for hit in kb.pipeline("help").search("house", top_k=9).hits} == {
        "faq",
        "manual",
    }
    narrow = kb.pipeline("help").search("house", dataset_id="faq")
    assert {hit.dataset_id for hit in narrow.hits} == {"faq"}
    assert kb.pipeline("help").search(Query(text="house", dataset_id="faq")).hits


def test_a_dataset_of_others_is_refused(kb: Service) -> None:
    view = kb.pipeline("help")
    for places in ({"dataset_id": "news"}, {"dataset_ids": ["faq", "news"]}):
        with pytest.raises(ValidationError, match=r"searches faq, manual, .*'news'"):
            view.search("house", **places)  # type: ignore[arg-type]  # a mapping of either key
    with pytest.raises(ValidationError, match="scope"):
        view.search(Query(text="house", dataset_id="faq", scope="all"))


def test_scope_all_stays_within_the_datasets(kb: Service) -> None:
    found = kb.pipeline("help").search("house", scope="all", top_k=9)
    assert {hit.dataset_id for hit in found.hits} == {"faq", "manual"}


def test_where_of_a_pipeline_always_holds(kb: Service) -> None:
    view = kb.pipeline("english")
    for asked in (
        view.search("house", top_k=9),
        view.search("house", top_k=9, where={"lang": "de"}),
        view.search("house", top_k=9, where={"$or": [{"lang": "de"}, {"lang": "en"}]}),
        view.search(Query(text="house", scope="all", top_k=9, where={"lang": ["de", "en"]})),
        view.search_documents("house", top_k=9),
        *view.search_many(["house", Query(text="garden", scope="all")], top_k=9),
    ):
        assert {hit.metadata["lang"] for hit in asked.hits} <= {"en"}
    assert view.search("house", where={"lang": "de"}).hits == ()
    pack = view.context("house", 300)
    assert {piece.citation.doc_name for piece in pack.pieces} == {"a.txt"}


def test_each_pipeline_has_its_own_steps(kb: Service) -> None:
    plain = kb.search("house", scope="all", mode="bm25").hits
    assert list(kb.pipeline("reverse").search("house").hits) == list(reversed(plain))
    garden = kb.pipeline("garden").search("nothing of this")
    assert [(hit.dataset_id, hit.doc_name, hit.score) for hit in garden.hits] == [
        (hit.dataset_id, hit.doc_name, hit.score) for hit in kb.search("garden", scope="all").hits
    ]
    assert all(set(hit.scores) == {"bm25"} for hit in kb.pipeline("words").search("house").hits)
    assert {lane for hit in kb.search("house", scope="all").hits for lane in hit.scores} == {
        "bm25",
        "vector",
    }


def test_a_context_keeps_to_the_budget_of_its_pipeline(kb: Service) -> None:
    pack = kb.pipeline("small").context("house")
    assert pack.budget == 60
    assert pack.tokens <= 60
    assert pack.pieces
    assert kb.pipeline("small").context("house", 200).budget == 200


def test_an_unknown_pipeline_is_refused_with_the_nearest(kb: Service) -> None:
    assert list(kb.pipelines) == ["help", "english", "garden", "reverse", "words", "small"]
    with pytest.raises(NotFoundError, match=r"no pipeline is called 'gardens': .*'garden'"):
        kb.pipeline("gardens")
    with (
        triptych.open("memory://", embedder=None) as other,
        pytest.raises(NotFoundError, match="there is none"),
    ):
        other.pipeline("x")


@each_row(
    ("pipeline", "said"),
    [
        ({"name": ""}, "name"),
        ({"name": "p", "token_budget": 0}, "token_budget"),
        ({"name": "p", "search": {"topk": 5}}, "no option 'topk'"),
        ({"name": "p", "search": {"dataset_id": "d"}}, "under datasets"),
        ({"name": "p", "datasets": ["ok", ""]}, "dataset"),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused(pipeline: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Pipeline(**pipeline)  # type: ignore[arg-type]  # on purpose


@each_row(
    ("pipelines", "said"),
    [
        ([Pipeline(name="p"), Pipeline(name="p")], "two pipelines are called 'p'"),
        ([Pipeline(name="p", lanes=["sparks"])], "the lane 'sparks'; the lanes are bm25"),
        ([Pipeline(name="p", search={"top_k": 0})], "the pipeline 'p': top_k"),
        ([Pipeline(name="p", search={"where": {"x": None}})], "the pipeline 'p': where"),
        ([Pipeline(name="p", lanes=["bm25"], search={"mode": "vectors"})], "no mode 'vectors'"),
        (["p"], "is not a Pipeline"),
    ],
)
def test_pipelines_are_checked_when_the_service_is_made(
    pipelines: Sequence[Pipeline], said: str
) -> None:
    options = ServiceOptions(embedder=FakeEmbedder(), pipelines=pipelines)
    with pytest.raises(ValidationError, match=said):
        Service(MemoryStore(), options=options)


def test_a_closed_service_searches_by_no_pipeline(kb: Service) -> None:
    view = kb.pipeline("help")
    kb.close()
    with pytest.raises(triptych.StoreError, match="closed"):
        view.search("house")


def test_a_pipeline_that_was_closed_is_made_again(kb: Service) -> None:
    with kb.pipeline("help") as closed:
        assert closed.search("house").hits
    assert kb.pipeline("help").search("house").hits
    assert kb.search("house", dataset_id="faq").hits
    assert kb.pipeline("help") is kb.pipeline("help")


def test_a_lane_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValidationError, match="there is no lane 'sparks'"):
        Service(MemoryStore(), ServiceOptions(lanes=["bm25", "sparks"]))


def test_a_pipeline_is_awaited(kb: Service) -> None:
    async def asked() -> None:
        view = triptych.AsyncService(kb).pipeline("help")
        assert (await view.search("house")).hits == kb.pipeline("help").search("house").hits
        assert (await view.context("house", 100)).budget == 100

    asyncio.run(asked())


@pytest.mark.parametrize("as_query", [True, False])
def test_a_list_that_can_be_read_once_does_not_open_other_datasets(
    kb: Service, as_query: bool
) -> None:
    view = kb.pipeline("small")
    options = {"scope": "all", "dataset_ids": iter(["faq"])}
    query = Query(text="house", **options) if as_query else "house"  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="leave one of the two out"):
        view.search(query, **({} if as_query else options))  # type: ignore[arg-type]
    found = view.search_many(["house", "house"], dataset_ids=iter(["faq"]))  # type: ignore[arg-type]
    assert [{hit.dataset_id for hit in each.hits} for each in found] == [{"faq"}, {"faq"}]


@pytest.mark.parametrize("given", ["faq", 5, None])
def test_datasets_that_are_no_list_are_refused(kb: Service, given: object) -> None:
    with pytest.raises(ValidationError, match="dataset_ids is a list of datasets"):
        kb.pipeline("help").search("house", dataset_ids=given)  # type: ignore[arg-type]


def test_pipelines_of_one_name_over_one_service_keep_their_own_lanes(kb: Service) -> None:
    for lane in ("bm25", "vector"):
        options = ServiceOptions(pipelines=[Pipeline(name="mine", over=kb, lanes=[lane])])
        with Service(MemoryStore(), options=options) as service:
            assert service.pipeline("mine").searches.configuration["lanes"] == lane


@each_row(
    ("weights", "said"),
    [({"bm25": 3.0}, "bm25=3.0 vector=1.0"), ({}, ""), ([0.5, 0.5], ""), (None, "")],
)
def test_the_configuration_has_the_weights_of_lanes(weights: Any, said: str) -> None:
    ranker = ZScoreRanker()
    object.__setattr__(ranker, "weights", weights)  # as that of a ranker of somebody's
    options = ServiceOptions(embedder=FakeEmbedder(), ranker=ranker)
    with Service(MemoryStore(), options=options) as service:
        assert service.searches.configuration["weights"] == said
