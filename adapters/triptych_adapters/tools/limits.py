"""How many tokens an answer of a tool may have."""

from __future__ import annotations

from typing import Final

__all__ = ["DEFAULT_MAX_TOKENS", "LEAST_MAX_TOKENS"]

DEFAULT_MAX_TOKENS: Final = 4000
LEAST_MAX_TOKENS: Final = 256
