"""`Service.explain`: where a document stands in a search, and what keeps it out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import triptych
from triptych import NotFoundError, Query, Service, ServiceOptions, ValidationError
from triptych.access import Access
from triptych.contracts import HitReader
from triptych.records import Explanation, Hit, NewDocument, ResolvedQuery
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import FakeSparseEncoder


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    where = "memory://" if request.param == "memory" else str(tmp_path / "kb.db")
    with triptych.open(where, embedder="hash") as service:
        service.put_documents(
            "d",
            [
                NewDocument(
                    name="tea.md", content="# Tea\n\nGreen tea is steeped for two minutes."
                ),
                NewDocument(
                    name="coffee.md",
                    content="# Coffee\n\nCoffee beans are roasted and ground.",
                    metadata={"lang": "de"},
                ),
                *(
                    NewDocument(name=f"n{at:02}.md", content=f"# Note {at}\n\nTea, note {at}.")
                    for at in range(20)
                ),
            ],
        )
        yield service


def kinds(explanation: Explanation) -> list[str]:
    return [each.kind for each in explanation.obstacles]


def test_what_is_shown_has_its_rank_and_no_obstacle(kb: Service) -> None:
    found = kb.search("green tea steeped", dataset_id="d")
    told = kb.explain("green tea steeped", "tea.md", dataset_id="d")
    place = [hit.doc_name for hit in found].index("tea.md")
    assert told.rank == place + 1
    assert told.score == found[place].score
    assert told.needed == found[-1].score
    assert told.obstacles == ()
    assert told.matched == ("green", "tea", "steeped")
    assert told.lacking == ()
    assert {each.lane: each.score for each in told.lanes} == dict(found[place].scores)
    assert [each.rank for each in told.lanes if each.lane == "bm25"] == [1]


def test_a_document_without_the_words_is_found_by_no_keyword(kb: Service) -> None:
    told = kb.explain("green tea", "coffee.md", dataset_id="d", mode="bm25")
    assert told.rank is None
    assert told.matched == ()
    assert told.lacking == ("green", "tea")
    assert kinds(told) == ["not_found"]
    (lane,) = told.lanes
    assert (lane.lane, lane.rank, lane.score) == ("bm25", None, None)


@pytest.mark.parametrize(("mode", "place", "kind"), [("hybrid", 5, "top_k"), ("bm25", 20, "rank")])
def test_better_hits_leave_no_room(kb: Service, mode: str, place: int, kind: str) -> None:
    every = kb.search("tea note", dataset_id="d", mode=mode, top_k=20)
    told = kb.explain("tea note", every[place - 1].doc_name, dataset_id="d", mode=mode, top_k=3)
    assert kinds(told) == [kind]
    assert told.fused_rank == (place if kind == "top_k" else None)
    assert told.needed == every[2].score
    ranks = {each.lane: each.rank for each in told.lanes}
    assert ranks["bm25"] is not None
    assert mode == "hybrid" or ranks == {"bm25": place}


@pytest.mark.parametrize(
    ("query", "options", "kind"),
    [
        ("coffee", {"where": {"lang": "en"}}, "filter"),
        ("coffee lang:en", {"syntax": True}, "filter"),
        ("coffee", {"where": {"doc_prefix": "x/"}}, "filter"),
        ("coffee", {"where": {"heading": "Tea"}}, "filter"),
        ("coffee", {"where": {"$not": {"lang": "de"}}}, "filter"),
        ("coffee", {"threshold": 1e9}, "threshold"),
        ("coffee", {"min_scores": {"bm25": 1e9}, "mode": "bm25"}, "min_score"),
        ('coffee "never said"', {"syntax": True}, "condition"),
        ("coffee -roasted", {"syntax": True}, "condition"),
    ],
)
def test_each_obstacle_is_named(
    kb: Service, query: str, options: dict[str, Any], kind: str
) -> None:
    assert not any(
        hit.doc_name == "coffee.md" for hit in kb.search(query, dataset_id="d", **options)
    )
    told = kb.explain(query, "coffee.md", dataset_id="d", **options)
    assert told.rank is None
    assert kind in kinds(told)
    # What is in the way here is not in the way of the plain query.
    assert kb.explain("coffee", "coffee.md", dataset_id="d").rank == 1


def test_what_has_expired_is_named_and_what_is_not_there_is_not_found(kb: Service) -> None:
    soon = datetime.now(UTC) + timedelta(milliseconds=1)
    kb.put_document("d", "old.md", "A kettle.", expires_at=soon)
    while datetime.now(UTC) <= soon:
        pass
    assert kinds(kb.explain("kettle", "old.md", dataset_id="d")) == ["expired"]
    with pytest.raises(NotFoundError):
        kb.explain("kettle", "never.md", dataset_id="d")


def test_of_what_an_access_does_not_show_nothing_is_told(kb: Service) -> None:
    restricted = kb.restricted(Access(where={"lang": "en"}))
    with pytest.raises(NotFoundError) as hidden:
        restricted.explain("coffee", "coffee.md", dataset_id="d")
    with pytest.raises(NotFoundError) as missing:
        restricted.explain("coffee", "coffeX.md", dataset_id="d")
    assert str(hidden.value).replace("coffee.md", "coffeX.md") == str(missing.value)


def test_a_document_without_chunks_and_one_that_waits_for_vectors(kb: Service) -> None:
    kb.put_document("d", "late.md", "Late leaves.", embed="later")
    told = kb.explain("zebra", "late.md", dataset_id="d", mode="vector")
    assert "no_vectors" in kinds(told)
    kb.chunks.delete_by_doc("d", "late.md")
    assert "not_indexed" in kinds(kb.explain("leaves", "late.md", dataset_id="d"))


def test_what_lacks_its_sparse_vectors_is_told_from_what_has_no_word_in_common() -> None:
    options = ServiceOptions(sparse_encoder=FakeSparseEncoder())
    with Service(MemoryStore(), options=options) as kb:
        kb.put_document("d", "tea.md", "Green tea.")
        kb.put_document("d", "late.md", "Late leaves.", embed="later")
        kb.put_document("d", "far.md", "Nothing else.")
        told = {
            n: kinds(kb.explain("leaves", n, dataset_id="d", mode="sparse"))
            for n in ("late.md", "far.md")
        }
    assert "no_vectors" in told["late.md"]
    assert "no_vectors" not in told["far.md"]


def test_a_document_in_several_datasets_must_be_chosen(kb: Service) -> None:
    kb.put_document("e", "tea.md", "Tea elsewhere.")
    with pytest.raises(ValidationError, match=r"'d', 'e'"):
        kb.explain("tea", "tea.md", scope="all")
    assert kb.explain("elsewhere", "tea.md", dataset_id="e").dataset_id == "e"


def test_a_query_without_words_ranks_nothing(kb: Service) -> None:
    with pytest.raises(ValidationError):
        kb.explain("", "tea.md", dataset_id="d", where={"lang": "de"})


class WithoutCoffee:
    def depth(self, query: ResolvedQuery) -> int:
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        return [hit for hit in hits if "coffee" not in hit.doc_name]


def test_the_step_that_leaves_it_out_is_named() -> None:
    with triptych.open("memory://", embedder="hash", postprocessors=[WithoutCoffee()]) as kb:
        kb.put_documents("d", {"coffee.md": "Coffee.", "tea.md": "Tea."})
        told = kb.explain(Query(text="coffee", dataset_id="d"), "coffee.md")
    (obstacle,) = told.obstacles
    assert obstacle.kind == "step"
    assert "WithoutCoffee" in obstacle.message


def test_a_low_score_in_one_lane_is_not_the_reason_where_another_finds_it(kb: Service) -> None:
    options: dict[str, Any] = {"dataset_id": "d", "min_scores": {"bm25": 1e9}}
    place = [hit.doc_name for hit in kb.search("tea note", top_k=30, **options)][5]
    assert kinds(kb.explain("tea note", place, top_k=2, **options))[-1] == "top_k"


def test_a_score_too_low_in_every_lane_is_the_only_reason(kb: Service) -> None:
    options: dict[str, Any] = {"mode": "bm25", "min_scores": {"bm25": 1e9}}
    assert kinds(kb.explain("coffee", "coffee.md", dataset_id="d", **options)) == ["min_score"]


def test_a_condition_is_met_by_any_passage(kb: Service) -> None:
    filler = "other " * 80  # sections that are not small are not joined
    long = "".join(f"# Part {at}\n\n{filler} omega {'zz5' * at}.\n\n" for at in (1, 0))
    kb.put_document("d", "m.md", long)
    told = kb.explain("omega -zz5", "m.md", dataset_id="d", mode="bm25", syntax=True)
    assert told.rank == 1


def test_headings_are_those_of_the_passages(kb: Service) -> None:
    told = kb.explain("coffee", "coffee.md", dataset_id="d", where={"heading": "Tea"})
    assert "['Coffee']" in told.obstacles[0].message


def test_steps_reach_as_deep_as_in_the_search(kb: Service) -> None:
    options: dict[str, Any] = {"dataset_id": "d", "keyword_boost": 3.0, "top_k": 2}
    for place, hit in enumerate(kb.search("green tea", **options), start=1):
        told = kb.explain("green tea", hit.doc_name, **options)
        assert (told.rank, told.score) == (place, hit.score)
        assert told.fused_rank is not None


def test_a_stale_layer_is_not_fresh(kb: Service) -> None:
    kb.put_document_layer("d", "tea.md", "L0", "About green leaves.")
    kb.put_document("d", "tea.md", "# Tea\n\nBlack tea.")
    told = kb.explain("green", "tea.md", dataset_id="d", layer="L0", fresh_only=True, mode="bm25")
    assert kinds(told) == ["not_fresh"]


def test_what_has_expired_still_has_its_words(kb: Service) -> None:
    soon = datetime.now(UTC) + timedelta(milliseconds=1)
    kb.put_document("d", "old.md", "A kettle.", expires_at=soon)
    while datetime.now(UTC) <= soon:
        pass
    assert kb.explain("kettle", "old.md", dataset_id="d").matched == ("kettle",)


def test_layers_have_their_own_places(kb: Service) -> None:
    kb.put_document_layer("d", "tea.md", "L0", "About green leaves.")
    told = kb.explain("green leaves", "tea.md", dataset_id="d", layer="L0")
    assert told.rank == 1
    assert kinds(kb.explain("beans", "coffee.md", dataset_id="d", layer="L0")) == ["not_indexed"]


def test_the_past_is_explained_as_it_was(kb: Service) -> None:
    version = kb.get_document("d", "coffee.md").version
    kb.put_document("d", "coffee.md", "Something else altogether.")
    told = kb.explain("roasted", "coffee.md", dataset_id="d", mode="bm25", as_of=version)
    assert told.rank == 1
    assert told.matched == ("roasted",)


def test_words_of_a_script_without_spaces(kb: Service) -> None:
    kb.create_dataset("zh", language="none")
    kb.put_document("zh", "a.md", "知识库保存文档。")
    told = kb.explain("知识库在哪里", "a.md", dataset_id="zh", mode="bm25")
    assert told.rank == 1
    assert "知识库" in "".join(told.matched) or "知识" in told.matched
    assert told.lacking
