"""The client of a Triptych server: `connect` and `RemoteService`, with the methods of a Service."""

from triptych_server.client.service import RemoteService, connect

__all__ = ["RemoteService", "connect"]
