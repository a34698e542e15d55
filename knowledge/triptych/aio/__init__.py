"""Asynchronous use: `AsyncService`, `AsyncDataset`, streams, and models with async methods."""

from triptych.aio.facade import (
    AsyncDataset,
    AsyncService,
    BlockingEmbedder,
    BlockingLLM,
    ProgressStream,
    iterate,
)
from triptych.aio.threads import AsyncAnswerStream
from triptych.contracts import AsyncEmbedder, AsyncLLM

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
