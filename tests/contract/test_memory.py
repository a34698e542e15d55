"""The memory backend under the conformance kit."""

import pytest

from triptych.testing.conformance import BackendConformance
from triptych.testing.harness import Contents, Harness
from triptych_backends.memory import MemoryStore


def raw(store: MemoryStore, dataset_id: str) -> Contents:
    """What the dicts hold."""
    dataset = store._truth.read(dataset_id)
    return Contents(
        content={
            name: stored.document.content.encode() for name, stored in dataset.documents.items()
        },
        chunks=sum(len(chunks.chunks) for chunks in dataset.sets.values()),
        vectors=len(dataset.vectors),
        layers=len(dataset.layers),
    )


class TestMemory(BackendConformance):
    @pytest.fixture
    def harness(self) -> Harness:
        return Harness(open=MemoryStore, raw=raw)
