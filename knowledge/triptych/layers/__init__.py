"""Layers: building them with a language model or without, and keeping them true."""

from triptych._internal.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
