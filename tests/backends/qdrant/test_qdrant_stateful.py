"""Two stores over one truth and one Qdrant: whatever happens, searches find what is stored."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: the extra qdrant")
pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed: the extra dev has it")

from hypothesis import HealthCheck, given, settings, strategies as st

from support.qdrant_late import Late
from triptych_backends.sqlite import SqliteStore
from triptych_qdrant import AwayError, QdrantStore
from triptych_testing.builders import fill, vector_of, vector_query

WORDS = ("salmon", "river", "stone", "salmon salmon", "!!!")
CONTENTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("\n\n".join)
Step = Callable[[QdrantStore, str], object]


def written(contents: dict[str, str]) -> Step:
    return lambda store, dataset: fill(store, dataset, contents)


def deleted(name: str) -> Step:
    return lambda store, dataset: store.documents.delete(dataset, name)


def cut_off(contents: dict[str, str], left: int) -> Step:
    """After a write, a search whose writes to Qdrant, but for the first, are cut off."""

    def step(store: QdrantStore, dataset: str) -> None:
        fill(store, dataset, contents)
        late = store.collections
        assert isinstance(late, Late)
        late.left = left
        with suppress(AwayError):
            store.chunks.search(vector_query(vector_of("salmon"), dataset))
        late.left = 1_000_000

    return step


def arrived(name: str) -> Step:
    """What was cut off is done after a document was deleted, and a search saw that."""

    def step(store: QdrantStore, dataset: str) -> None:
        store.documents.delete(dataset, name)
        checked(store, dataset)
        assert isinstance(store.collections, Late)
        store.collections.arrive()
        checked(store, dataset)

    return step


def checked(store: QdrantStore, dataset: str) -> None:
    """Qdrant finds what the truth's own search finds, with its scores."""
    query = vector_query(vector_of("salmon"), dataset, top_k=50)
    ours, truth = (
        {(each.doc_name, each.index): each.score for each in found}
        for found in (store.chunks.search(query), store.truth.searcher.search("chunk", query))
    )
    assert ours == pytest.approx(truth, abs=2e-4)


NAMES = st.sampled_from("abc")
DOCUMENTS = st.dictionaries(NAMES, CONTENTS, min_size=1)
STEPS = st.one_of(
    st.builds(written, DOCUMENTS),
    st.builds(deleted, NAMES),
    st.builds(cut_off, DOCUMENTS, st.integers(0, 12)),
    st.builds(arrived, NAMES),
    st.sampled_from([lambda store, _: store.scrub(), checked]),
    st.just(lambda store, dataset: store.documents.delete_dataset(dataset)),
)


@pytest.mark.slow
@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(
        st.tuples(STEPS, st.booleans(), st.sampled_from(["d", "e"])), min_size=5, max_size=25
    )
)
def test_searches_find_what_is_stored_whatever_arrives_when(
    monkeypatch: pytest.MonkeyPatch, steps: list[tuple[Step, bool, str]]
) -> None:
    monkeypatch.setattr("triptych_qdrant.feed.OWNERS_AT_ONCE", 1)
    with TemporaryDirectory() as folder:
        late = Late(Path(folder) / "qdrant")
        truths = [
            SqliteStore.open(Path(folder) / "kb.db", background_index=False) for _ in range(2)
        ]
        stores = [QdrantStore(truth, late) for truth in truths]
        for dataset in ("d", "e"):
            fill(stores[0], dataset, {"a": "salmon\n\nriver", "b": "stone"})
            for store in stores:  # which is when what others left is removed
                checked(store, dataset)
        for step, which, dataset in steps:
            step(stores[which], dataset)
        for store in stores:
            for dataset in ("d", "e"):
                checked(store, dataset)
        for truth in truths:
            truth.close()
        late.close()
