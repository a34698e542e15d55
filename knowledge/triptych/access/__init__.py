"""Access control: restricting a knowledge base to the documents that a caller may use."""

from triptych.access.view import Access

__all__ = ["Access"]
