"""Model providers over HTTP: language models, embedders, rerankers.

All need the extra ``http``; without it, importing this package raises `NotAvailableError`.
No module here reads the environment: keys and addresses are arguments.
"""

from triptych._internal.retries import Retries
from triptych_backends.providers.anthropic import AnthropicLLM
from triptych_backends.providers.chat import TextStream
from triptych_backends.providers.connection import Connection, Timeouts
from triptych_backends.providers.ollama import OllamaEmbedder, OllamaLLM
from triptych_backends.providers.openai import OpenAIEmbedder, OpenAILLM
from triptych_backends.providers.remote_model import BatchLimits
from triptych_backends.providers.rerankers import (
    CohereReranker,
    JinaReranker,
    LlamaCppReranker,
    TEIReranker,
)
from triptych_backends.providers.tei_sparse import TEISparseEncoder
from triptych_backends.providers.voyage import VoyageEmbedder, VoyageReranker

__all__ = [
    "AnthropicLLM",
    "BatchLimits",
    "CohereReranker",
    "Connection",
    "JinaReranker",
    "LlamaCppReranker",
    "OllamaEmbedder",
    "OllamaLLM",
    "OpenAIEmbedder",
    "OpenAILLM",
    "Retries",
    "TEIReranker",
    "TEISparseEncoder",
    "TextStream",
    "Timeouts",
    "VoyageEmbedder",
    "VoyageReranker",
]
