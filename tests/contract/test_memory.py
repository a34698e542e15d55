"""The memory backend under the conformance kit."""

import tracemalloc

import numpy as np
import pytest

import triptych
from triptych_backends.memory import MemoryStore
from triptych_testing import BackendConformance, Contents, Harness


def raw(store: MemoryStore, dataset_id: str) -> Contents:
    """What the dicts hold."""
    dataset = store._truth.read(dataset_id)
    return Contents(
        content={
            name: stored.document.content.encode() for name, stored in dataset.documents.items()
        },
        chunks=sum(len(chunks.digests) for chunks in dataset.sets.values()),
        vectors=sum(map(len, dataset.vectors.values())),
        layers=len(dataset.layers),
    )


class TestMemory(BackendConformance):
    @pytest.fixture
    def harness(self) -> Harness:
        return Harness(open=MemoryStore, raw=raw)


class Zeros:
    """Vectors of 384 dimensions, each of its text."""

    signature, dimension = "lines/384", 384

    def embed(self, texts, *, kind="document"):
        rows = np.zeros((len(texts), 384), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[hash(text) % 384] = 1.0
        return rows


def test_a_chunk_takes_its_floats_and_half_a_kilobyte() -> None:
    count = 2_000
    content = "\n\n".join(f"# Section {at}\n\nNumber {at} of many." for at in range(count))
    options = {"llm": None, "language": "english", "chunker": "markdown-sections"}
    with triptych.open("memory://", embedder=Zeros(), **options) as kb:
        kb.put_document("first", "a.md", "what is imported at the first use")
        tracemalloc.start()
        try:
            kb.put_document("many", "a.md", content)
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(kb.search("Number", dataset_id="many", mode="bm25").hits) == 10
    assert taken / count < 4 * Zeros.dimension + 700
