"""Sentences that are found alone and read in their surroundings."""

import re
from collections.abc import Iterator

import attrs

from triptych.chunking.blocks import LIST_ITEM, PARAGRAPH, Block
from triptych.chunking.boundaries import next_visible, splits_character, trimmed_end, windows
from triptych.chunking.normalize import unify_line_ends
from triptych.chunking.sections import Section, is_table, sections
from triptych.chunking.specs import ChunkSpec, check_sizes
from triptych.errors import ValidationError
from triptych.text.sentences import sentence_spans

ALGORITHM = "sentence-window/1"

_BLANK_LINE = re.compile(r"\n[^\S\n]*+\n\s*+")
_LETTER = re.compile(r"[^\W\d_]")

Span = tuple[int, int]


@attrs.frozen(kw_only=True)
class SentenceWindowChunker:
    """Chunks of `sentences_per_chunk` sentences, shown with `window` more on both sides.

    What is embedded and matched is the sentence; `Hit.window` holds the sentences around it, so
    that the search is precise and the reader has the context. Source: "sentence window
    retrieval" of LlamaIndex's SentenceWindowNodeParser, whose defaults (1, 3) are ours.

    Sentences are those of `triptych.text.sentences`: abbreviations end none, Chinese and Japanese
    full stops need no space after them. A blank line always ends one, a single line end never
    does. A piece without a letter, such as the number of a list item, joins its neighbour. A
    sentence of more than `size` code points is cut, so that no chunk is longer.

    With `markdown`, sections are kept apart: each chunk has its `heading_path`, a section's first
    chunk begins with the heading, no window reaches over one, and code, tables and front matter
    are each one piece. Without it a window may reach over any part of the document.

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
            f"{ALGORITHM}(sentences={self.sentences_per_chunk},window={self.window},"
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
    if kind == LIST_ITEM or (kind == PARAGRAPH and not is_table(text, start, end)):
        return sentence_spans(text, start, end)
    return [(start, trimmed_end(text, start, end))]
