"""rank-bm25: BM25 over lists of words, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from harness.corpus import Chunk, Document, Edit, Given, Vectors, document_of
from harness.system import Found, System, plain_terms


class RankBM25(System):
    packages = ("rank-bm25", "numpy")
    modules = ("rank_bm25",)
    lanes = ("keyword",)
    most = 10_000
    persists = False
    updates = "builds everything again"
    setup = "BM25Okapi(k1=1.2, b=0.75), whose idf is not Lucene's; best ten by argpartition"

    @classmethod
    def load(cls) -> None:
        import rank_bm25  # noqa: F401 - timed

    def __init__(self, folder: Path, given: Given) -> None:
        super().__init__(folder, given)
        self._chunks: list[Chunk] = []
        self._terms: list[list[str]] = []
        self._index: Any = None

    def ingest(self, documents: Iterator[Document]) -> None:
        for document in documents:
            self._add(document)
        self._build()

    def _add(self, document: Document) -> None:
        self._chunks += document.chunks
        self._terms += (plain_terms(chunk.text) for chunk in document.chunks)

    def _build(self) -> None:
        from rank_bm25 import BM25Okapi

        self._index = BM25Okapi(self._terms, k1=1.2, b=0.75)

    def search(self, lane: str, text: str, vector: Vectors, limit: int) -> Found:
        scores = self._index.get_scores(plain_terms(text))
        limit = min(limit, len(scores))
        best = np.argpartition(scores, -limit)[-limit:]
        best = best[np.argsort(-scores[best], kind="stable")]
        return [(self._chunks[at].id, self._chunks[at].text) for at in best]

    def replace(self, edit: Edit) -> None:
        self._remove(edit.document.name)
        self._add(edit.document)
        self._build()

    def delete(self, name: str) -> None:
        self._remove(name)
        self._build()

    def _remove(self, name: str) -> None:
        kept = [at for at, chunk in enumerate(self._chunks) if document_of(chunk.id) != name]
        self._chunks = [self._chunks[at] for at in kept]
        self._terms = [self._terms[at] for at in kept]


SYSTEM = RankBM25
