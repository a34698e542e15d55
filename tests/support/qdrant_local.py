"""The client's local mode: an emulation of Qdrant in this process."""

from __future__ import annotations

from qdrant_client import QdrantClient

from triptych_qdrant import ClientCollections


class LocalMode(ClientCollections):
    """The client's emulation, which stays open as a server does."""

    def __init__(self) -> None:
        self.client = QdrantClient(":memory:", force_disable_check_same_thread=True)
        super().__init__(lambda: self.client, "memory", is_server=False)

    def close(self) -> None:
        pass
