"""Datasets held in memory: read and searched as the contracts say, without a backend."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import attrs
import numpy as np
import pytest

from triptych.kept import Kept, KeptLayer, KeptSet
from triptych.reading import ReadChunks, ReadDocuments, ReadLayers
from triptych.records import (
    NO_CHUNK,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    Filter,
    Layer,
    LayerQuery,
    Mode,
    SourceDocument,
)
from triptych.search.exhaustive import fetch, search_chunks, search_layers

SIG = DerivedSig(source_version=1, chunker_sig="c", embed_sig="e", input_sig="i")
CONFIG = DatasetConfig(chunker_sig="c", embed_sig="e")
EAST = np.array([1, 0], np.float32)


def kept(headings: Mapping[str, list[str]], **fields: object) -> Kept:
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
        sets[name] = KeptSet(sig=SIG, chunks=chunks)
        layer = DerivedLayer(
            dataset_id="d", doc_name=name, layer="L0", content="fish", sig=SIG, vector=EAST
        )
        layers[name] = {Layer.ABSTRACT: KeptLayer(layer=layer)}
    made = Kept(exists=True, config=CONFIG, documents=documents, sets=sets, layers=layers)
    return attrs.evolve(made, **fields)


WORDS = ChunkQuery(dataset_ids=("d", "none", "d"), mode=Mode.BM25, text="fish")
NEAR = ChunkQuery(dataset_ids=("d",), mode=Mode.VECTOR, vector=EAST, embed_sig="e")


def layer_query(query: ChunkQuery) -> LayerQuery:
    return LayerQuery(**{name: getattr(query, name) for name in attrs.fields_dict(ChunkQuery)})


@pytest.mark.parametrize("query", [WORDS, NEAR])
def test_a_heading_is_a_chunks_own_and_a_layers_documents(query: ChunkQuery) -> None:
    datasets = {"d": kept({"a": ["", "Part", "Other"], "b": [""]})}
    query = attrs.evolve(query, filter=Filter(headings=frozenset({"part"})))
    assert [(it.doc_name, it.index) for it in search_chunks(query, datasets)] == [("a", 1)]
    found = search_layers(layer_query(query), datasets)
    assert [(it.doc_name, it.index) for it in found] == [("a", NO_CHUNK)]


@pytest.mark.parametrize("config", [None, attrs.evolve(CONFIG, embed_sig="new")])
def test_vectors_count_in_the_space_of_the_configuration_alone(
    config: DatasetConfig | None,
) -> None:
    datasets = {"d": kept({"a": [""]}, config=config)}
    for space in ("e", "new", ""):
        query = attrs.evolve(NEAR, embed_sig=space)
        assert search_chunks(query, datasets) == []
        assert search_layers(layer_query(query), datasets) == []
    assert len(search_chunks(WORDS, datasets)) == 1


def test_the_language_is_the_datasets() -> None:
    german = attrs.evolve(CONFIG, language="german")
    query = attrs.evolve(WORDS, text="fishing")
    assert len(search_chunks(query, {"d": kept({"a": [""]})})) == 1
    assert search_chunks(query, {"d": kept({"a": [""]}, config=german)}) == []


def test_keys_stand_for_one_state() -> None:
    before = kept({"a": ["", ""], "b": [""]})
    keys = [it.key for it in search_chunks(WORDS, {"d": before})]
    keys += [it.key for it in search_layers(layer_query(WORDS), {"d": before})]
    found = fetch([*keys, 7, ("d", "a"), "other"], {"d": before})
    assert list(found) == keys
    assert [it.chunk is None for it in found.values()] == [False] * 3 + [True] * 2
    for item in found.values():
        assert item.document == before.info(item.document.name if item.document else "")
        assert item.sig == SIG
        assert (item.chunk or item.layer).vector is None  # type: ignore[union-attr]  # one is there
    later = attrs.evolve(SIG, source_version=2)
    restamped = {**before.sets, "a": attrs.evolve(before.sets["a"], sig=later)}
    after = fetch(keys, {"d": attrs.evolve(before, sets=restamped)})
    assert [item.sig.source_version for item in after.values()] == [2, 2, 1, 1, 1]
    again = kept({"a": ["", ""], "b": [""]})
    assert fetch(keys, {"d": again}) == {}
    assert fetch(keys, {}) == {}


def test_reads_are_answered_from_what_the_store_has_now() -> None:
    class Held:
        def datasets(self) -> Mapping[str, Kept]:
            return {"gone": Kept(), "d": kept({"b": [""], "a": ["", ""]})}

    store = Held()
    documents, chunks, layers = ReadDocuments(store), ReadChunks(store), ReadLayers(store)
    assert list(documents.list_datasets()) == ["d"]
    assert [info.name for info in documents.list("d", after="a")] == ["b"]
    assert documents.get("d", "c") is documents.get_info("none", "a") is None
    assert [(c.doc_name, c.index) for c in chunks.iter_chunks("d")] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
    ]
    assert list(chunks.known_vectors("d", "e", ["a 1", "x"])) == ["a 1"]
    assert dict(chunks.known_vectors("d", "other", ["a 1"])) == {}
    assert [layer.doc_name for layer in layers.list("d", layer=Layer.ABSTRACT)] == ["a", "b"]
    assert list(layers.list("d", layer=Layer.OVERVIEW)) == []


def test_a_name_is_left_out_of_every_part() -> None:
    assert kept({"a": [""]}).without("a") == {"documents": {}, "sets": {}, "layers": {}}
    assert {tuple(part) for part in kept({"a": [""], "b": [""]}).without("a").values()} == {("b",)}
