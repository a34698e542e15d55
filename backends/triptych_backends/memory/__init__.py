"""The memory store: dicts under one lock. It is the reference implementation of a backend."""

from triptych_backends.memory.dataset import ChunkSetState, DatasetState
from triptych_backends.memory.store import MemoryStore

__all__ = ["ChunkSetState", "DatasetState", "MemoryStore"]
