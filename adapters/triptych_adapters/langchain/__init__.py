"""A knowledge base in LangChain: retriever, vector store, document index, cache, embedder.

Needs the extra ``langchain``. Tools are made by
`triptych_adapters.tools.Tool.as_langchain`.
"""

from triptych_adapters.langchain.cache import TriptychCache
from triptych_adapters.langchain.document_index import TriptychDocumentIndex
from triptych_adapters.langchain.embedder import LangChainEmbedder
from triptych_adapters.langchain.record_manager import TriptychRecordManager
from triptych_adapters.langchain.retriever import TriptychRetriever
from triptych_adapters.langchain.vector_store import TriptychVectorStore

__all__ = [
    "LangChainEmbedder",
    "TriptychCache",
    "TriptychDocumentIndex",
    "TriptychRecordManager",
    "TriptychRetriever",
    "TriptychVectorStore",
]
