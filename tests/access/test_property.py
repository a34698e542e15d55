"""Whatever was written by whomever: a search under a filter is one of a store without others."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st

from support.access_pair import options
from support.examples import examples
from triptych.access import Access
from triptych.records import Layer
from triptych.service import Service
from triptych_backends.memory import MemoryStore

WORDS = ("storm", "tide", "rope", "anchor", "keeper", "zebra")
TEAMS = ("ours", "theirs", "none")

texts = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join), min_size=1, max_size=3
).map(lambda several: "\n\n".join(f"# {text}\n\n{text}" for text in several))
writes = st.lists(
    st.tuples(
        st.sampled_from(("kb", "zoo")),
        st.sampled_from(("a.md", "b/c.md", "b/d.md", "e.md")),
        texts,
        st.sampled_from(TEAMS),
        st.sampled_from(("put", "put", "put", "delete", "layer")),
    ),
    min_size=1,
    max_size=10,
)
questions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
asked = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(("bm25", "vector", "sparse", "hybrid")),
        "top_k": st.integers(1, 6),
        "layer": st.sampled_from(("L2", "L2", "L0")),
    },
    optional={
        "where": st.sampled_from(
            ({"doc_prefix": "b/"}, {"team": "theirs"}, {"$not": {"doc_name": "a.md"}})
        ),
        "per_document": st.integers(1, 2),
        "offset": st.integers(0, 2),
        "syntax": st.booleans(),
    },
)


def write(service: Service, several: list[tuple[str, str, str, str, str]]) -> None:
    for dataset_id, name, text, team, what in several:
        if what == "delete":
            service.delete_document(dataset_id, name)
            continue
        service.put_document(dataset_id, name, text, {"team": team})
        if what == "layer":
            first = text.partition("\n")[0]
            service.put_document_layer(dataset_id, name, Layer.ABSTRACT, f"About {first}")


def said(service: Service, question: str, given: dict[str, Any]) -> Any:
    """What a search answers, but for the versions, which others' writes do not change either."""
    try:
        found = service.search(question, scope="all", **given)
    except Exception as error:  # noqa: BLE001 - an error is an answer, too
        return type(error), str(error)
    hits = [
        (
            hit.dataset_id,
            hit.doc_name,
            hit.chunk_index,
            hit.content,
            hit.score,
            hit.scores,
            hit.stale,
        )
        for hit in found.hits
    ]
    return hits, found.exhausted, found.warnings, found.evidence


@settings(max_examples=examples(40), deadline=None)
@given(writes, st.lists(st.tuples(questions, asked), min_size=1, max_size=4))
def test_a_search_under_a_filter_is_that_of_a_store_without_others(
    several: list[tuple[str, str, str, str, str]], searches: list[tuple[str, dict[str, Any]]]
) -> None:
    with (
        Service(MemoryStore(), options=options()) as whole,
        Service(MemoryStore(), options=options()) as twin,
    ):
        write(whole, several)
        for dataset_id in whole.list_datasets():
            for info in whole.list_documents(dataset_id, where={"team": "ours"}):
                document = whole.get_document(dataset_id, info.name)
                twin.put_document(dataset_id, info.name, document.content, info.metadata)
                layer = whole.layer(dataset_id, info.name, Layer.ABSTRACT)
                if layer is not None and layer.stale is None:
                    twin.put_document_layer(dataset_id, info.name, Layer.ABSTRACT, layer.content)
                elif layer is not None:
                    whole.put_document_layer(dataset_id, info.name, Layer.ABSTRACT, "About it.")
                    twin.put_document_layer(dataset_id, info.name, Layer.ABSTRACT, "About it.")
        ours = whole.restricted(Access(where={"team": "ours"}))
        assert ours.list_datasets() == twin.list_datasets()
        for question, given_ in searches:
            assert said(ours, question, given_) == said(twin, question, given_)
