"""The arguments of a context, typed: those of a search, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypedDict

from triptych.records import Layer
from triptych.records.search_options import DatasetSearchOptions, SearchOptions
from triptych.text.tokens import TokenCounter

__all__ = [
    "CONTEXT_DEFAULTS",
    "PASSAGE_DEFAULTS",
    "ContextOptions",
    "DatasetContextOptions",
    "PassageOptions",
]


class PassageOptions(TypedDict, total=False):
    """Which texts a context may hold.

    Keys:
        layers: the layers to mix, ``("L0", "L1", "L2")`` by default; those that do not exist are
            left out.
        max_pieces: the maximum number of pieces, the best; None for any number.
        counter: counts tokens: a function from text to their number. None is tiktoken where it is
            installed, else an estimate, as ``ContextPack.counter`` says.
    """

    layers: Iterable[Layer | str]
    max_pieces: int | None
    counter: TokenCounter | Callable[[str], int] | None


class _FormOptions(PassageOptions, total=False):
    """How a context is written.

    Keys:
        format: the one that the pack will be rendered in: "text" (the default), "markdown", "xml"
            or "json"; headers and citations are counted.
        fence: whether each text stands between delimiters that are drawn at random, and that no
            document can guess.
    """

    format: str
    fence: bool


class DatasetContextOptions(DatasetSearchOptions, _FormOptions, total=False):
    """What a context of one dataset takes beside the query and the budget."""


class ContextOptions(SearchOptions, _FormOptions, total=False):
    """What a context takes beside the query and the budget: ``layer`` and ``top_k`` of a search
    play no role."""


PASSAGE_DEFAULTS: Final[PassageOptions] = {
    "layers": ("L0", "L1", "L2"),
    "max_pieces": None,
    "counter": None,
}
CONTEXT_DEFAULTS: Final[_FormOptions] = {"format": "text", **PASSAGE_DEFAULTS, "fence": False}
