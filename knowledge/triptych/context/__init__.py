"""Context under a budget: what `Service.context` answers with, and how tokens are counted."""

from triptych.context.options import ContextOptions
from triptych.context.pack import ContextPack
from triptych.context.records import Citation, Piece, Verification
from triptych.text.tokens import ESTIMATE, TokenCounter, default_counter

__all__ = [
    "ESTIMATE",
    "Citation",
    "ContextOptions",
    "ContextPack",
    "Piece",
    "TokenCounter",
    "Verification",
    "default_counter",
]
