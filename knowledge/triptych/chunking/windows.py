"""Chunkers that cut windows: the default, a fixed-size and a sentence chunker."""

import re
from collections.abc import Callable, Iterator

import attrs

from triptych.chunking.blocks import LIST_ITEM, PARAGRAPH, Block, Section, sections, tables
from triptych.chunking.boundaries import (
    align_left,
    break_before,
    next_visible,
    overlap_start,
    splits_character,
    trimmed_end,
    unify_line_ends,
    windows,
)
from triptych.chunking.specs import ChunkConfig, ChunkSpec, check_sizes
from triptych.errors import ValidationError
from triptych.text.sentences import sentence_spans


def chunk_config_sig(config: ChunkConfig) -> str:
    """Return the signature of the default chunker under `config`."""
    return f"window/1(size={config.size},overlap={config.overlap})"


def chunk_text(content: str, config: ChunkConfig) -> list[ChunkSpec]:
    """Cut `content` into chunks of at most `config.size` code points.

    A chunk ends after the last blank line, else the last sentence, else the last line, else the
    last word that ends in the last quarter of its window, else at the limit. A user-perceived
    character or CRLF is not split. The next window starts `config.overlap` code points before the
    cut (or slightly earlier, to avoid splitting a character). Whitespace at the ends is trimmed, so
    that chunks and overlaps may be shorter; every visible character is in a chunk. A leading byte
    order mark is in none.
    """
    size, overlap = config.size, config.overlap

    def cut(text: str, start: int) -> int:
        limit = start + size
        if limit >= len(text):
            return len(text)
        # Past the overlap, or the next window would not start after this one.
        return break_before(text, max(limit - size // 4, start + overlap + 1), limit)

    def back(text: str, start: int, cut: int) -> int:
        return align_left(text, cut - overlap, start + 1)

    return _chunks(content, cut, back if overlap else None)


def _chunks(
    content: str, cut: Callable[[str, int], int], back: Callable[[str, int, int], int] | None
) -> list[ChunkSpec]:
    """The chunks of windows that end at ``cut(text, start)``.

    The next one starts there; with ``back``, at the first visible character after
    ``back(text, start, cut)``, which is after ``start``.
    """
    text = unify_line_ends(content)
    specs: list[ChunkSpec] = []
    start = next_visible(text, 0)
    while start >= 0:
        at = cut(text, start)
        end = trimmed_end(text, start, at)
        following = next_visible(text, at)
        # Where white space is wide, a window may hold nothing that the last chunk does not.
        if not specs or end > specs[-1].end:
            specs.append(ChunkSpec(index=len(specs), start=start, end=end))
            if back is not None and following >= 0:
                following = next_visible(text, back(text, start, at))
        start = following
    return specs


@attrs.frozen(kw_only=True)
class DefaultChunker:
    """Cuts any text into windows of `config.size` code points with overlap: see `chunk_text`."""

    config: ChunkConfig = attrs.field(factory=ChunkConfig)

    @property
    def signature(self) -> str:
        """The signature of algorithm and sizes: `chunk_config_sig(self.config)`."""
        return chunk_config_sig(self.config)

    def chunk(self, content: str) -> list[ChunkSpec]:
        """Return the chunks of `content`: `chunk_text(content, self.config)`."""
        return chunk_text(content, self.config)


_LAST_SPACE = re.compile(r".*\s", re.DOTALL)


@attrs.frozen(kw_only=True)
class FixedWindowChunker:
    """Makes chunks of `size` code points, each repeating the last `overlap` of the previous one.

    A window is cut at its limit, or earlier to avoid splitting a user-perceived character or CRLF;
    a character longer than a window, or than 64 code points, is split. With `whole_words` a window
    ends after its last white space, and an overlap starts at the first word that fits in it; a word
    that leaves no room for the overlap, and text without spaces, is cut at the limit. White space
    at the ends is trimmed, so that a chunk may be shorter than its window; every visible character
    is in a chunk. A leading byte order mark is in none.

    It ignores sentences, paragraphs and headings. Use it for logs, transcripts, OCR and
    comparisons; the other chunkers make better cuts in structured text.

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
        return f"fixed-window/1(size={self.size},overlap={self.overlap}{words})"

    def chunk(self, content: str) -> list[ChunkSpec]:
        """Return the chunks of `content`, in linear time."""
        return _chunks(content, self._cut, self._back if self.overlap else None)

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

    def _back(self, text: str, start: int, cut: int) -> int:
        if self.whole_words:
            return overlap_start(text, max(cut - self.overlap, start + 1), cut)
        return align_left(text, cut - self.overlap, start + 1)


_BLANK_LINE = re.compile(r"\n[^\S\n]*+\n\s*+")
_LETTER = re.compile(r"[^\W\d_]")

Span = tuple[int, int]


@attrs.frozen(kw_only=True)
class SentenceWindowChunker:
    """Makes chunks of `sentences_per_chunk` sentences, shown with `window` more on both sides.

    Only the sentence is embedded and matched; `Hit.window` has the sentences around it, so that the
    search is precise and the reader has context. Source: "sentence window retrieval" of
    LlamaIndex's SentenceWindowNodeParser, with the same defaults (1, 3).

    Sentences are as in `triptych.text.sentences`: abbreviations do not end a sentence, Chinese and
    Japanese full stops need no following space. A blank line always ends a sentence, a single line
    end never does. A piece without letters, such as the number of a list item, is joined to its
    neighbour. A sentence longer than `size` code points is cut.

    With `markdown`, windows do not cross sections: each chunk has its `heading_path`, a section's
    first chunk starts with the heading, and code, tables and front matter are one piece each.
    Without it a window may cross any part of the document.

    Every visible character is in exactly one chunk. A leading byte order mark is in none.

    Raises ValidationError unless `sentences_per_chunk >= 1`, `window >= 0` and `size >= 16`.
    """

    sentences_per_chunk: int = 1
    window: int = 3
    size: int = 800
    markdown: bool = False

    def __attrs_post_init__(self) -> None:
        check_sizes(self.size, 0)
        if self.sentences_per_chunk < 1:
            raise ValidationError(
                f"a chunk holds at least 1 sentence, not {self.sentences_per_chunk}"
            )
        if self.window < 0:
            raise ValidationError(
                f"a window holds 0 or more sentences on each side, not {self.window}"
            )

    @property
    def signature(self) -> str:
        """The signature of algorithm and options."""
        markdown = ",markdown" if self.markdown else ""
        return (
            f"sentence-window/1(sentences={self.sentences_per_chunk},window={self.window},"
            f"size={self.size}{markdown})"
        )

    def chunk(self, content: str) -> list[ChunkSpec]:
        """Return the chunks of `content`, each with its window, in linear time."""
        text = unify_line_ends(content)
        specs: list[ChunkSpec] = []
        for path, sentences in self._sections(text):
            for first, last in self._groups(sentences):
                left = max(0, first - self.window)
                right = min(len(sentences), last + self.window)
                specs.append(
                    ChunkSpec(
                        index=len(specs),
                        start=sentences[first][0],
                        end=sentences[last - 1][1],
                        heading_path=path,
                        window_start=sentences[left][0],
                        window_end=sentences[right - 1][1],
                    )
                )
        return specs

    def _groups(self, sentences: list[Span]) -> Iterator[Span]:
        """Runs of sentences, (first, past the last), that make up a chunk of at most `size`."""
        first = 0
        while first < len(sentences):
            last = first + 1
            most = min(len(sentences), first + self.sentences_per_chunk)
            while last < most and sentences[last][1] - sentences[first][0] <= self.size:
                last += 1
            yield first, last
            first = last

    def _sections(self, text: str) -> Iterator[tuple[tuple[str, ...], list[Span]]]:
        if not self.markdown:
            yield (), self._sentences(text, _paragraphs(text))
            return
        for section in sections(text):
            yield section.path, self._sentences(text, _markdown_pieces(text, section))

    def _sentences(self, text: str, pieces: Iterator[Span]) -> list[Span]:
        """The pieces, none longer than `size`, and none that is nothing by itself."""
        found: list[Span] = []
        joins = False  # whether the piece before waits for the one after it
        for start, end in pieces:
            if not found and splits_character(text, start):
                start -= 1  # the space under a mark: there is no piece before that has it
            spans = (
                [(start, end)] if end - start <= self.size else windows(text, start, end, self.size)
            )
            for start, end in spans:
                bare = _LETTER.search(text, start, end) is None
                wanted = joins or splits_character(text, start)
                if wanted and found and end - found[-1][0] <= self.size:
                    found[-1] = found[-1][0], end
                    joins = joins and bare
                else:
                    found.append((start, end))
                    joins = bare
        if joins and len(found) > 1 and found[-1][1] - found[-2][0] <= self.size:
            end = found.pop()[1]
            found[-1] = found[-1][0], end
        return found


def _paragraphs(text: str) -> Iterator[Span]:
    """The sentences of a plain text, paragraph by paragraph."""
    start = max(0, next_visible(text, 0))
    for gap in _BLANK_LINE.finditer(text, start):
        yield from sentence_spans(text, start, gap.start())
        start = gap.end()
    yield from sentence_spans(text, start, len(text))


def _markdown_pieces(text: str, section: Section) -> Iterator[Span]:
    """The sentences of a section; its heading goes before the first of them."""
    lead = section.start if section.lead_end >= 0 else -1
    for block in section.blocks:
        for start, end in _block_pieces(text, block):
            yield (start if lead < 0 else lead), end
            lead = -1
    if lead >= 0:
        yield lead, section.lead_end


def _block_pieces(text: str, block: Block) -> list[Span]:
    kind, start, end = block
    if kind == LIST_ITEM or (kind == PARAGRAPH and not tables(text, start, end)):
        return sentence_spans(text, start, end)
    return [(start, trimmed_end(text, start, end))]
