"""tantivy: Lucene's design in Rust, keyword search alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.corpus import Document, Edit, Given, Vectors, metadata_of
from harness.system import Found, System, plain_terms


class Tantivy(System):
    packages = ("tantivy",)
    modules = ("tantivy",)
    lanes = ("keyword",)
    filters = True
    updates = "in place, durable at commit"
    setup = "default tokenizer, frequencies without positions, texts stored; one commit a change"

    @classmethod
    def load(cls) -> None:
        import tantivy  # noqa: F401 - timed

    def __init__(self, folder: Path, given: Given) -> None:
        super().__init__(folder, given)
        import tantivy

        schema = tantivy.SchemaBuilder()
        schema.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
        for field in ("document", *metadata_of("")):
            schema.add_text_field(field, tokenizer_name="raw", index_option="basic")
        schema.add_text_field("body", stored=True, index_option="freq")
        path = folder / "tantivy"
        path.mkdir(exist_ok=True)
        self._index: Any = tantivy.Index(schema.build(), path=str(path))
        self._index.reload()
        self._searcher = self._index.searcher()
        self._writer: Any = None

    def _add(self, document: Document) -> None:
        import tantivy

        fields = {"document": document.name, **metadata_of(document.name)}
        for chunk in document.chunks:
            self._writer.add_document(tantivy.Document(id=chunk.id, body=chunk.text, **fields))

    def _writing(self) -> None:
        if self._writer is None:
            self._writer = self._index.writer(heap_size=256 << 20)

    def _commit(self) -> None:
        self._writer.commit()
        self._index.reload()
        self._searcher = self._index.searcher()

    def ingest(self, documents: Iterator[Document]) -> None:
        self._writing()
        for document in documents:
            self._add(document)
        self._commit()

    def search(self, lane: str, text: str, vector: Vectors, limit: int) -> Found:
        query = self._index.parse_query(" ".join(plain_terms(text)), ["body"])
        if self.where is not None:
            query = self._within(query, *self.where)
        hits = self._searcher.search(query, limit, count=False).hits
        found = (self._searcher.doc(address) for _, address in hits)
        return [(hit["id"][0], hit["body"][0]) for hit in found]

    def _within(self, query: Any, field: str, value: str) -> Any:
        from tantivy import Occur, Query

        only = Query.const_score_query(Query.term_query(self._index.schema, field, value), 0.0)
        return Query.boolean_query([(Occur.Must, query), (Occur.Must, only)])

    def replace(self, edit: Edit) -> None:
        self._writing()
        self._writer.delete_documents("document", edit.document.name)
        self._add(edit.document)
        self._commit()

    def delete(self, name: str) -> None:
        self._writing()
        self._writer.delete_documents("document", name)
        self._commit()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.wait_merging_threads()


SYSTEM = Tantivy
