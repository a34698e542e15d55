"""A knowledge base in LangChain: retriever, vector store, document index, cache, embedder.

Needs the extra ``langchain``. Tools are made by
`triptych_adapters.tools.Tool.as_langchain`.
"""

from triptych_frameworks.langchain.documents import (
    LangChainEmbedder,
    TriptychDocumentIndex,
    TriptychRetriever,
    TriptychVectorStore,
)
from triptych_frameworks.langchain.records import TriptychCache, TriptychRecordManager

__all__ = [
    "LangChainEmbedder",
    "TriptychCache",
    "TriptychDocumentIndex",
    "TriptychRecordManager",
    "TriptychRetriever",
    "TriptychVectorStore",
]
