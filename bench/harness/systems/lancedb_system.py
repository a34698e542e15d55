"""LanceDB: columns on disk, vectors scanned exactly, its own full-text index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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
from harness.system import Found, System, chunk_batches, matrix

_COLUMNS = ["id", "text"]


class LanceDB(System):
    packages = ("lancedb", "pyarrow")
    modules = ("lancedb", "pyarrow")
    lanes = ("keyword", "vector", "hybrid")
    threads = True
    filters = True
    updates = "in place; the keyword index scans new rows until optimize()"
    setup = (
        "adds of 10,000 chunks, then create_fts_index without stemming and stop words; no vector "
        "index: exact scan, dot product; hybrid by its RRFReranker"
    )

    @classmethod
    def load(cls) -> None:
        import lancedb
        import pyarrow  # noqa: F401 - timed
        from lancedb.rerankers import RRFReranker  # noqa: F401 - timed

        del lancedb

    def __init__(self, folder: Path, given: Given) -> None:
        super().__init__(folder, given)
        import lancedb
        from lancedb.rerankers import RRFReranker

        self._db: Any = lancedb.connect(str(folder / "lance"))
        exists = (folder / "lance" / "chunks.lance").is_dir()
        self._table: Any = self._db.open_table("chunks") if exists else None
        self._reranker = RRFReranker()

    def _rows(self, chunks: Sequence[Chunk]) -> Any:
        import pyarrow as pa

        names = [document_of(chunk.id) for chunk in chunks]
        fields = [metadata_of(name) for name in names]
        flat = pa.array(matrix(chunks).reshape(-1), pa.float32())
        return pa.table(
            {
                "id": [chunk.id for chunk in chunks],
                "document": names,
                **{field: [each[field] for each in fields] for field in fields[0]},
                "text": [chunk.text for chunk in chunks],
                "vector": pa.FixedSizeListArray.from_arrays(flat, DIMENSION),
            }
        )

    def ingest(self, documents: Iterator[Document]) -> None:
        for batch in chunk_batches(documents):
            if self._table is None:
                self._table = self._db.create_table("chunks", data=self._rows(batch))
            else:
                self._table.add(self._rows(batch))
        words = {"stem": False, "remove_stop_words": False, "ascii_folding": False}
        self._table.create_fts_index("text", **(words if self.plain else {}))

    def search(self, lane: str, text: str, vector: Vectors, limit: int) -> Found:
        if lane == "keyword":
            query = self._table.search(text, query_type="fts")
        elif lane == "vector":
            query = self._table.search(vector).distance_type("dot")
        else:
            query = self._table.search(query_type="hybrid").vector(vector).text(text)
            query = query.distance_type("dot").rerank(self._reranker)
        if self.where is not None:
            query = query.where("{} = '{}'".format(*self.where), prefilter=True)
        rows = query.select(_COLUMNS).limit(limit).to_arrow()
        return list(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True))

    def replace(self, edit: Edit) -> None:
        self.delete(edit.document.name)
        self._table.add(self._rows(edit.document.chunks))

    def delete(self, name: str) -> None:
        quoted = name.replace("'", "''")
        self._table.delete(f"document = '{quoted}'")

    def save(self) -> bool:
        self._table.optimize()
        return True


SYSTEM = LanceDB
