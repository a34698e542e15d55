"""txtai: faiss vectors, its own BM25 and SQLite content, fused by score."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.corpus import Chunk, Document, Edit, Given, Vectors, key_of
from harness.system import Found, System

_TRANSFORM = f"{__name__}.given_rows"
_given: list[Given] = []
_PLAIN: dict[str, Any] = {"tokenizer": {"regexp": r"[^\W_]+", "alphanum": False}}
_WEIGHTS = {"keyword": 0.0, "vector": 1.0, "hybrid": 0.5}


def given_rows(texts: list[str]) -> Vectors:
    """What txtai calls for vectors: saved by its name, so that a reopened index finds it."""
    return _given[-1].embed(texts)


class Txtai(System):
    packages = ("txtai", "faiss-cpu", "torch", "numpy")
    modules = ("txtai", "faiss")
    lanes = ("keyword", "vector", "hybrid")
    updates = "in place, in memory; save() writes everything"
    setup = (
        "Embeddings(hybrid, content, faiss as it ships, BM25 over plain words, vectors by an "
        "external transform). A lane by itself is a hybrid search with all weight on it: both run"
    )

    @classmethod
    def load(cls) -> None:
        os.environ["ALLOW_RESOLVE_TRANSFORM"] = "True"
        from txtai import Embeddings  # noqa: F401 - timed

    def __init__(self, folder: Path, given: Given) -> None:
        super().__init__(folder, given)
        from txtai import Embeddings

        _given.append(given)
        self._embeddings: Any = Embeddings(
            method="external",
            transform=_TRANSFORM,
            content=True,
            hybrid=True,
            scoring={
                "method": "bm25",
                "terms": True,
                "normalize": True,
                **(_PLAIN if self.plain else {}),
            },
        )
        self._ids: dict[str, list[str]] = {}
        if (folder / "txtai").is_dir():
            self._embeddings.load(str(folder / "txtai"))

    def _rows(self, document: Document) -> Iterator[tuple[str, str, None]]:
        self._ids[document.name] = [chunk.id for chunk in document.chunks]
        self._hand_out(document.chunks)
        for chunk in document.chunks:
            yield chunk.id, chunk.text, None

    def _hand_out(self, chunks: tuple[Chunk, ...]) -> None:
        keys = (key_of(chunk.text) for chunk in chunks)
        self.given.hand_out(keys, (chunk.vector for chunk in chunks))

    def ingest(self, documents: Iterator[Document]) -> None:
        self._embeddings.index(row for document in documents for row in self._rows(document))

    def search(self, lane: str, text: str, vector: Vectors, limit: int) -> Found:
        found = self._embeddings.search(text, limit, weights=_WEIGHTS[lane])
        return [(hit["id"], hit["text"]) for hit in found]

    def replace(self, edit: Edit) -> None:
        self.delete(edit.document.name)
        self._embeddings.upsert(self._rows(edit.document))

    def delete(self, name: str) -> None:
        self._embeddings.delete(self._ids.pop(name))

    def save(self) -> bool:
        self._embeddings.save(str(self.folder / "txtai"))
        return True

    def close(self) -> None:
        self._embeddings.close()


SYSTEM = Txtai
