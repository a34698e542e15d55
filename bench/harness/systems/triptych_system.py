"""Triptych itself, as `triptych.open` sets it up: SQLite and the local index, English."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.corpus import Document, Edit, Given, Vectors, metadata_of
from harness.system import Found, System

_MODES = {"keyword": "bm25", "vector": "vector", "hybrid": "hybrid"}


class Triptych(System):
    packages = ("triptych", "numpy", "sqlalchemy", "PyStemmer")
    modules = ("triptych", "sqlalchemy")
    lanes = ("keyword", "vector", "hybrid")
    labels = True
    threads = True
    filters = True
    updates = "in place, durable when put returns"
    setup = "triptych.open(path): SQLite, the English analyzer; reciprocal rank fusion"

    @classmethod
    def load(cls) -> None:
        # What opening and the first search import: the import's time, not theirs. Another tree
        # may have other modules.
        for name in (
            "rjieba",
            "simsimd",
            "triptych.service",
            "triptych.text",
            "triptych.search.fusion",
        ):
            with suppress(ImportError):
                import_module(name)
        for name in ("triptych_factory.wiring", "triptych_backends.sqlite"):
            import_module(name)

    def __init__(self, folder: Path, given: Given) -> None:
        super().__init__(folder, given)
        import triptych

        self._kb: Any = triptych.open(self._url(), embedder=given, language="english")

    def _url(self) -> str:
        return str(self.folder / "kb.db")

    def ingest(self, documents: Iterator[Document]) -> None:
        from triptych import NewDocument

        def new() -> Iterator[NewDocument]:
            for document in documents:
                self._hand_out(document)
                yield NewDocument(
                    name=document.name,
                    content=document.content,
                    metadata=metadata_of(document.name),
                )

        report = self._kb.put_documents("bench", new())
        if report.failed:
            raise RuntimeError(f"{len(report.failed)} failed: {report.failed[0]}")
        self._kb.search("searchable", dataset_id="bench", mode="bm25")

    def _hand_out(self, document: Document) -> None:
        self.given.hand_out(
            (chunk.embed_key for chunk in document.chunks),
            (chunk.vector for chunk in document.chunks),
        )

    def search(self, lane: str, text: str, vector: Vectors, limit: int) -> Found:
        where = dict([self.where]) if self.where else None
        result = self._kb.search(
            text, dataset_id="bench", mode=_MODES[lane], top_k=limit, where=where
        )
        warnings = [each for each in result.warnings if "did you mean" not in each]
        if warnings:
            raise RuntimeError(f"{lane} search of {text!r}: {warnings}")
        return [(f"{hit.doc_name}#{hit.chunk_index}", hit.content) for hit in result.hits]

    def replace(self, edit: Edit) -> None:
        self._hand_out(edit.document)
        name = edit.document.name
        self._kb.put_document("bench", name, edit.document.content, metadata_of(name))

    def delete(self, name: str) -> None:
        self._kb.delete_document("bench", name)

    def note(self) -> str:
        with suppress(ImportError):  # another tree may have no kernels
            return f"kernels: {import_module('triptych_backends.index.kernels').in_use}"
        return ""

    def close(self) -> None:
        self._kb.close()

    @staticmethod
    def terms(text: str) -> list[str]:
        from triptych.text import get_analyzer

        return get_analyzer("english").analyze(text)

    @staticmethod
    def query_terms(text: str) -> list[str]:
        from triptych.text import get_analyzer

        return get_analyzer("english").analyze_query(text)


SYSTEM = Triptych
