"""bm25s: BM25 scores in a sparse matrix, searched by numba where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.corpus import Document, Edit, Given, Vectors, document_of
from harness.system import Found, System

_PATTERN = r"(?u)[^\W_]+"


class BM25S(System):
    packages = ("bm25s", "numba", "numpy")
    modules = ("bm25s",)
    lanes = ("keyword",)
    updates = "builds everything again"
    setup = 'BM25(method="lucene", k1=1.2, b=0.75, backend="auto"): numba if installed; save()'

    @classmethod
    def load(cls) -> None:
        import bm25s  # noqa: F401 - timed

    def __init__(self, folder: Path, given: Given) -> None:
        super().__init__(folder, given)
        self._rows: list[dict[str, str]] = []
        self._index: Any = None
        if (folder / "index").is_dir():
            import bm25s

            self._index = bm25s.BM25.load(folder / "index", load_corpus=True, mmap=True)
            self._index.activate_numba_scorer() if self._index.backend == "numba" else None

    def ingest(self, documents: Iterator[Document]) -> None:
        for document in documents:
            self._add(document)
        self._build()

    def _add(self, document: Document) -> None:
        self._rows += ({"id": chunk.id, "text": chunk.text} for chunk in document.chunks)

    def _build(self) -> None:
        import bm25s

        tokens = self._tokens([row["text"] for row in self._rows])
        self._index = bm25s.BM25(k1=1.2, b=0.75, method="lucene", backend="auto", corpus=self._rows)
        self._index.index(tokens, show_progress=False)

    def _tokens(self, texts: list[str]) -> Any:
        import bm25s

        return bm25s.tokenize(texts, token_pattern=_PATTERN, stopwords=None, show_progress=False)

    def search(self, lane: str, text: str, vector: Vectors, limit: int) -> Found:
        found, _ = self._index.retrieve(self._tokens([text]), k=limit, show_progress=False)
        return [(row["id"], row["text"]) for row in found[0]]

    def replace(self, edit: Edit) -> None:
        self._remove(edit.document.name)
        self._add(edit.document)
        self._build()

    def delete(self, name: str) -> None:
        self._remove(name)
        self._build()

    def _remove(self, name: str) -> None:
        self._rows = [row for row in self._rows if document_of(row["id"]) != name]

    def save(self) -> bool:
        self._index.save(self.folder / "index", corpus=self._rows, show_progress=False)
        return True


SYSTEM = BM25S
