"""Access: one knowledge base, seen by several callers, each of whom sees what is theirs."""

from triptych.access.view import Access

__all__ = ["Access"]
