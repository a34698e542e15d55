"""The results of a chunker: chunks, their lines and bytes, and the text to embed."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

import attrs

from triptych.errors import ValidationError
from triptych.records import Metadata
from triptych.records.metadata import text_of
from triptych.text import BESIDE
from triptych.text.labels import spoken_name, titles_of

MIN_SIZE = 16


@attrs.frozen(kw_only=True)
class ChunkConfig:
    """Sizes of the default chunker, in Unicode code points.

    `size` is the maximum size of a chunk; `overlap` is the size of the part that the next chunk
    repeats. Raises ValidationError unless `size >= 16` and `0 <= overlap < size`.
    """

    size: int = 512
    overlap: int = 64

    def __attrs_post_init__(self) -> None:
        check_sizes(self.size, self.overlap)


def check_sizes(size: int, overlap: int) -> None:
    """Raise ValidationError unless `size >= 16` and `0 <= overlap < size`."""
    if size < MIN_SIZE:
        raise ValidationError(
            f"chunk size {size} is too small: give at least {MIN_SIZE} code points"
        )
    if not 0 <= overlap < size:
        raise ValidationError(
            f"chunk overlap {overlap} does not fit chunk size {size}: give both, with "
            "0 <= overlap < size"
        )


@attrs.frozen(kw_only=True)
class ChunkSpec:
    """A chunk from a chunker, without its dataset and document.

    Offsets are Unicode code points: `content[start:end]` is the chunk. `heading_path` has the
    titles of its sections, outermost first; if it contains several sections, the last part has the
    titles of all, `One / Two`. A chunk that begins inside a table has the table's head after them,
    `| Article | Count |`. `window_start` and `window_end` are the wider span of a window chunker,
    None from other chunkers. `locator` is the page, cell or slide in the original file, None for
    plain text.

    Raises ValidationError if the spans are inconsistent.
    """

    index: int
    start: int
    end: int
    heading_path: tuple[str, ...] = ()
    window_start: int | None = None
    window_end: int | None = None
    locator: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.index < 0 or not 0 <= self.start <= self.end:
            raise ValidationError(
                f"chunk {self.index} has no valid span: start {self.start}, end {self.end}"
            )
        if self.window_start is None and self.window_end is None:
            return
        if self.window_start is None or self.window_end is None:
            raise ValidationError(
                f"chunk {self.index} has half a window: give both ends or neither"
            )
        if not 0 <= self.window_start <= self.start or self.end > self.window_end:
            raise ValidationError(
                f"chunk {self.index} [{self.start}, {self.end}) lies outside its window "
                f"[{self.window_start}, {self.window_end})"
            )


class Chunker(Protocol):
    """Turns a document's content into chunks.

    Pure and deterministic: the same content gives the same chunks in every process and on every
    platform. Chunks are sorted by start, `index` counts them from 0, and none is blank. Content
    without a visible character gives an empty list.
    """

    @property
    def signature(self) -> str:
        """The kind, algorithm version and all options: equal signatures mean equal chunks."""
        ...

    def chunk(self, content: str) -> list[ChunkSpec]:
        """Return the chunks of `content`. Never raises for any string."""
        ...


_LINE_END = re.compile(r"\r\n?|\n")


def line_starts(content: str) -> list[int]:
    """Return where each line begins, in code points; lines end in \\n, \\r\\n or \\r.

    The first line is always at 0; a final line end is followed by an empty last line.
    """
    return [0, *(found.end() for found in _LINE_END.finditer(content))]


def start_lines(content: str, specs: Sequence[ChunkSpec]) -> list[int]:
    """Return the line, counted from 1, that each chunk starts on, in the order of `specs`."""
    lines = [0] * len(specs)
    line, at = 1, 0
    returns = "\r" in content
    for index in _by_start(specs):
        start = specs[index].start
        if returns and content.startswith("\r\n", start - 1) and start > 0:
            start -= 1  # between the two, the line has not ended yet
        line += content.count("\n", at, start)
        if returns:
            line += content.count("\r", at, start) - content.count("\r\n", at, start)
        at = start
        lines[index] = line
    return lines


def _by_start(specs: Sequence[ChunkSpec]) -> Sequence[int]:
    if len(specs) < 2:
        return range(len(specs))
    starts = [spec.start for spec in specs]
    if starts == sorted(starts):
        return range(len(starts))
    return sorted(range(len(starts)), key=starts.__getitem__)


def byte_offsets(content: str, specs: Sequence[ChunkSpec]) -> list[int]:
    """Return each chunk's start in bytes of UTF-8, in the order of `specs`."""
    if content.isascii():
        return [spec.start for spec in specs]
    offsets = [0] * len(specs)
    offset, at = 0, 0
    for index in _by_start(specs):
        start = specs[index].start
        offset += len(content[at:start].encode("utf-8", "surrogatepass"))
        at = start
        offsets[index] = offset
    return offsets


def embedded_title(name: str, metadata: Metadata, heading_paths: Iterable[tuple[str, ...]]) -> str:
    """Return the title that `embedding_text` puts before each chunk of a document.

    It is `metadata["title"]`; else, if none of the chunks has a heading above it, the words of the
    document's name (`spoken_name`).
    """
    if title := text_of(metadata, "title"):
        return title
    return "" if any(map(titles_of, heading_paths)) else spoken_name(name)


def embedding_text(title: str | None, heading_path: Sequence[str], chunk_content: str) -> str:
    """Return the text of a chunk for the embedder: "title > heading > heading", then the chunk.

    The title is omitted if it is empty, or equals the outermost heading or the first title of
    joined sections. Without title and headings it is only the chunk. This is a pure function; the
    digest of its result decides whether a chunk is embedded again.
    """
    line = _lead(title, tuple(heading_path))
    return f"{line}\n{chunk_content}" if line else chunk_content


@lru_cache(maxsize=256)
def _lead(title: str | None, heading_path: tuple[str, ...]) -> str:
    # A section's chunks come one after the other.
    parts = [" ".join(heading.split()) for heading in heading_path]
    name = " ".join(title.split()) if title else ""
    if name and not f"{''.join(parts[:1])}{BESIDE}".startswith(f"{name}{BESIDE}"):
        parts.insert(0, name)
    return " > ".join([part for part in parts if part])
