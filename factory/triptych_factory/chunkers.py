"""From a name to chunkers: an explicit dict of builders."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from triptych.chunking import (
    ChunkConfig,
    ChunkerSet,
    DefaultChunker,
    FixedWindowChunker,
    MarkdownChunker,
    SentenceWindowChunker,
    default_chunkers,
)
from triptych.errors import ValidationError

__all__ = ["CHUNKERS", "build_chunkers"]


def _sentences(size: int | None = None, overlap: int | None = None) -> ChunkerSet:
    if overlap:
        raise ValidationError(
            f"chunk_overlap is {overlap}, and the chunker 'sentence-window' has none: its windows "
            "hold the sentences around each; leave chunk_overlap out"
        )
    chunker = SentenceWindowChunker() if size is None else SentenceWindowChunker(size=size)
    return ChunkerSet(default=chunker)


CHUNKERS: Mapping[str, Callable[..., ChunkerSet]] = {
    "markdown": lambda **sizes: default_chunkers(ChunkConfig(**sizes), MarkdownChunker(**sizes)),
    "window": lambda **sizes: ChunkerSet(default=DefaultChunker(config=ChunkConfig(**sizes))),
    "fixed-window": lambda **sizes: ChunkerSet(default=FixedWindowChunker(**sizes)),
    "sentence-window": _sentences,
}
"""What the setting ``chunker`` names: each takes ``size`` and ``overlap``, in code points."""


def build_chunkers(name: str, size: int | None = None, overlap: int | None = None) -> ChunkerSet:
    """Return the chunkers of this name, with the sizes that are given; None leaves the default.

    Raises:
        ValidationError: no chunker has this name, or the sizes do not fit.
    """
    if name not in CHUNKERS:
        raise ValidationError(f"no chunker is called {name!r}: use one of {', '.join(CHUNKERS)}")
    given = {"size": size, "overlap": overlap}
    return CHUNKERS[name](**{key: value for key, value in given.items() if value is not None})
