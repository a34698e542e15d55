"""While a batch is stored, Python searches for no cycles; afterwards it does as it did before."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import triptych
from triptych import NewDocument
from triptych.derivation.batches import paused_collector


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


class Watching:
    """An embedder that notes whether there is a search for cycles."""

    signature = "watching"
    dimension = 2

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def embed(self, texts: Sequence[str], *, kind: str = "document") -> np.ndarray:
        self.seen.append(gc.isenabled())
        return np.full((len(texts), 2), np.sqrt(0.5), np.float32)


def test_a_bulk_put_pauses_it_for_each_batch_alone() -> None:
    embedder, between = Watching(), []

    def documents() -> Iterator[NewDocument]:
        for number in range(300):
            between.append(gc.isenabled())
            yield NewDocument(name=f"{number}.md", content=f"kettle {number}")

    with triptych.open("memory://", embedder=embedder) as kb:
        kb.put_documents("d", documents())
        assert len(embedder.seen) >= 2
        assert not any(embedder.seen)
        assert all(between)
        assert gc.isenabled()


def test_the_last_to_leave_starts_it_again() -> None:
    with paused_collector():
        with pytest.raises(KeyboardInterrupt), paused_collector():
            raise KeyboardInterrupt
        assert not gc.isenabled()
    assert gc.isenabled()


def test_where_the_program_has_switched_it_off_it_stays_off() -> None:
    gc.disable()
    with paused_collector(), paused_collector():
        assert not gc.isenabled()
    assert not gc.isenabled()
