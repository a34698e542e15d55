"""Awaiting a knowledge base: `AsyncService`, `AsyncDataset`, streams, models with async methods."""

from triptych.aio.facade import (
    AsyncDataset,
    AsyncEmbedder,
    AsyncLLM,
    AsyncPipeline,
    AsyncService,
    BlockingEmbedder,
    BlockingLLM,
    ProgressStream,
    iterate,
)
from triptych.aio.threads import AsyncAnswerStream

__all__ = [
    "AsyncAnswerStream",
    "AsyncDataset",
    "AsyncEmbedder",
    "AsyncLLM",
    "AsyncPipeline",
    "AsyncService",
    "BlockingEmbedder",
    "BlockingLLM",
    "ProgressStream",
    "iterate",
]
