"""Pure, deterministic chunkers: a document's text in, spans of it out."""

from triptych.chunking.blocks import first_heading
from triptych.chunking.kinds import ChunkerSet, OutlinedChunker, default_chunkers, kind_of
from triptych.chunking.markdown import MarkdownChunker
from triptych.chunking.outline import Locator, Outline, Outliner, Part
from triptych.chunking.specs import (
    ChunkConfig,
    Chunker,
    ChunkSpec,
    byte_offsets,
    embedding_text,
    line_starts,
    start_lines,
)
from triptych.chunking.windows import (
    DefaultChunker,
    FixedWindowChunker,
    SentenceWindowChunker,
    chunk_config_sig,
    chunk_text,
)

__all__ = [
    "ChunkConfig",
    "ChunkSpec",
    "Chunker",
    "ChunkerSet",
    "DefaultChunker",
    "FixedWindowChunker",
    "Locator",
    "MarkdownChunker",
    "Outline",
    "OutlinedChunker",
    "Outliner",
    "Part",
    "SentenceWindowChunker",
    "byte_offsets",
    "chunk_config_sig",
    "chunk_text",
    "default_chunkers",
    "embedding_text",
    "first_heading",
    "kind_of",
    "line_starts",
    "start_lines",
]
