"""How often vectors are stored while a fast model is at work, where storing takes long."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import triptych
from triptych.service import Service

LONG = 0.3
CHUNKS = 2_560


class Model:
    """Answers at once; its call number ``held`` waits until it is let go."""

    signature = "model/1"
    dimension = 4

    def __init__(self, held: int = 0) -> None:
        self.held, self.calls, self.answered = held, 0, 0
        self.waits, self.go_on = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str], *, kind: str) -> NDArray[np.float32]:
        self.calls += 1
        if self.calls == self.held:
            self.waits.set()
            assert self.go_on.wait(60)
        self.answered += len(texts)
        return np.ones((len(texts), 4), np.float32)


def slow_to_store(kb: Service, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many vectors each transaction of the store was given, from now on."""
    sizes: list[int] = []
    put = type(kb.store.chunks).put_vectors

    def put_slowly(
        repo: Any, dataset: str, space: Any, names: Any, vectors: Any, **rest: Any
    ) -> Any:
        time.sleep(LONG)
        done = put(repo, dataset, space, names, vectors, **rest)
        sizes.append(len(vectors))
        return done

    monkeypatch.setattr(type(kb.store.chunks), "put_vectors", put_slowly)
    return sizes


def put_later(kb: Service) -> None:
    text = "\n\n".join(f"# Part {n}\n\nThe text of part {n}." for n in range(CHUNKS))
    assert kb.put_documents("d", {"long.md": text}, embed="later").pending == 1


def test_a_long_document_takes_few_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    with triptych.open(
        "memory://", embedder=Model(), embed_concurrency=1, chunk_size=40, chunk_overlap=0
    ) as kb:
        put_later(kb)
        sizes = slow_to_store(kb, monkeypatch)
        assert kb.embed_pending("d").embedded == sum(sizes) >= CHUNKS
        assert len(sizes) < CHUNKS / 256


def test_what_was_answered_is_stored_while_the_next_answer_is_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Model(held=9)
    with triptych.open(
        "memory://", embedder=model, embed_concurrency=1, chunk_size=40, chunk_overlap=0
    ) as kb:
        put_later(kb)
        sizes = slow_to_store(kb, monkeypatch)
        thread = threading.Thread(target=kb.embed_pending, args=("d",))
        thread.start()
        try:
            assert model.waits.wait(60)
            end = time.monotonic() + 30
            while sum(sizes) < model.answered and time.monotonic() < end:
                time.sleep(0.01)
            assert sum(sizes) == model.answered > 0
        finally:
            model.go_on.set()
            thread.join()
