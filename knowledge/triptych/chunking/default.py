"""The default chunker: windows over plain text that end where a thought does."""

import attrs

from triptych.chunking.boundaries import align_left, break_before, next_visible, trimmed_end
from triptych.chunking.normalize import unify_line_ends
from triptych.chunking.specs import ChunkConfig, ChunkSpec

ALGORITHM = "window/1"


def chunk_config_sig(config: ChunkConfig) -> str:
    """Return the signature of the default chunker under `config`."""
    return f"{ALGORITHM}(size={config.size},overlap={config.overlap})"


def chunk_text(content: str, config: ChunkConfig) -> list[ChunkSpec]:
    """Cut `content` into chunks of at most `config.size` code points.

    A chunk ends after the last blank line, else the last sentence, else the last line, else the
    last word that ends in the last quarter of its window, else at the limit; a user-perceived
    character or CRLF is not split. The next window starts `config.overlap` code points before
    that cut (a little earlier where that would part a character). Chunks are trimmed of
    whitespace, so a chunk may be shorter than its window and an overlap shorter than asked; every
    visible character is in a chunk. A leading byte order mark is in none.
    """
    text = unify_line_ends(content)
    size, overlap = config.size, config.overlap
    length = len(text)
    specs: list[ChunkSpec] = []
    start = next_visible(text, 0)
    while start >= 0:
        limit = start + size
        if limit >= length:
            cut = length
        else:
            # Past the overlap, or the next window would not start after this one.
            cut = break_before(text, max(limit - size // 4, start + overlap + 1), limit)
        end = trimmed_end(text, start, cut)
        following = next_visible(text, cut)
        if specs and end <= specs[-1].end:
            # A wide gap: the window holds nothing that the last chunk does not.
            start = following
            continue
        specs.append(ChunkSpec(index=len(specs), start=start, end=end))
        if overlap and following >= 0:
            following = next_visible(text, align_left(text, cut - overlap, start + 1))
        start = following
    return specs


@attrs.frozen(kw_only=True)
class DefaultChunker:
    """Windows of `config.size` code points with overlap, for any text: see `chunk_text`."""

    config: ChunkConfig = attrs.field(factory=ChunkConfig)

    @property
    def signature(self) -> str:
        """The signature of algorithm and sizes: `chunk_config_sig(self.config)`."""
        return chunk_config_sig(self.config)

    def chunk(self, content: str) -> list[ChunkSpec]:
        """Return the chunks of `content`: `chunk_text(content, self.config)`."""
        return chunk_text(content, self.config)
