"""Awaiting a knowledge base: `AsyncService`, `AsyncDataset`, streams, models with async methods."""

from triptych.aio.answers import AsyncAnswerStream
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
