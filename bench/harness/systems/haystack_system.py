"""Haystack: InMemoryDocumentStore, its two retrievers, fused by its DocumentJoiner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.corpus import Chunk, Document, Edit, Given, Vectors, document_of, metadata_of
from harness.system import Found, System, chunk_batches

_PLAIN: dict[str, Any] = {
    "bm25_tokenization_regex": r"[^\W_]+",
    "bm25_algorithm": "BM25Okapi",
    "bm25_parameters": {"k1": 1.2, "b": 0.75},
}


class Haystack(System):
    packages = ("haystack-ai",)
    modules = ("haystack",)
    lanes = ("keyword", "vector", "hybrid")
    most = 10_000
    filters = True
    updates = "in place, in memory; save_to_disk() writes all"
    setup = (
        "InMemoryDocumentStore (BM25Okapi, k1=1.2, plain words; dot product), "
        "DocumentJoiner by reciprocal rank"
    )

    @classmethod
    def load(cls) -> None:
        import haystack.components.joiners
        import haystack.document_stores.in_memory  # noqa: F401 - timed

    def __init__(self, folder: Path, given: Given) -> None:
        super().__init__(folder, given)
        from haystack.components.joiners import DocumentJoiner
        from haystack.document_stores.in_memory import InMemoryDocumentStore

        self._saved = folder / "store.json"
        if self._saved.exists():
            self._store: Any = InMemoryDocumentStore.load_from_disk(str(self._saved))
        else:
            self._store = InMemoryDocumentStore(
                embedding_similarity_function="dot_product", **(_PLAIN if self.plain else {})
            )
        self._joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion")

    def _add(self, chunks: list[Chunk]) -> None:
        from haystack import Document as HaystackDocument

        made = []
        for chunk in chunks:
            name = document_of(chunk.id)
            meta = {"document": name, **metadata_of(name)}
            vector = chunk.vector.tolist()
            made.append(
                HaystackDocument(id=chunk.id, content=chunk.text, meta=meta, embedding=vector)
            )
        self._store.write_documents(made)

    def ingest(self, documents: Iterator[Document]) -> None:
        for batch in chunk_batches(documents):
            self._add(batch)

    def search(self, lane: str, text: str, vector: Vectors, limit: int) -> Found:
        where = None
        if self.where is not None:
            field, value = self.where
            where = {"field": f"meta.{field}", "operator": "==", "value": value}
        found = []
        if lane != "vector":
            found.append(self._store.bm25_retrieval(text, filters=where, top_k=limit))
        if lane != "keyword":
            row = vector.tolist()
            found.append(self._store.embedding_retrieval(row, filters=where, top_k=limit))
        hits = found[0]
        if lane == "hybrid":
            hits = self._joiner.run(documents=found, top_k=limit)["documents"]
        return [(hit.id, hit.content) for hit in hits]

    def replace(self, edit: Edit) -> None:
        self.delete(edit.document.name)
        self._add(list(edit.document.chunks))

    def delete(self, name: str) -> None:
        where = {"field": "meta.document", "operator": "==", "value": name}
        self._store.delete_documents([hit.id for hit in self._store.filter_documents(where)])

    def save(self) -> bool:
        self._store.save_to_disk(str(self._saved))
        return True


SYSTEM = Haystack
