"""Qdrant: its engine inside this process (Qdrant Edge), words ranked by its text index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from harness.corpus import (
    DIMENSION,
    Chunk,
    Document,
    Edit,
    Given,
    Vectors,
    document_of,
    metadata_of,
)
from harness.system import Found, System, chunk_batches

_BATCH = 1_000


class Qdrant(System):
    packages = ("qdrant-edge-py",)
    modules = ("qdrant_edge",)
    lanes = ("keyword", "vector", "hybrid")
    threads = True
    filters = True
    shared = False
    updates = "in place; flush() makes it durable"
    setup = (
        "EdgeShard, HNSW as it ships, built by optimize(); a text index that ranks by BM25; "
        "hybrid by its own RRF over prefetches"
    )

    @classmethod
    def load(cls) -> None:
        import qdrant_edge  # noqa: F401 - timed

    def __init__(self, folder: Path, given: Given) -> None:
        super().__init__(folder, given)
        import qdrant_edge as edge

        self._edge: Any = edge
        path = folder / "qdrant"
        if path.is_dir():
            self._shard: Any = edge.EdgeShard.load(str(path))
            return
        path.mkdir()
        vectors = {"v": edge.EdgeVectorParams(DIMENSION, edge.Distance.Dot)}
        self._shard = edge.EdgeShard.create(str(path), edge.EdgeConfig(vectors=vectors))
        words = edge.TextIndexParams(
            tokenizer=edge.TokenizerType.Word, lowercase=True, scoring=True
        )
        index = edge.UpdateOperation.create_field_index
        self._shard.update(index("text", words))
        for field in ("document", *metadata_of("")):
            self._shard.update(index(field, edge.KeywordIndexParams()))

    def _add(self, chunks: Sequence[Chunk]) -> None:
        points = []
        for chunk in chunks:
            name = document_of(chunk.id)
            payload = {"id": chunk.id, "text": chunk.text, "document": name, **metadata_of(name)}
            point = str(uuid5(NAMESPACE_URL, chunk.id))
            points.append(self._edge.Point(point, {"v": chunk.vector.tolist()}, payload))
        for at in range(0, len(points), _BATCH):
            some = points[at : at + _BATCH]
            self._shard.update(self._edge.UpdateOperation.upsert_points(some))

    def ingest(self, documents: Iterator[Document]) -> None:
        for batch in chunk_batches(documents):
            self._add(batch)
        self.save()

    def search(self, lane: str, text: str, vector: Vectors, limit: int) -> Found:
        edge = self._edge
        where = None if self.where is None else self._matching(*self.where)
        queries = {
            "keyword": edge.TextQuery("text", text, edge.Bm25Params(1.2, 0.75)),
            "vector": edge.Query.Nearest(vector.tolist(), "v"),
        }
        asked: dict[str, Any] = {"with_payload": True, "filter": where}
        if lane == "hybrid":
            asked["prefetches"] = [
                edge.Prefetch(limit=limit, query=each, filter=where) for each in queries.values()
            ]
            asked["query"] = edge.Fusion.Rrf(60)
        else:
            asked["query"] = queries[lane]
        found = self._shard.query(edge.QueryRequest(limit, **asked))
        return [(hit.payload["id"], hit.payload["text"]) for hit in found]

    def _matching(self, field: str, value: str) -> Any:
        edge = self._edge
        return edge.Filter(must=[edge.FieldCondition(field, match=edge.MatchValue(value))])

    def replace(self, edit: Edit) -> None:
        self.delete(edit.document.name)
        self._add(edit.document.chunks)

    def delete(self, name: str) -> None:
        where = self._matching("document", name)
        self._shard.update(self._edge.UpdateOperation.delete_points_by_filter(where))

    def save(self) -> bool:
        self._shard.optimize()
        self._shard.flush()
        return True

    def close(self) -> None:
        self._shard.close()


SYSTEM = Qdrant
