"""The names of `triptych.chunking`, each with the module that defines it."""

from triptych.chunking.blocks import (
    HEADINGS as HEADINGS,
    first_heading as first_heading,
    heading_text as heading_text,
    scan as scan,
)
from triptych.chunking.boundaries import unify_line_ends as unify_line_ends
from triptych.chunking.kinds import (
    CODE_ENDINGS as CODE_ENDINGS,
    MARKDOWN as MARKDOWN,
    ChunkerSet as ChunkerSet,
    OutlinedChunker as OutlinedChunker,
    default_chunkers as default_chunkers,
    is_code as is_code,
    kind_of as kind_of,
)
from triptych.chunking.markdown import MarkdownChunker as MarkdownChunker
from triptych.chunking.outline import (
    MAX_LOCATORS as MAX_LOCATORS,
    LineEnds as LineEnds,
    Locator as Locator,
    Outline as Outline,
    Outliner as Outliner,
    Part as Part,
    read_outline as read_outline,
    write_outline as write_outline,
)
from triptych.chunking.specs import (
    ChunkConfig as ChunkConfig,
    Chunker as Chunker,
    ChunkSpec as ChunkSpec,
    byte_offsets as byte_offsets,
    embedded_title as embedded_title,
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
