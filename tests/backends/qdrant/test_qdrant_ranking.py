"""Searches on Qdrant's real engine, in this process: the local stores' order and scores."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: the extra qdrant")
pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed: the extra dev has it")

from support.qdrant_edge import EdgeCollections
from triptych.records import Candidate
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_qdrant import QdrantStore
from triptych_testing import Harness, assert_backends_rank_alike
from triptych_testing.builders import fill, keyword_query, vector_of, vector_query

FLOAT32 = 2.5e-6
"""How far apart a sum of 32 bits and one of 64 may be, both rounded to 1e-6."""


def open_store(folder: Path) -> QdrantStore:
    truth = SqliteStore.open(folder / "kb.db", background_index=False)
    return QdrantStore(truth, EdgeCollections(folder / "qdrant"))


def test_it_ranks_as_memory_does(tmp_path: Path) -> None:
    assert_backends_rank_alike(
        Harness(open=MemoryStore), Harness(open=lambda: open_store(tmp_path)), tolerance=FLOAT32
    )


def shown(found: list[Candidate]) -> list[tuple[str, float]]:
    return [(each.doc_name, each.score) for each in found]


def test_datasets_of_two_spaces_are_searched_together(tmp_path: Path) -> None:
    """They lie in two collections; the statistics of words are those of both."""
    from attrs import evolve

    from triptych_testing.builders import CONFIG

    with open_store(tmp_path) as store, MemoryStore() as other:
        for each in (store, other):
            fill(each, "a", {"1": "salmon river", "2": "stone"})
            fill(each, "b", {"1": "salmon"}, evolve(CONFIG, embed_sig="space/2"))
            fill(each, "c", {"1": "salmon salmon"}, evolve(CONFIG, embed_sig=""))
        words = keyword_query("salmon", "a", "b", "c")
        near = vector_query(vector_of("salmon"), "a", "b", "c")
        assert shown(list(store.chunks.search(words))) == shown(list(other.chunks.search(words)))
        assert [each.score for each in store.chunks.search(near)] == pytest.approx(
            [each.score for each in other.chunks.search(near)], abs=FLOAT32
        )
        assert {each.dataset_id for each in store.chunks.search(near)} == {"a"}
        assert len(store.collections.names()) == 3


def test_a_filter_that_few_pass_is_not_short(tmp_path: Path) -> None:
    contents = {f"{number:03}": f"salmon {number}" for number in range(200)}
    metadata = {name: {"rare": name.endswith("7")} for name in contents}
    with open_store(tmp_path) as store:
        fill(store, "d", contents, metadata=metadata)
        from triptych.records import Filter, parse_filter

        where = Filter(tree=parse_filter({"rare": True}))
        words = keyword_query("salmon", "d", top_k=50, where=where)
        near = vector_query(vector_of("salmon"), "d", top_k=50, where=where)
        for query in (words, near):
            assert {each.doc_name for each in store.chunks.search(query)} == {
                name for name in contents if name.endswith("7")
            }
