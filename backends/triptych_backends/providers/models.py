"""What is known of embedding models: dimension and prefixes, from their publishers' cards."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(slots=True)
class KnownModel:
    """A model's native dimension, and what it wants before a query and before a document."""

    dimension: int
    query_prefix: str = attrs.field(default="", kw_only=True)
    document_prefix: str = attrs.field(default="", kw_only=True)


OPENAI: Mapping[str, KnownModel] = {
    "text-embedding-3-small": KnownModel(1536),
    "text-embedding-3-large": KnownModel(3072),
    "text-embedding-ada-002": KnownModel(1536),
}

# Voyage's models take the kind of text as a field, and no prefix.
VOYAGE: Mapping[str, KnownModel] = {
    "voyage-3": KnownModel(1024),
    "voyage-3-large": KnownModel(1024),
    "voyage-3-lite": KnownModel(512),
    "voyage-3.5": KnownModel(1024),
    "voyage-3.5-lite": KnownModel(1024),
    "voyage-4": KnownModel(1024),
    "voyage-4-large": KnownModel(1024),
    "voyage-4-lite": KnownModel(1024),
    "voyage-code-2": KnownModel(1536),
    "voyage-code-3": KnownModel(1024),
    "voyage-finance-2": KnownModel(1024),
    "voyage-law-2": KnownModel(1024),
    "voyage-multilingual-2": KnownModel(1024),
}

_SENTENCE = "Represent this sentence for searching relevant passages: "
_NOMIC = {"query_prefix": "search_query: ", "document_prefix": "search_document: "}
_GEMMA = {
    "query_prefix": "task: search result | query: ",
    "document_prefix": "title: none | text: ",
}
_QWEN = {
    "query_prefix": "Instruct: Given a web search query, retrieve relevant passages that answer "
    "the query\nQuery:"
}

OLLAMA: Mapping[str, KnownModel] = {
    "all-minilm": KnownModel(384),
    "bge-large": KnownModel(1024, query_prefix=_SENTENCE),
    "bge-m3": KnownModel(1024),
    "embeddinggemma": KnownModel(768, **_GEMMA),
    "mxbai-embed-large": KnownModel(1024, query_prefix=_SENTENCE),
    "nomic-embed-text": KnownModel(768, **_NOMIC),
    "nomic-embed-text:v1.5": KnownModel(768, **_NOMIC),
    "paraphrase-multilingual": KnownModel(768),
    "qwen3-embedding:0.6b": KnownModel(1024, **_QWEN),
    "qwen3-embedding:4b": KnownModel(2560, **_QWEN),
    "qwen3-embedding:8b": KnownModel(4096, **_QWEN),
    "snowflake-arctic-embed": KnownModel(1024, query_prefix=_SENTENCE),
    "snowflake-arctic-embed:22m": KnownModel(384, query_prefix=_SENTENCE),
    "snowflake-arctic-embed:335m": KnownModel(1024, query_prefix=_SENTENCE),
    "snowflake-arctic-embed2": KnownModel(1024, query_prefix="query: "),
}


def known_ollama(model: str) -> KnownModel | None:
    """What is known of a model by its Ollama name, whose tag ``latest`` may be left out."""
    return OLLAMA.get(model.removesuffix(":latest"))
