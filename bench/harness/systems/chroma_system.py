"""Chroma: vectors in an HNSW graph, texts in SQLite; locally it ranks by vectors alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.corpus import Chunk, Document, Edit, Given, Vectors, document_of, metadata_of
from harness.system import Found, System, chunk_batches, matrix


class Chroma(System):
    packages = ("chromadb",)
    modules = ("chromadb",)
    lanes = ("vector",)
    bm25 = None
    filters = True
    updates = "in place, durable when add returns"
    setup = "PersistentClient, HNSW as it ships, inner product; no BM25 in a local client"

    @classmethod
    def load(cls) -> None:
        import chromadb  # noqa: F401 - timed

    def __init__(self, folder: Path, given: Given) -> None:
        super().__init__(folder, given)
        import chromadb
        from chromadb.config import Settings

        self._client: Any = chromadb.PersistentClient(
            str(folder / "chroma"), Settings(anonymized_telemetry=False)
        )
        self._chunks: Any = self._client.get_or_create_collection(
            "chunks", configuration={"hnsw": {"space": "ip"}}, embedding_function=None
        )

    def _add(self, chunks: Sequence[Chunk]) -> None:
        step = self._client.get_max_batch_size()
        for at in range(0, len(chunks), step):
            some = chunks[at : at + step]
            self._chunks.add(
                ids=[chunk.id for chunk in some],
                embeddings=matrix(some),
                documents=[chunk.text for chunk in some],
                metadatas=[
                    {"document": name, **metadata_of(name)}
                    for name in (document_of(chunk.id) for chunk in some)
                ],
            )

    def ingest(self, documents: Iterator[Document]) -> None:
        for batch in chunk_batches(documents):
            self._add(batch)

    def search(self, lane: str, text: str, vector: Vectors, limit: int) -> Found:
        where = dict([self.where]) if self.where else None
        found = self._chunks.query(
            query_embeddings=vector[None], n_results=limit, include=["documents"], where=where
        )
        return list(zip(found["ids"][0], found["documents"][0], strict=True))

    def replace(self, edit: Edit) -> None:
        self.delete(edit.document.name)
        self._add(edit.document.chunks)

    def delete(self, name: str) -> None:
        self._chunks.delete(where={"document": name})


SYSTEM = Chroma
