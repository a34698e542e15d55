"""Pure, deterministic chunkers: a document's text in, spans of it out."""

from triptych._internal.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
