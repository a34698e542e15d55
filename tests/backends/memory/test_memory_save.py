"""A memory store whose datasets are kept elsewhere: what it is given, and what it hands over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import attrs
import numpy as np
import pytest

from support.rich_stores import contents
from triptych.errors import StoreError
from triptych.records import (
    NO_CHUNK,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    Layer,
    LayerQuery,
    Mode,
    NewDocument,
    SourceDocument,
    dense,
)
from triptych.signatures import document_info
from triptych_backends.memory import ChunkSetState, DatasetState, MemoryStore
from triptych_testing.builders import fill, filter_of, keyword_query, layer_of, put

SIG = DerivedSig(source_version=1, chunker_sig="c", embed_sig="e", input_sig="i")
CONFIG = DatasetConfig(chunker_sig="c", embed_sig="e")
EAST = np.array([1, 0], np.float32)


def dataset(headings: Mapping[str, list[str]], **fields: Any) -> DatasetState:
    """A document for each name, with a chunk "red fish" for each heading; "" is none."""
    documents, sets, layers = {}, {}, {}
    for name, its in headings.items():
        documents[name] = SourceDocument(
            dataset_id="d",
            name=name,
            content="red fish",
            metadata={"name": name},
            version=1,
            updated_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        chunks = tuple(
            DerivedChunk(
                dataset_id="d",
                doc_name=name,
                index=index,
                start=0,
                end=8,
                offset=0,
                start_line=1,
                content="red fish",
                sig=attrs.evolve(SIG, input_sig=f"{name} {index}"),
                vector=EAST,
                heading_path=(heading,) if heading else (),
            )
            for index, heading in enumerate(its)
        )
        sets[name] = ChunkSetState(sig=SIG, chunks=chunks)
        layer = DerivedLayer(
            dataset_id="d", doc_name=name, layer="L0", content="fish", sig=SIG, vector=EAST
        )
        layers[name] = {Layer.ABSTRACT: layer}
    made = DatasetState(exists=True, config=CONFIG, documents=documents, sets=sets, layers=layers)
    return attrs.evolve(made, **fields)


WORDS = ChunkQuery(dataset_ids=("d", "none", "d"), mode=Mode.BM25, text="fish")
NEAR = ChunkQuery(dataset_ids=("d",), mode=Mode.VECTOR, vector=EAST, embed_sig="e")


def layer_query(query: ChunkQuery) -> LayerQuery:
    return LayerQuery(**{name: getattr(query, name) for name in attrs.fields_dict(ChunkQuery)})


@pytest.mark.parametrize("query", [WORDS, NEAR])
def test_a_heading_is_a_chunks_own_and_a_layers_documents(query: ChunkQuery) -> None:
    query = attrs.evolve(query, filter=filter_of(heading="part"))
    with MemoryStore(datasets={"d": dataset({"a": ["", "Part", "Other"], "b": [""]})}) as store:
        assert [(it.doc_name, it.index) for it in store.chunks.search(query)] == [("a", 1)]
        found = store.layers.search(layer_query(query))
        assert [(it.doc_name, it.index) for it in found] == [("a", NO_CHUNK)]


@pytest.mark.parametrize("config", [None, attrs.evolve(CONFIG, embed_sig="new")])
def test_vectors_count_in_the_space_of_the_configuration_alone(
    config: DatasetConfig | None,
) -> None:
    with MemoryStore(datasets={"d": dataset({"a": [""]}, config=config)}) as store:
        for space in ("e", "new", ""):
            query = attrs.evolve(NEAR, embed_sig=space)
            assert list(store.chunks.search(query)) == []
            assert list(store.layers.search(layer_query(query))) == []
        assert len(store.chunks.search(WORDS)) == 1


def test_the_language_is_the_datasets() -> None:
    query = attrs.evolve(WORDS, text="fishing")
    with MemoryStore(datasets={"d": dataset({"a": [""]})}) as store:
        assert len(store.chunks.search(query)) == 1
    german = attrs.evolve(CONFIG, language="german")
    with MemoryStore(datasets={"d": dataset({"a": [""]}, config=german)}) as store:
        assert list(store.chunks.search(query)) == []


def test_keys_stand_for_one_state() -> None:
    with MemoryStore(datasets={"d": dataset({"a": ["", ""], "b": [""]})}) as store:
        keys = [it.key for it in store.chunks.search(WORDS)]
        layers = [it.key for it in store.layers.search(layer_query(WORDS))]
        assert (len(keys), len(layers)) == (3, 2)
        assert list(store.chunks.fetch([*keys, *layers, "other", ("d", "a")])) == keys
        found = {**store.chunks.fetch(keys), **store.layers.fetch(layers)}
        for item in found.values():
            name = item.document.name if item.document else ""
            assert item.document == store.documents.get_info("d", name)
            assert item.sig == SIG
            assert (item.chunk or item.layer).vector is None  # type: ignore[union-attr]  # one is there
        assert store.chunks.update_source_version("d", "a", SIG)
        assert list(store.chunks.fetch(keys)) == keys
        chunks = list(store.chunks.iter_chunks("d", "a", vectors=True))
        assert store.chunks.replace("d", "a", chunks, sig=SIG)
        assert [it.document.name for it in store.chunks.fetch(keys).values() if it.document] == [
            "b"
        ]


def test_reads_are_answered_from_what_the_store_was_given() -> None:
    given = {"gone": DatasetState(floor=7), "d": dataset({"b": [""], "a": ["", ""]})}
    with MemoryStore(datasets=given) as store:
        assert list(store.documents.list_datasets()) == ["d"]
        assert [info.name for info in store.documents.list("d", after="a")] == ["b"]
        assert store.documents.get("d", "c") is store.documents.get_info("none", "a") is None
        assert store.documents.get_info("d", "a") == document_info(given["d"].documents["a"])
        assert [(c.doc_name, c.index) for c in store.chunks.iter_chunks("d")] == [
            ("a", 0),
            ("a", 1),
            ("b", 0),
        ]
        assert list(store.chunks.known_vectors("d", dense("e"), ["a 1", "x"])) == ["a 1"]
        assert dict(store.chunks.known_vectors("d", dense("other"), ["a 1"])) == {}
        layers = store.layers.list("d", layer=Layer.ABSTRACT)
        assert [layer.doc_name for layer in layers] == ["a", "b"]
        assert list(store.layers.list("d", layer=Layer.OVERVIEW)) == []
        assert put(store, "gone", "a", "again").version == 8


def test_each_write_is_saved_once_and_a_read_never() -> None:
    saved: list[Mapping[str, DatasetState]] = []
    with MemoryStore(save=lambda states, _: saved.append(states)) as store:
        put(store, "north", "a", "fish")
        assert [list(state["north"].documents) for state in saved] == [["a"]]
        put(store, "north", "a", "fish")
        contents(store)
        store.chunks.search(keyword_query("fish", "north"))
        store.stats("north", chunker_sig="", embed_sig="")
        assert len(saved) == 1
        news = [NewDocument(name=name, content="fish") for name in "bc"]
        store.documents.put_many("north", news)
        assert [sorted(state["north"].documents) for state in saved[1:]] == [["a", "b", "c"]]
    with MemoryStore(datasets=saved[-1]) as again:
        assert [info.name for info in again.documents.list("north")] == ["a", "b", "c"]


def test_a_write_that_cannot_be_saved_is_undone_and_keys_stay_good() -> None:
    fails: list[bool] = []

    def save(_: Mapping[str, DatasetState], __: Mapping[str, str]) -> None:
        if fails:
            raise StoreError("the disk is full")

    with MemoryStore(save=save) as store:
        fill(store, "north", {"a": "red fish", "b": "blue fish"})
        assert store.layers.put(layer_of(store, "north", "a", "fish"))
        put(store, "north", "b", "blue fish", tag="new")
        before = contents(store)
        keys = [found.key for found in store.chunks.search(keyword_query("fish", "north"))]
        assert len(keys) == 2
        fails.append(True)
        for write in (
            lambda: put(store, "north", "a", "other"),
            lambda: put(store, "south", "a", "other"),
            lambda: store.documents.delete("north", "a"),
            lambda: store.documents.delete_many("north", {"a": 1}),
            lambda: store.documents.delete_dataset("north"),
            lambda: store.layers.put(layer_of(store, "north", "a", "of fish")),
        ):
            with pytest.raises(StoreError, match="the disk is full"):
                write()
            assert contents(store) == before
            assert list(store.chunks.fetch(keys)) == keys
        fails.clear()
        assert store.layers.put(layer_of(store, "north", "a", "of fish"))
        assert put(store, "north", "a", "other").version == 2
        assert len(store.chunks.search(keyword_query("fish", "north"))) == 2
