"""While a batch is stored, Python searches for no cycles; afterwards it does as it did before."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import triptych
from triptych import NewDocument


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


class Interrupted(Watching):
    """An embedder in whose midst a put of another store is interrupted."""

    def embed(self, texts: Sequence[str], *, kind: str = "document") -> np.ndarray:
        class Interrupts(Watching):
            def embed(self, texts: Sequence[str], *, kind: str = "document") -> np.ndarray:
                raise KeyboardInterrupt

        with (
            triptych.open("memory://", embedder=Interrupts()) as kb,
            pytest.raises(KeyboardInterrupt),
        ):
            kb.put_documents("d", {"a.md": "tea"})
        return super().embed(texts, kind=kind)


def test_the_last_to_leave_starts_it_again() -> None:
    with triptych.open("memory://", embedder=Interrupted()) as kb:
        kb.put_documents("d", {"a.md": "kettle"})
        assert not any(kb.options.embedder.seen)
    assert gc.isenabled()


def test_where_the_program_has_switched_it_off_it_stays_off() -> None:
    gc.disable()
    with triptych.open("memory://", embedder=Interrupted()) as kb:
        kb.put_documents("d", {"a.md": "kettle"})
    assert not gc.isenabled()
