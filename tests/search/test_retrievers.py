"""Lanes serve the tier they are of: chunks for L2, layers for L0 and L1."""

from __future__ import annotations

import pytest

from triptych import Layer, Mode, ValidationError
from triptych.records import ResolvedQuery, is_valid_layer, is_valid_mode
from triptych.search import BM25Retriever, LayerRetriever, VectorRetriever, resolve_mode
from triptych_backends.memory import MemoryStore
from triptych_testing.builders import CONFIG, fill, layer_of, set_config
from triptych_testing.fakes import FakeEmbedder


def asked(layer: Layer) -> ResolvedQuery:
    return ResolvedQuery(
        text="fish",
        dataset_ids=("d",),
        datasets_of={"vector": ("d",)},
        embed_sig=CONFIG.embed_sig,
        mode=Mode.HYBRID,
        layer=layer,
        top_k=5,
        limit=5,
    )


def test_each_lane_answers_for_its_own_tier_alone() -> None:
    embedder = FakeEmbedder(CONFIG.embed_sig)
    with MemoryStore() as store:
        set_config(store, "d")
        fill(store, "d", {"a": "fish"})
        assert store.layers.put(layer_of(store, "d", "a", "fish"))
        for lane in (BM25Retriever(store.chunks), VectorRetriever(store.chunks, embedder)):
            assert len(lane.recall(asked(Layer.DETAIL))) == 1
            assert list(lane.recall(asked(Layer.ABSTRACT))) == []
        for mode in (Mode.BM25, Mode.VECTOR):
            layers = LayerRetriever(store.layers, mode, embedder)
            assert len(layers.recall(asked(Layer.ABSTRACT))) == 1
            assert list(layers.recall(asked(Layer.DETAIL))) == []


def test_modes_and_layers_are_told_valid() -> None:
    assert [is_valid_layer(value) for value in ("L0", Layer.DETAIL, "l0", "", None, 0)] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert [is_valid_mode(value) for value in ("bm25", Mode.HYBRID, "BM25", "", None)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert resolve_mode(None, has_embedder=True) is Mode.HYBRID
    assert resolve_mode(None, has_embedder=False) is Mode.BM25
    assert resolve_mode("vector", has_embedder=False) is Mode.VECTOR
    with pytest.raises(ValidationError):
        resolve_mode("semantic", has_embedder=True)
