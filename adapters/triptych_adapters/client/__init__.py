"""A knowledge base that a server serves, used as if it were here: `connect`, `RemoteService`."""

from triptych_adapters.client.service import RemotePipeline, RemoteService, connect

__all__ = ["RemotePipeline", "RemoteService", "connect"]
