"""Passages: the texts by which models judge hits."""

from __future__ import annotations

from collections.abc import Sequence

from triptych.chunking.embedding import embedding_text
from triptych.contracts import HitReader
from triptych.records import Hit


def passages(hits: Sequence[Hit], reader: HitReader) -> list[str]:
    """Return the text of each hit that a model reads.

    This is the window where the chunk has one, else the text with the document's title and the
    headings before it, as the embedder reads it.
    """
    return [
        _with_headings(hit) if window is None else window
        for hit, window in zip(hits, reader.windows(hits), strict=True)
    ]


def _with_headings(hit: Hit) -> str:
    title = hit.metadata.get("title")
    return embedding_text(title if isinstance(title, str) else None, hit.heading_path, hit.content)
