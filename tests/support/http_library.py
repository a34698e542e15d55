"""httpx2, or httpx where it is not installed: the one that model providers use."""

from __future__ import annotations

try:
    import httpx2 as httpx
except ModuleNotFoundError:
    import httpx

__all__ = ["httpx"]
