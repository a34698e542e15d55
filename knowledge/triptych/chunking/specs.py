"""Records and the contract of chunking: what goes in, what comes out."""

from typing import Protocol

import attrs

from triptych.errors import ValidationError

MIN_SIZE = 16


@attrs.frozen(kw_only=True)
class ChunkConfig:
    """Sizes of the default chunker, in Unicode code points.

    `size` is the most a chunk may hold; `overlap` is how much of a chunk the next one repeats.
    Raises ValidationError unless `size >= 16` and `0 <= overlap < size`.
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
    """One chunk as a chunker sees it, without the identity of its dataset and document.

    Offsets are Unicode code points: `content[start:end]` is the chunk. `heading_path` holds the
    titles of the sections around it, outermost first. `window_start` and `window_end` are the
    wider span that a window chunker gives its reader, None from every other chunker. `locator`
    leads back to a page, cell or slide of the original, None for plain text.

    Raises ValidationError when the spans contradict each other.
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

    Pure and deterministic: the same content gives the same chunks in every process, on every
    platform. Chunks come in the order of their starts, `index` counts them from 0, and none is
    blank. Content without a visible character gives an empty list.
    """

    @property
    def signature(self) -> str:
        """Names kind, algorithm version and every option: equal signatures, equal chunks."""
        ...

    def chunk(self, content: str) -> list[ChunkSpec]:
        """Return the chunks of `content`. Never raises for any string."""
        ...
