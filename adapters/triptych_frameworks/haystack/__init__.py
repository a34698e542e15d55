"""A knowledge base in Haystack: a document store, and a retriever component.

Needs the extra ``haystack``.
"""

from triptych_frameworks.haystack.document_store import TriptychDocumentStore
from triptych_frameworks.haystack.retriever import TriptychRetriever

__all__ = ["TriptychDocumentStore", "TriptychRetriever"]
