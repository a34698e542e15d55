"""Pure, deterministic chunkers: a document's text in, spans of it out."""

from triptych.chunking.default import DefaultChunker, chunk_config_sig, chunk_text
from triptych.chunking.embedding import embedding_text
from triptych.chunking.fixed_window import FixedWindowChunker
from triptych.chunking.headings import first_heading
from triptych.chunking.kinds import ChunkerSet, default_chunkers, kind_of
from triptych.chunking.markdown import MarkdownChunker
from triptych.chunking.outline import Locator, Outline, Outliner, Part
from triptych.chunking.outlined import OutlinedChunker
from triptych.chunking.positions import byte_offsets, line_starts, start_lines
from triptych.chunking.sentence_window import SentenceWindowChunker
from triptych.chunking.specs import ChunkConfig, Chunker, ChunkSpec

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
