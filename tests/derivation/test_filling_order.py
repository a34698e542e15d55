"""Which texts get their vectors first, where the model is slow."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import triptych

DOCUMENTS, PARTS = 100, 3


class Slow:
    """An embedder that takes its time, and keeps what it was asked."""

    signature = "slow/1"
    dimension = 4

    def __init__(self, most: int | None = None) -> None:
        self.asked: list[str] = []
        self.most = most

    def embed(self, texts: Sequence[str], *, kind: str) -> NDArray[np.float32]:
        if self.most is not None and len(self.asked) >= self.most:
            raise OSError("connection refused")
        time.sleep(0.002 * len(texts))
        self.asked += texts
        return np.eye(4, dtype=np.float32)[[len(text) % 4 for text in texts]]


def documents() -> dict[str, str]:
    """Documents of three chunks, of which the last says the same in all."""
    bodies = ("opening of {}", "middle of {}", "imprint")
    return {
        f"{number:03}.md": "\n\n".join(
            f"## part\n\n{(body.format(number) + ' ') * 40}" for body in bodies
        )
        for number in range(DOCUMENTS)
    }


@pytest.mark.parametrize("url", ["memory://", "kb.db"])
def test_each_document_has_its_first_vector_before_any_has_all(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = Slow()
    with triptych.open(url, embedder=model, embed_concurrency=1) as kb:
        assert kb.put_documents("d", documents(), embed="later").pending == DOCUMENTS
        report = kb.embed_pending("d")
        assert (report.pending, report.failed) == (0, ())
        # Texts that are equal are asked for once.
        different = DOCUMENTS * (PARTS - 1) + 1
        assert len(model.asked) == len(set(model.asked)) == different == report.embedded
        assert report.embedded + report.reused == DOCUMENTS * PARTS
        assert kb.doctor().findings == ()
    assert all("opening" in text for text in model.asked[:DOCUMENTS])


def test_a_model_that_fails_on_the_way_leaves_documents_that_are_found() -> None:
    with triptych.open("memory://", embedder=Slow(DOCUMENTS), embed_concurrency=1) as kb:
        kb.put_documents("d", documents(), embed="later")
        assert kb.embed_pending("d").pending > 0
        for name in documents():
            first = next(iter(kb.chunks.iter_chunks("d", name, vectors=True)))
            assert first.vector is not None
