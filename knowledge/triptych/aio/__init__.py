"""Awaiting a knowledge base: `AsyncService`, `AsyncDataset`, streams, models with async methods."""

from triptych.aio.facade import (
    AsyncAnswerStream,
    AsyncDataset,
    AsyncEmbedder,
    AsyncLLM,
    AsyncService,
    BlockingEmbedder,
    BlockingLLM,
    ProgressStream,
    iterate,
)

__all__ = [
    "AsyncAnswerStream",
    "AsyncDataset",
    "AsyncEmbedder",
    "AsyncLLM",
    "AsyncService",
    "BlockingEmbedder",
    "BlockingLLM",
    "ProgressStream",
    "iterate",
]
