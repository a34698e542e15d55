"""The memory backend: dicts under one lock. The reference for what a backend does."""

from triptych_backends.memory.dataset import ChunkSetState, DatasetState
from triptych_backends.memory.store import MemoryStore

__all__ = ["ChunkSetState", "DatasetState", "MemoryStore"]
