"""Rerankers on this machine. Those over HTTP are in `triptych_backends.providers`."""

from triptych_backends.rerankers.cross_encoder import CrossEncoder

__all__ = ["CrossEncoder"]
