"""Windows of a fixed size, whatever the text says."""

import re

import attrs

from triptych.chunking.boundaries import align_left, next_visible, overlap_start, trimmed_end
from triptych.chunking.normalize import unify_line_ends
from triptych.chunking.specs import ChunkSpec, check_sizes

ALGORITHM = "fixed-window/1"

_LAST_SPACE = re.compile(r".*\s", re.DOTALL)


@attrs.frozen(kw_only=True)
class FixedWindowChunker:
    """Chunks of `size` code points, each repeating the last `overlap` of the one before.

    A window is cut at its limit, and moved left only where that would part a user-perceived
    character or CRLF; a character longer than a window, or than 64 code points, is split. With
    `whole_words` a window ends after its last white space, and an overlap begins at the first
    word that fits in it; a word that leaves no room for the overlap, and text without spaces, is
    cut at the limit. Chunks are trimmed of white space, so that one may be shorter than its
    window; every visible character is in a chunk. A leading byte order mark is in none.

    Sentences, paragraphs and headings play no role. For text that has them the other chunkers
    find better places; this one is for logs, transcripts, OCR and comparisons.

    Raises ValidationError unless `size >= 16` and `0 <= overlap < size`.
    """

    size: int = 512
    overlap: int = 64
    whole_words: bool = False

    def __attrs_post_init__(self) -> None:
        check_sizes(self.size, self.overlap)

    @property
    def signature(self) -> str:
        """The signature of algorithm and options."""
        words = ",whole_words" if self.whole_words else ""
        return f"{ALGORITHM}(size={self.size},overlap={self.overlap}{words})"

    def chunk(self, content: str) -> list[ChunkSpec]:
        """Return the chunks of `content`, in linear time."""
        text = unify_line_ends(content)
        specs: list[ChunkSpec] = []
        start = next_visible(text, 0)
        while start >= 0:
            cut = self._cut(text, start)
            end = trimmed_end(text, start, cut)
            following = next_visible(text, cut)
            # Where white space is wide, a window may hold nothing that the last chunk does not.
            if not specs or end > specs[-1].end:
                specs.append(ChunkSpec(index=len(specs), start=start, end=end))
                if self.overlap and following >= 0:
                    following = self._next(text, start, cut)
            start = following
        return specs

    def _cut(self, text: str, start: int) -> int:
        limit = start + self.size
        if limit >= len(text):
            return len(text)
        # Past the overlap, or the next window would not start after this one.
        lowest = start + self.overlap + 1
        if self.whole_words and not text[limit].isspace():
            found = _LAST_SPACE.match(text, lowest - 1, limit)
            if found is not None:
                return align_left(text, found.end(), lowest)
        return align_left(text, limit, lowest)

    def _next(self, text: str, start: int, cut: int) -> int:
        """Where the window after `[start, cut)` starts: after `start`, at most at `cut`."""
        if self.whole_words:
            at = overlap_start(text, max(cut - self.overlap, start + 1), cut)
        else:
            at = align_left(text, cut - self.overlap, start + 1)
        return next_visible(text, at)
