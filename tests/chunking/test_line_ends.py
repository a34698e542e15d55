"""Line numbers of chunks: right for every line end, and found without reading the text again."""

from __future__ import annotations

import itertools

from hypothesis import given, strategies as st

from triptych.chunking import LineEnds, Locator, default_chunkers, write_outline


@given(
    st.text(st.sampled_from("a\r\n"), max_size=40).map(lambda text: text * 200),
    st.lists(st.integers(0, 8000), min_size=2, max_size=8),
)
def test_line_ends_between_two_places(text: str, places: list[int]) -> None:
    lines = LineEnds(text)
    for start, end in itertools.pairwise(places):
        start, end = min(start, len(text)), min(end, len(text))
        pairs = text.count("\r\n", max(start - 1, 0), end)
        ends = text.count("\n", start, end) + text.count("\r", start, end) - pairs
        assert lines.between(start, end) == (ends if start < end else 0)


class Watched(str):
    """A text that knows how many of its characters were looked through."""

    read = 0

    def count(self, *args: object) -> int:
        start, end = args[1:] if len(args) == 3 else (0, len(self))
        Watched.read += int(str(end)) - int(str(start))
        return super().count(*args)  # type: ignore[arg-type] # as it was called


def test_the_lines_of_many_chunks_are_counted_in_one_walk() -> None:
    text = Watched("".join(f"key{number}: value {number}\n" for number in range(20_000)))
    whole = [Locator(start=0, end=len(text), unit="line", number=1, counted=True)]
    outline = write_outline(text, whole, ())
    chunks = default_chunkers().for_document("a.txt", {}, outline).chunk(text)
    assert len(chunks) > 500
    assert str(chunks[-1].locator).endswith("-20000")
    assert Watched.read < len(chunks) * 30_000
