"""Model providers over HTTP: language models, embedders, rerankers.

All need the extra ``http``; without it, importing this package raises `NotAvailableError`.
No module here reads the environment: keys and addresses are arguments.
"""

from triptych.records import Retries
from triptych_providers.anthropic import AnthropicLLM
from triptych_providers.chat import TextStream
from triptych_providers.connection import CallClock, Connection, Timeouts, retry_after_seconds
from triptych_providers.http import tls_failure
from triptych_providers.ollama import OllamaEmbedder, OllamaLLM
from triptych_providers.openai import OpenAIEmbedder, OpenAILLM
from triptych_providers.remote_model import BatchLimits
from triptych_providers.rerankers import (
    CohereReranker,
    JinaReranker,
    LlamaCppReranker,
    TEIReranker,
)
from triptych_providers.tei_sparse import TEISparseEncoder
from triptych_providers.voyage import VoyageEmbedder, VoyageReranker

__all__ = [
    "AnthropicLLM",
    "BatchLimits",
    "CallClock",
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
    "retry_after_seconds",
    "tls_failure",
]
