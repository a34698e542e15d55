"""`evaluate` and `compare` over a real store: what is measured, told, kept and compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

import triptych
from triptych import CancelledError, NewDocument, NotAvailableError, NotFoundError, Progress
from triptych.errors import ValidationError
from triptych.records import Mode
from triptych.service import Service
from triptych_evaluation import (
    Collection,
    JudgedPassage,
    JudgedQuery,
    MalformedFileError,
    compare,
    compare_modes,
    evaluate,
    evaluation_json,
    metric_names,
    read_evaluation,
    read_run,
    score_run,
    write_evaluation,
    write_run,
)
from triptych_testing.fakes import CoveringEmbedder

TOPICS = ("kettle", "broker", "ledger", "violin", "glacier", "compiler")
LIMITS = "# Limits\n\nAt most ten\nrequests.\n\n## Retries\n\nThey back off slowly.\n"


def query(query_id: str, text: str, **grades: int) -> JudgedQuery:
    return JudgedQuery(query_id=query_id, text=text, grades=grades)


@pytest.fixture
def service() -> Iterator[Service]:
    with triptych.open("memory://", embedder="hash") as opened:
        documents = [
            NewDocument(name=topic, content=f"About the {topic} and how a {topic} works.")
            for topic in TOPICS
        ]
        opened.put_documents("docs", [*documents, NewDocument(name="g/limits.md", content=LIMITS)])
        yield opened


@pytest.fixture
def collection() -> Collection:
    queries = [query(topic[:1], f"how does a {topic} work", **{topic: 1}) for topic in TOPICS]
    return Collection(name="topics", queries=tuple(queries))


def test_every_mode_is_scored_with_intervals_and_times(
    service: Service, collection: Collection
) -> None:
    moves: list[Progress] = []
    found = evaluate(service, collection, dataset_id="docs", cutoffs=(1, 5), progress=moves.append)
    assert list(found.modes) == ["bm25", "vector", "hybrid"]
    assert found.query_ids == ("k", "b", "l", "v", "g", "c")
    bm25 = found.modes["bm25"]
    assert found.metrics == metric_names((1, 5))
    assert bm25.estimates["ndcg@5"].mean == 1
    assert bm25.values["recall@1"] == (1,) * 6
    assert len(bm25.recall_at_depth) == 5
    assert 0 < bm25.latency.p50 <= bm25.latency.p95 <= bm25.latency.p99
    assert found.warnings[0].startswith("6 queries are few")
    assert [(move.phase, move.done, move.total) for move in moves] == [
        (str(mode), 6, 6) for mode in Mode
    ]
    configuration = found.configuration
    assert configuration["triptych"] == triptych.__version__
    assert configuration["documents"] == 7
    assert configuration["language"] == "auto"
    assert str(configuration["embedder"]).startswith("hash")
    assert configuration["depth"] == 5
    assert "ZScoreRanker" in configuration["ranker"]
    assert configuration["postprocessors"] == []


def test_the_scores_are_those_of_the_rankings(
    service: Service, collection: Collection, tmp_path: Path
) -> None:
    """A run written as a TREC file scores the same, though trec_eval breaks ties otherwise."""
    judged = {each.query_id: each.grades for each in collection.queries}
    found = evaluate(service, collection, dataset_id="docs", cutoffs=(1, 3))
    for mode, result in found.modes.items():
        write_run(tmp_path / mode, result.rankings)
        run = {key: [name for name, _ in each] for key, each in read_run(tmp_path / mode).items()}
        scores = score_run(run, judged, cutoffs=(1, 3))
        for metric in found.metrics:
            assert [row[metric] for row in scores.values()] == list(result.values[metric])
        curve = result.recall_at_depth
        assert curve[0] == pytest.approx(result.estimates["recall@1"].mean)
        assert curve[2] == pytest.approx(result.estimates["recall@3"].mean)


def test_hits_beyond_the_depth_count_for_nothing(service: Service) -> None:
    asked = Collection(name="c", queries=(query("q", "how works", **dict.fromkeys(TOPICS, 1)),))
    shallow = evaluate(service, asked, dataset_id="docs", modes=["bm25"], cutoffs=(2,))
    assert len(shallow.modes["bm25"].rankings["q"]) == 2
    assert shallow.modes["bm25"].estimates["map"].mean == pytest.approx(2 / 6)


@pytest.mark.parametrize("granularity", ["document", "chunk"])
def test_an_excluded_document_gives_its_place_to_the_next(
    service: Service, granularity: str
) -> None:
    words = "About the kettle and how a kettle works."
    service.put_document("docs", "copy.md", f"# One\n\n{words}\n\n# Two\n\n{words}\n")
    plain = query("q", words, kettle=1)
    own = attrs.evolve(plain, excluded=("copy.md", "nowhere"))
    ranks = {}
    for asked in (plain, own):
        found = evaluate(
            service,
            Collection(name="c", queries=(asked,)),
            dataset_id="docs",
            modes=["bm25"],
            granularity=granularity,
            cutoffs=(3,),
        ).modes["bm25"]
        names = [name.partition("#")[0] for name, _ in found.rankings["q"]]
        assert len(names) == 3
        ranks[asked.excluded] = names
    assert "copy.md" in ranks[()]
    assert "copy.md" not in ranks[own.excluded]


def test_what_cannot_be_found_is_reported_and_counts_as_not_found(service: Service) -> None:
    asked = Collection(
        name="c",
        queries=(
            query("gone", "kettle", kettle=1, nowhere=1),
            query("none", "kettle", kettle=0),
            query("blank", " ", kettle=1),
        ),
    )
    found = evaluate(service, asked, dataset_id="docs", modes=["bm25"], cutoffs=(5,))
    bm25 = found.modes["bm25"]
    assert bm25.values["recall@5"] == (0.5, 0, 0)
    assert any("no relevant judgement for 1 query, which" in each for each in found.warnings)
    assert any(
        "lacks 1 relevant document or passage," in each and "nowhere" in each
        for each in found.warnings
    )
    assert bm25.warnings[0].startswith(
        "1 query could not be served, with score 0: 'blank'; the first: "
    )
    assert bm25.latencies[2] == 0
    assert bm25.latency.p50 > 0


def test_a_query_that_the_model_does_not_cover_scores_zero_with_a_warning() -> None:
    with triptych.open("memory://", embedder=CoveringEmbedder()) as service:
        service.put_documents("d", {"a": "plain words", "b": "词语"})
        asked = Collection(
            name="c", queries=(query("1", "plain words", a=1), query("2", "词语", b=1))
        )
        found = evaluate(service, asked, dataset_id="d", cutoffs=(1,))
    assert found.modes["vector"].values["success@1"] == (1, 0)
    assert "1 query could not be served" in found.modes["vector"].warnings[0]
    assert found.modes["hybrid"].values["success@1"] == (1, 1)
    assert "1 search warned" in found.modes["hybrid"].warnings[0]


def test_chunks_are_scored_by_document_or_by_passage(service: Service) -> None:
    passage = JudgedPassage(document="limits.md", text="At most ten requests.", grade=2)
    asked = Collection(
        name="golden",
        by_suffix=True,
        queries=(
            JudgedQuery(
                query_id="limit",
                text="how many requests at most",
                grades={"limits.md": 2},
                passages=(passage,),
            ),
            JudgedQuery(query_id="file", text="back off slowly", grades={"limits.md": 1}),
            JudgedQuery(
                query_id="drifted",
                text="requests",
                grades={"limits.md": 1},
                passages=(attrs.evolve(passage, text="At most nine requests."),),
            ),
        ),
    )
    found = evaluate(
        service,
        asked,
        dataset_id="docs",
        modes=["bm25"],
        granularity="chunk",
        cutoffs=(1, 10),
        budgets=(1, 500),
    )
    values = found.modes["bm25"].values
    assert values["recall@1"] == (1, 1, 0)
    assert values["evidence@1"] == (0, 0, 0)
    assert values["evidence@500"] == (1, 1, 0)
    assert any("g/limits.md#p1" in each for each in found.warnings)
    documents = evaluate(service, asked, dataset_id="docs", modes=["bm25"], cutoffs=(1,))
    assert documents.modes["bm25"].values["recall@1"] == (1, 1, 1)
    assert not any(name.startswith("evidence") for name in documents.metrics)


def test_tokens_are_counted_by_whom_the_caller_names(
    service: Service, collection: Collection
) -> None:
    found = evaluate(
        service,
        collection,
        dataset_id="docs",
        modes=["bm25"],
        granularity="chunk",
        budgets=(9, 10),
        count_tokens=lambda text: 10,
    )
    assert found.modes["bm25"].estimates["evidence@9"].mean == 0
    assert found.modes["bm25"].estimates["evidence@10"].mean == 1


def test_invalid_input_is_refused(service: Service, collection: Collection) -> None:
    for wrong in (
        {"modes": ["fuzzy"]},
        {"modes": []},
        {"modes": ["bm25", "bm25"]},
        {"granularity": "word"},
        {"cutoffs": ()},
        {"cutoffs": (0,)},
        {"cutoffs": (20_000,)},
        {"granularity": "chunk", "budgets": (0,)},
        {"least_grade": 0},
    ):
        with pytest.raises(ValidationError):
            evaluate(service, collection, dataset_id="docs", **wrong)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(NotFoundError):
        evaluate(service, collection, dataset_id="nowhere")
    with pytest.raises(ValidationError):
        evaluate(service, Collection(name="c", queries=()), dataset_id="docs")
    with pytest.raises(CancelledError), triptych.deadline(0):
        evaluate(service, collection, dataset_id="docs")


def test_a_mode_that_serves_no_query_raises(collection: Collection) -> None:
    with triptych.open("memory://", embedder=None) as service:
        service.put_document("docs", "kettle", "About the kettle.")
        assert list(evaluate(service, collection, dataset_id="docs").modes) == ["bm25"]
        with pytest.raises(NotAvailableError):
            evaluate(service, collection, dataset_id="docs", modes=["vector"])


def test_a_mode_that_serves_no_query_is_left_out_unless_it_was_named() -> None:
    asked = Collection(name="c", queries=(query("1", "词语", a=1),))
    with triptych.open("memory://", embedder=CoveringEmbedder()) as service:
        service.put_document("d", "a", "词语")
        found = evaluate(service, asked, dataset_id="d")
        assert list(found.modes) == ["bm25", "hybrid"]
        assert any(each.startswith("mode 'vector' is left out") for each in found.warnings)
        with pytest.raises(NotAvailableError):
            evaluate(service, asked, dataset_id="d", modes=["vector"])


def test_json_keeps_an_evaluation(service: Service, collection: Collection, tmp_path: Path) -> None:
    found = evaluate(service, collection, dataset_id="docs", granularity="chunk")
    file = tmp_path / "out.json"
    write_evaluation(file, found)
    assert read_evaluation(file) == found
    assert next(iter(json.loads(file.read_bytes()))) == "format"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{\n!", "not JSON"),
        ("[]", "its format is None"),
        ('{"format": "triptych-evaluation/2"}', "triptych-evaluation/2"),
        ('{"format": "triptych-evaluation/1"}', "not a whole evaluation"),
    ],
)
def test_a_file_that_is_no_evaluation_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text, encoding="utf-8")
    with pytest.raises(MalformedFileError, match=said):
        read_evaluation(tmp_path / "bad.json")
    with pytest.raises(NotFoundError):
        read_evaluation(tmp_path / "none.json")


def test_an_evaluation_with_a_value_cut_off_is_refused(
    service: Service, collection: Collection, tmp_path: Path
) -> None:
    value = evaluation_json(evaluate(service, collection, dataset_id="docs", modes=["bm25"]))
    value["modes"]["bm25"]["values"]["mrr"].pop()
    (tmp_path / "bad.json").write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(MalformedFileError, match="6 values"):
        read_evaluation(tmp_path / "bad.json")


def test_two_evaluations_are_compared_by_query(service: Service, collection: Collection) -> None:
    # Half of the queries of the second one ask for something else.
    worse = attrs.evolve(
        collection,
        queries=tuple(
            attrs.evolve(each, text="nothing of the kind") if at % 2 else each
            for at, each in enumerate(collection.queries[:-1])
        ),
    )
    first, second = (
        evaluate(service, each, dataset_id="docs", modes=["bm25"], cutoffs=(5,))
        for each in (collection, worse)
    )
    found = compare(first, second, metrics=["recall@5", "mrr"])
    assert found.query_ids == second.query_ids
    recall, mrr = found.differences
    assert (recall.metric, recall.mode_a, recall.mode_b) == ("recall@5", "bm25", "bm25")
    assert recall.values == (0, -1, 0, -1, 0)
    assert (recall.better, recall.worse) == (0, 2)
    assert recall.estimate.mean == pytest.approx(recall.mean_b - recall.mean_a) == -0.4
    assert recall.estimate.low < -0.4 < recall.estimate.high
    assert recall.p == pytest.approx(0.5, abs=0.03)  # 2 of 4 ways to swap two differences
    assert recall.p_holm == pytest.approx(min(1, 2 * min(recall.p, mrr.p)))
    assert any("skipped 1 query that only one" in each for each in found.warnings)


def test_queries_are_paired_by_id_whatever_their_order(
    service: Service, collection: Collection
) -> None:
    first = attrs.evolve(
        collection,
        queries=(attrs.evolve(collection.queries[0], text="nothing"), *collection.queries[1:]),
    )
    second = attrs.evolve(first, queries=first.queries[::-1])
    left, right = (
        evaluate(service, each, dataset_id="docs", modes=["bm25"], cutoffs=(5,))
        for each in (first, second)
    )
    assert left.modes["bm25"].values["mrr"][0] == 0
    (found,) = compare(left, right, metrics=["mrr"]).differences
    assert found.values == (0,) * 6


def test_modes_of_one_evaluation_are_compared(service: Service, collection: Collection) -> None:
    found = evaluate(service, collection, dataset_id="docs", cutoffs=(5,))
    comparison = compare_modes(found, "bm25", "hybrid")
    assert [each.metric for each in comparison.differences] == found.metrics
    assert {(each.mode_a, each.mode_b) for each in comparison.differences} == {("bm25", "hybrid")}
    assert comparison.differences[0].p == 1.0
    for wrong in ({"metrics": ["f1"]}, {"modes": [("bm25", "x")]}, {"modes": []}):
        with pytest.raises(ValidationError):
            compare(found, found, **wrong)  # type: ignore[arg-type]  # on purpose
    other = attrs.evolve(found, query_ids=tuple("abcdef"), collection="other")
    with pytest.raises(ValidationError, match="share 0 queries"):
        compare(found, attrs.evolve(found, query_ids=tuple("stuwxy")))
    assert any("collections differ" in each for each in compare(found, other).warnings)
