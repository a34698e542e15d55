"""LlamaIndex: bm25s and simple vectors, fused by its QueryFusionRetriever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.corpus import DIMENSION, Document, Edit, Given, Vectors
from harness.system import Found, System

_DEPTH = 10
_PLAIN: dict[str, Any] = {
    "skip_stemming": True,
    "language": [],
    "token_pattern": r"(?u)[^\W_]+",
}


class LlamaIndex(System):
    packages = ("llama-index-core", "llama-index-retrievers-bm25", "bm25s")
    modules = ("llama_index.core", "llama_index.retrievers.bm25")
    lanes = ("keyword", "vector", "hybrid")
    most = 10_000
    bm25 = (1.5, 0.75)
    updates = "vectors in place, in memory; the keyword index is built again; persist() writes all"
    setup = (
        "VectorStoreIndex on SimpleVectorStore, BM25Retriever without stemming and stop words, "
        "QueryFusionRetriever by reciprocal rank"
    )

    @classmethod
    def load(cls) -> None:
        import llama_index.core
        import llama_index.core.llms
        import llama_index.retrievers.bm25  # noqa: F401 - timed

    def __init__(self, folder: Path, given: Given) -> None:
        super().__init__(folder, given)
        from llama_index.core import MockEmbedding, StorageContext, load_index_from_storage
        from llama_index.retrievers.bm25 import BM25Retriever

        self._model = MockEmbedding(embed_dim=DIMENSION)
        self._index: Any = None
        self._lanes: dict[str, Any] = {}
        if (folder / "vectors").is_dir():
            context = StorageContext.from_defaults(persist_dir=str(folder / "vectors"))
            self._index = load_index_from_storage(context, embed_model=self._model)
            self._retrievers(BM25Retriever.from_persist_dir(str(folder / "keywords")))

    def _nodes(self, document: Document) -> Iterator[Any]:
        from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

        source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document.name)}
        for chunk in document.chunks:
            yield TextNode(
                id_=chunk.id,
                text=chunk.text,
                embedding=chunk.vector.tolist(),
                relationships=source,
            )

    def ingest(self, documents: Iterator[Document]) -> None:
        from llama_index.core import VectorStoreIndex

        nodes = [node for document in documents for node in self._nodes(document)]
        self._index = VectorStoreIndex(nodes, embed_model=self._model, store_nodes_override=True)
        del nodes
        self._keywords()

    def _keywords(self) -> None:
        from llama_index.retrievers.bm25 import BM25Retriever

        self._retrievers(
            BM25Retriever.from_defaults(
                docstore=self._index.docstore,
                similarity_top_k=_DEPTH,
                # bm25s takes a list of stop words instead of a language.
                **(_PLAIN if self.plain else {}),
            )
        )

    def _retrievers(self, keyword: Any) -> None:
        from llama_index.core.llms import MockLLM
        from llama_index.core.retrievers import QueryFusionRetriever

        vector = self._index.as_retriever(similarity_top_k=_DEPTH)
        hybrid = QueryFusionRetriever(
            [keyword, vector],
            llm=MockLLM(),
            mode="reciprocal_rerank",
            similarity_top_k=_DEPTH,
            num_queries=1,
            use_async=False,
        )
        self._lanes = {"keyword": keyword, "vector": vector, "hybrid": hybrid}

    def search(self, lane: str, text: str, vector: Vectors, limit: int) -> Found:
        from llama_index.core.schema import QueryBundle

        found = self._lanes[lane].retrieve(QueryBundle(text, embedding=vector.tolist()))
        return [(hit.node.node_id, hit.node.get_content()) for hit in found[:limit]]

    def replace(self, edit: Edit) -> None:
        self._index.delete_ref_doc(edit.document.name, delete_from_docstore=True)
        self._index.insert_nodes(list(self._nodes(edit.document)))
        self._keywords()

    def delete(self, name: str) -> None:
        self._index.delete_ref_doc(name, delete_from_docstore=True)
        self._keywords()

    def save(self) -> bool:
        self._index.storage_context.persist(str(self.folder / "vectors"))
        (self.folder / "keywords").mkdir(exist_ok=True)
        self._lanes["keyword"].persist(str(self.folder / "keywords"))
        return True


SYSTEM = LlamaIndex
