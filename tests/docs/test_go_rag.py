"""What the page on go-rag says of sizes, numbers and shapes is what the program does."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import triptych
from triptych import NewDocument, Service, SourceDocument
from triptych.chunking import default_chunkers
from triptych.contracts import DocumentRepo
from triptych.contracts.defaults import Repositories
from triptych.records import PutOutcome
from triptych.shortcuts import ingest_file, query, query_context
from triptych_backends.memory import MemoryStore

PAGE = Path(__file__).parents[2] / "docs/reference/go-rag.md"


def filled() -> Service:
    kb = triptych.open("memory://", embedder="hash")
    pages = {f"{n:02}.md": f"# Kettle\n\nThe lid of kettle {n} whistles.\n" for n in range(12)}
    kb.put_documents("d", {**pages, "far.md": "# Far\n\nNothing of all that.\n"})
    return kb


def test_the_sizes_of_chunks() -> None:
    said = "Markdown 800 and 0, other text 512 and 64"
    assert said in PAGE.read_text(encoding="utf-8")
    signature = default_chunkers().signature
    assert "markdown/4(size=800,overlap=0)" in signature
    assert "window/1(size=512,overlap=64)" in signature


class Batches:
    """The documents of a store, and how many it was given at a time."""

    def __init__(self, documents: DocumentRepo) -> None:
        self._documents = documents
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._documents, name)

    def put_many(self, dataset_id: str, documents: Sequence[NewDocument]) -> Sequence[PutOutcome]:
        self.sizes.append(len(documents))
        return self._documents.put_many(dataset_id, documents)


def sizes_of(documents: Iterable[NewDocument]) -> list[int]:
    with MemoryStore() as store:
        batches = Batches(store.documents)
        Service(Repositories.over(store, documents=batches)).put_documents("d", documents)
        return batches.sizes


def test_what_ends_a_batch() -> None:
    said = (
        "256 documents (twice as many in each later one, up to 2,048), a million code points or a "
        "second"
    )
    assert said in PAGE.read_text(encoding="utf-8")
    documents = (NewDocument(name=f"{i}.md", content="") for i in range(6_000))
    assert sizes_of(documents) == [256, 512, 1_024, 2_048, 2_048, 112]
    longer = (NewDocument(name=f"{i}.md", content="a " * 200_000) for i in range(4))
    assert sizes_of(longer) == [3, 1]

    def slow() -> Iterator[NewDocument]:
        for name in "abcd":
            yield NewDocument(name=name, content="")
            time.sleep(0.6)

    assert sizes_of(slow()) == [3, 1]


def test_a_file_gives_its_document(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text("print('tea')\n")
    with filled() as kb:
        stored = ingest_file(kb, tmp_path / "tool.py", "d")
    assert isinstance(stored, SourceDocument)
    assert stored.version > 0


def test_the_number_of_hits() -> None:
    with filled() as kb:
        assert len(query(kb, "kettle lid", "d").hits) == 5
        assert len(kb.search("kettle lid", dataset_id="d").hits) == 10
    assert inspect.signature(query_context).parameters["top_k"].default == 5


def test_no_threshold_by_default_and_go_rags_on_request() -> None:
    with filled() as kb:
        found = query(kb, "whistles", "d", top_k=20, mode="vector")
        assert any(hit.scores["vector"] < 0.5 for hit in found.hits)
        cut = query(
            kb, "lid of kettle whistles", "d", 20, mode="vector", min_scores={"vector": 0.5}
        )
        assert cut.hits
        assert all(hit.scores["vector"] >= 0.5 for hit in cut.hits)


def test_the_shape_of_json() -> None:
    with filled() as kb:
        value = json.loads(query_context(kb, "kettle lid", "d", format="json"))
    assert set(value) == {"hits", "warnings", "exhausted"}
    named = {"doc_name", "content", "chunk_index", "section", "category", "score"}
    assert named <= set(value["hits"][0])
