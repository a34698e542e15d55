"""The names of `triptych.chunking`, each with the module that defines it."""

from triptych.chunking.blocks import first_heading as first_heading
from triptych.chunking.kinds import (
    ChunkerSet as ChunkerSet,
    OutlinedChunker as OutlinedChunker,
    default_chunkers as default_chunkers,
    kind_of as kind_of,
)
from triptych.chunking.markdown import MarkdownChunker as MarkdownChunker
from triptych.chunking.outline import (
    Locator as Locator,
    Outline as Outline,
    Outliner as Outliner,
    Part as Part,
)
from triptych.chunking.specs import (
    ChunkConfig as ChunkConfig,
    Chunker as Chunker,
    ChunkSpec as ChunkSpec,
    byte_offsets as byte_offsets,
    embedding_text as embedding_text,
    line_starts as line_starts,
    start_lines as start_lines,
)
from triptych.chunking.windows import (
    DefaultChunker as DefaultChunker,
    FixedWindowChunker as FixedWindowChunker,
    SentenceWindowChunker as SentenceWindowChunker,
    chunk_config_sig as chunk_config_sig,
    chunk_text as chunk_text,
)
