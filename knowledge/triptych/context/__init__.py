"""Context under a budget: what `Service.context` answers with, and how tokens are counted."""

from triptych.context.counting import ESTIMATE, TokenCounter, default_counter
from triptych.context.records import Citation, ContextPack, Piece, Verification

__all__ = [
    "ESTIMATE",
    "Citation",
    "ContextPack",
    "Piece",
    "TokenCounter",
    "Verification",
    "default_counter",
]
