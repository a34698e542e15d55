"""The fixed window and the sentence window: where they cut, and what they refuse."""

import pytest

from support.rows import each_row
from triptych.chunking import Chunker, ChunkerSet, FixedWindowChunker, SentenceWindowChunker
from triptych.errors import ValidationError


def texts(chunker: Chunker, content: str) -> list[str]:
    return [content[spec.start : spec.end] for spec in chunker.chunk(content)]


def windows(chunker: SentenceWindowChunker, content: str) -> list[str]:
    return [content[spec.window_start : spec.window_end] for spec in chunker.chunk(content)]


# Fixed windows


def test_windows_are_as_long_as_asked_and_overlap_by_as_much_as_asked() -> None:
    content = "".join(chr(ord("a") + at % 26) for at in range(100))
    specs = FixedWindowChunker(size=40, overlap=10).chunk(content)
    assert [(spec.start, spec.end) for spec in specs] == [(0, 40), (30, 70), (60, 100)]
    assert all(spec.window_start is None and spec.heading_path == () for spec in specs)


def test_user_perceived_characters_stay_whole() -> None:
    family = "👩\u200d👩\u200d👧\u200d👦"
    content = family * 10
    for chunk in texts(FixedWindowChunker(size=16, overlap=0), content):
        assert len(chunk) % len(family) == 0
    accents = "e\u0301" * 40
    for chunk in texts(FixedWindowChunker(size=17, overlap=3), accents):
        assert chunk.startswith("e")
        assert chunk.endswith("\u0301")


def test_a_pair_of_carriage_return_and_line_feed_is_not_separated() -> None:
    content = "x" * 15 + "\r\n" + "y" * 20
    assert texts(FixedWindowChunker(size=16, overlap=0), content) == ["x" * 15, "y" * 16, "y" * 4]


def test_whole_words_end_at_white_space_where_there_is_some() -> None:
    content = "alpha beta gamma delta epsilon zeta"
    assert texts(FixedWindowChunker(size=16, overlap=0, whole_words=True), content) == [
        "alpha beta gamma",
        "delta epsilon",
        "zeta",
    ]
    assert texts(FixedWindowChunker(size=16, overlap=6, whole_words=True), content) == [
        "alpha beta gamma",
        "gamma delta",
        "delta epsilon",
        "zeta",
    ]
    assert texts(FixedWindowChunker(size=16, overlap=0, whole_words=True), "z" * 20) == [
        "z" * 16,
        "z" * 4,
    ]


@each_row(("size", "overlap"), [(15, 0), (16, 16), (16, 17), (16, -1)])
def test_invalid_sizes_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValidationError, match="chunk"):
        FixedWindowChunker(size=size, overlap=overlap)


def test_a_wide_gap_gives_no_chunk_within_the_last_one() -> None:
    content = "x" * 10 + " " * 40 + "y" * 10
    specs = FixedWindowChunker(size=16, overlap=12).chunk(content)
    assert [content[spec.start : spec.end] for spec in specs] == ["x" * 10, "y" * 10]


def test_a_character_longer_than_a_window_does_not_stop_the_next() -> None:
    content = "ab" + "e" + "\u0301" * 40 + "cd"
    chunks = texts(FixedWindowChunker(size=16, overlap=15), content)
    assert [len(chunk) for chunk in chunks] == [16] * 30


# Sentence windows


STORY = "One is here. Two is here. Three is here. Four is here. Five is here."


def test_a_sentence_is_the_chunk_and_its_neighbours_are_the_window() -> None:
    chunker = SentenceWindowChunker(window=1)
    assert texts(chunker, STORY) == [
        f"{n} is here." for n in ["One", "Two", "Three", "Four", "Five"]
    ]
    assert windows(chunker, STORY)[0] == "One is here. Two is here."
    assert windows(chunker, STORY)[2] == "Two is here. Three is here. Four is here."
    assert windows(SentenceWindowChunker(window=0), STORY) == texts(chunker, STORY)
    assert set(windows(SentenceWindowChunker(window=9), STORY)) == {STORY}


def test_several_sentences_make_a_chunk_as_long_as_they_fit() -> None:
    chunker = SentenceWindowChunker(sentences_per_chunk=2, window=1)
    assert texts(chunker, STORY) == [
        "One is here. Two is here.",
        "Three is here. Four is here.",
        "Five is here.",
    ]
    assert windows(chunker, STORY)[1] == STORY.removeprefix("One is here. ")
    small = SentenceWindowChunker(sentences_per_chunk=2, size=16)
    assert texts(small, STORY) == texts(SentenceWindowChunker(), STORY)


