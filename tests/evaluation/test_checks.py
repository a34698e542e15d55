"""Expected keywords and questions without an answer, in an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

import triptych
from triptych import Service, ServiceOptions
from triptych.contracts import HitReader
from triptych.records import Hit, ResolvedQuery
from triptych_backends.memory import MemoryStore
from triptych_evaluation import (
    Collection,
    JudgedQuery,
    evaluate,
    evaluation_html,
    read_evaluation,
    write_evaluation,
)

QUERIES = (
    JudgedQuery(
        query_id="limits",
        text="ten requests",
        grades={"limits.md": 1},
        keywords=("TEN  requests", "retry-after", "harbour"),
    ),
    JudgedQuery(query_id="tea", text="leaves", grades={"tea.md": 1}),
    JudgedQuery(query_id="none", text="zebra", unanswerable=True),
    JudgedQuery(query_id="lost", text="requests of zebras", unanswerable=True),
)


@pytest.fixture
def kb() -> Service:
    service = triptych.open("memory://", embedder="none")
    service.put_documents(
        "d",
        {
            "limits.md": "At most ten\nrequests are served.",
            "other.md": "Ten harbour requests.\n\nSee Retry-After.",
            "tea.md": "Leaves in hot water.",
        },
    )
    return service


def test_keywords_are_looked_for_in_the_first_hit_and_in_ten(kb: Service) -> None:
    hits = kb.search("ten requests served", dataset_id="d").hits
    assert [hit.doc_name for hit in hits] == ["limits.md", "other.md"]
    found = evaluate(kb, Collection(name="c", queries=QUERIES[:1]), dataset_id="d")
    checks = found.modes["bm25"].checks
    assert checks["keywords@1"].mean == pytest.approx(1 / 3)
    assert checks["keywords@10"].mean == 1
    nowhere = attrs.evolve(QUERIES[0], keywords=["x"])
    found = evaluate(kb, Collection(name="c", queries=[nowhere]), dataset_id="d")
    assert found.modes["bm25"].checks["keywords@10"].mean == 0


def test_checks_stand_beside_the_ranking(kb: Service, tmp_path: Path) -> None:
    found = evaluate(kb, Collection(name="c", queries=QUERIES), dataset_id="d")
    # Questions without an answer are in no mean of the ranking.
    assert found.query_ids == ("limits", "tea")
    result = found.modes["bm25"]
    assert result.estimates["recall@10"].mean == 1.0
    means = {name: estimate.mean for name, estimate in result.checks.items()}
    assert list(means) == ["keywords@1", "keywords@10", "abstention_precision", "abstention_recall"]
    assert means["keywords@10"] == 1.0
    # What `ask` abstains by, calibrated or not.
    assert (means["abstention_precision"], means["abstention_recall"]) == (1.0, 1.0)
    write_evaluation(tmp_path / "e.json", found)
    assert read_evaluation(tmp_path / "e.json").modes["bm25"].checks == result.checks
    assert "abstention_recall" in evaluation_html(found)


class Counting:
    """A step that counts the searches for chunks."""

    searches = 0

    def depth(self, query: ResolvedQuery) -> int:
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        self.searches += 1
        return hits


def test_without_anything_to_check_nothing_is_searched_again() -> None:
    step = Counting()
    kb = Service(MemoryStore(), options=ServiceOptions(postprocessors=[step]))
    kb.put_document("d", "tea.md", "Leaves in hot water.")
    found = evaluate(kb, Collection(name="c", queries=QUERIES[1:2]), dataset_id="d")
    assert (found.modes["bm25"].checks, step.searches) == ({}, 0)
    evaluate(kb, Collection(name="c", queries=QUERIES[:3]), dataset_id="d")
    assert step.searches == 3