def test_abbreviations_decimals_and_chinese_full_stops() -> None:
    content = "Dr. Ada paid 3.14 euros, e.g. for tea. 她喝茶。他不喝！「真的？」是的。"
    assert texts(SentenceWindowChunker(), content) == [
        "Dr. Ada paid 3.14 euros, e.g. for tea.",
        "她喝茶。",
        "他不喝！",
        "「真的？」",
        "是的。",
    ]


@each_row("gap", ["\n\n", "\r\n\r\n", "\n \t\n", "\r\r"])
def test_a_blank_line_ends_a_sentence_and_a_line_end_does_not(gap: str) -> None:
    content = f"A title without a stop{gap}A sentence\nover two lines"
    assert texts(SentenceWindowChunker(), content) == [
        "A title without a stop",
        "A sentence\nover two lines",
    ]


def test_a_piece_without_a_letter_joins_its_neighbour() -> None:
    assert texts(SentenceWindowChunker(), "1. First thing. 2. Second thing.\n\n* * *") == [
        "1. First thing.",
        "2. Second thing.\n\n* * *",
    ]


def test_a_mark_that_belongs_to_the_space_before_it_parts_no_sentence() -> None:
    assert texts(SentenceWindowChunker(), "One. \u0301Two. Three.") == ["One. \u0301Two.", "Three."]


def test_a_sentence_too_long_is_cut_and_its_parts_are_each_others_window() -> None:
    content = "word " * 20
    specs = SentenceWindowChunker(size=40, window=1).chunk(content)
    assert [spec.end - spec.start for spec in specs] == [39, 39, 19]
    assert (specs[0].window_start, specs[0].window_end) == (0, specs[1].end)


def test_markdown_sections_are_kept_apart() -> None:
    content = (
        "---\ntitle: T\n---\n# Guide\n\nStart here. Then go.\n\n## Limits\n\nTen a second.\n\n"
        "```\nwait. Stop. go\n```\n\n| a | b |\n|---|---|\n| x. Y | z |\n"
    )
    chunker = SentenceWindowChunker(markdown=True)
    specs = chunker.chunk(content)
    assert texts(chunker, content) == [
        "---\ntitle: T\n---",
        "# Guide\n\nStart here.",
        "Then go.",
        "## Limits\n\nTen a second.",
        "```\nwait. Stop. go\n```",
        "| a | b |\n|---|---|\n| x. Y | z |",
    ]
    assert [spec.heading_path for spec in specs] == [
        (),
        ("Guide",),
        ("Guide",),
        *[("Guide", "Limits")] * 3,
    ]
    assert windows(chunker, content)[1] == "# Guide\n\nStart here. Then go."
    assert windows(chunker, content)[3].startswith("## Limits")


def test_headings_alone_are_chunks_too() -> None:
    assert texts(SentenceWindowChunker(markdown=True), "# A\n\n## B\n\n# C\n\ntext") == [
        "# A\n\n## B",
        "# C\n\ntext",
    ]


@pytest.mark.parametrize(("sentences", "window", "size"), [(0, 3, 99), (1, -1, 99), (1, 3, 15)])
def test_invalid_options_are_refused(sentences: int, window: int, size: int) -> None:
    with pytest.raises(ValidationError):
        SentenceWindowChunker(sentences_per_chunk=sentences, window=window, size=size)


# Both


def test_every_option_is_in_the_signature() -> None:
    signatures = [
        chunker.signature
        for chunker in (
            FixedWindowChunker(),
            FixedWindowChunker(size=100),
            FixedWindowChunker(overlap=1),
            FixedWindowChunker(whole_words=True),
            SentenceWindowChunker(),
            SentenceWindowChunker(sentences_per_chunk=2),
            SentenceWindowChunker(window=2),
            SentenceWindowChunker(size=100),
            SentenceWindowChunker(markdown=True),
        )
    ]
    assert len(set(signatures)) == len(signatures)
    assert FixedWindowChunker().signature in ChunkerSet(default=FixedWindowChunker()).signature


@each_row("piece", [".", "a.", "。.", ". ", ".)", "\n", "\n ", "e\u0301", "é. Á "])
def test_long_rows_of_one_thing_end(piece: str) -> None:
    # In quadratic time this takes minutes, and the test run's own limit ends it.
    content = piece * 100_000
    for chunker in (FixedWindowChunker(), SentenceWindowChunker()):
        chunker.chunk(content)
    FixedWindowChunker(whole_words=True).chunk(content)
    SentenceWindowChunker(markdown=True).chunk(content)
