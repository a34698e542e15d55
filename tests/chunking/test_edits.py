"""How much of a Markdown document is embedded again after an edit, counted."""

import random
from collections import Counter
from collections.abc import Callable

from hypothesis import given, strategies as st

from support.rows import each_row
from triptych.chunking import MarkdownChunker, embedding_text

WORDS = [
    "".join(random.Random(seed).choices("aeioubcdfglmnprst", k=2 + seed % 9)) for seed in range(900)
]
CHUNKER = MarkdownChunker()
TITLE = "Handbook"

Sections = list[list[str]]  # each: its heading, then its paragraphs


def paragraph(rng: random.Random) -> str:
    """A paragraph of 40 to 200 characters."""
    length = rng.randint(40, 200)
    words: list[str] = []
    while sum(map(len, words)) + len(words) < length:
        words.append(rng.choice(WORDS))
    return " ".join(words)[: length - 1].rstrip() + "."


def document(rng: random.Random, *, chunks: int, section_paragraphs: int) -> Sections:
    """Sections of about `section_paragraphs` paragraphs that make at least `chunks` chunks."""
    sections: Sections = [["# Handbook", paragraph(rng)]]
    while True:
        sections.append([f"## Part {len(sections)}"])
        for _ in range(rng.randint(max(1, section_paragraphs // 2), section_paragraphs * 3 // 2)):
            sections[-1].append(paragraph(rng))
        if len(sections) % 4 == 0 and len(CHUNKER.chunk(render(sections))) >= chunks:
            return sections


def one_section(rng: random.Random) -> Sections:
    sections: Sections = [["# Handbook"]]
    while len(CHUNKER.chunk(render(sections))) < 100:
        sections[0].extend(paragraph(rng) for _ in range(20))
    return sections


def render(sections: Sections) -> str:
    return "\n\n".join(block for section in sections for block in section) + "\n"


def texts(sections: Sections) -> Counter[str]:
    content = render(sections)
    return Counter(
        embedding_text(TITLE, spec.heading_path, content[spec.start : spec.end])
        for spec in CHUNKER.chunk(content)
    )


def place(rng: random.Random, sections: Sections) -> tuple[list[str], int]:
    section = rng.choices(sections, weights=[len(section) - 1 for section in sections])[0]
    return section, rng.randrange(1, len(section))


def replace(rng: random.Random, sections: Sections) -> None:
    section, at = place(rng, sections)
    section[at] = paragraph(rng)


def touch(rng: random.Random, sections: Sections) -> None:
    section, at = place(rng, sections)
    words = section[at].split(" ")
    words[rng.randrange(len(words))] = rng.choice(WORDS)
    section[at] = " ".join(words)


def insert(rng: random.Random, sections: Sections) -> None:
    section, at = place(rng, sections)
    section.insert(at, paragraph(rng))


def delete(rng: random.Random, sections: Sections) -> None:
    section, at = place(rng, sections)
    del section[at]


def move(rng: random.Random, sections: Sections) -> None:
    section, at = place(rng, sections)
    moved = section.pop(at)
    section, at = place(rng, [section for section in sections if len(section) > 1])
    section.insert(at, moved)


def count_new(
    seed: int,
    edit: Callable[[random.Random, Sections], None],
    make: Callable[[random.Random], Sections],
    *,
    documents: int = 2,
    edits: int = 50,
) -> list[int]:
    """New embedding texts of each of `documents * edits` edits, in ascending order."""
    rng = random.Random(seed)
    counts: list[int] = []
    for _ in range(documents):
        sections = make(rng)
        before = texts(sections)
        for _ in range(edits):
            edited = [list(section) for section in sections]
            edit(rng, edited)
            counts.append((texts(edited) - before).total())
    return sorted(counts)


def many_sections(rng: random.Random) -> Sections:
    return document(rng, chunks=100, section_paragraphs=12)


def short_section(rng: random.Random) -> list[str]:
    text = f"{paragraph(rng)} {paragraph(rng)}"[: rng.randint(5, 240)]
    return [f"## {rng.choice(WORDS)} {rng.choice(WORDS)}", text]


def note(rng: random.Random, count: int = 0) -> Sections:
    """`count` short sections, or 1 to 60, below a title or without one."""
    top: Sections = [["# Log"]] if rng.random() < 0.5 else []
    return top + [short_section(rng) for _ in range(count or rng.randint(1, 60))]


def section_place(rng: random.Random, sections: Sections) -> int:
    return rng.randrange(sections[0][0] == "# Log", len(sections))


def insert_section(rng: random.Random, sections: Sections) -> None:
    sections.insert(section_place(rng, sections) + rng.randint(0, 1), short_section(rng))


def delete_section(rng: random.Random, sections: Sections) -> None:
    del sections[section_place(rng, sections)]


def replace_section(rng: random.Random, sections: Sections) -> None:
    sections[section_place(rng, sections)] = short_section(rng)


SECTION_EDITS = [insert_section, delete_section, replace_section]
MOST = 5
MAKERS = [one_section, many_sections]
# Mean and 99th percentile. A move touches two places.
BOUNDS = [
    (replace, 1.5, 3),
    (touch, 1.3, 3),
    (insert, 1.6, 3),
    (delete, 1.4, 3),
    (move, 2.8, 6),
]


def _id(value: object) -> str:
    return getattr(value, "__name__", str(value))


@each_row("make", MAKERS, ids=_id)
@each_row(
    ("edit", "mean", "percentile"), BOUNDS, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_an_edited_paragraph_embeds_only_what_is_around_it(
    make: Callable[[random.Random], Sections],
    edit: Callable[[random.Random, Sections], None],
    mean: float,
    percentile: int,
) -> None:
    counts = count_new(20, edit, make)
    assert len(counts) >= 100
    assert sum(counts) / len(counts) <= mean
    assert counts[len(counts) * 99 // 100] <= percentile


def test_an_edited_paragraph_among_repeated_ones_embeds_only_what_is_around_it() -> None:
    def repetitive(rng: random.Random) -> Sections:
        stock = [paragraph(rng) for _ in range(6)]
        sections: Sections = [["# Handbook"]]
        while len(CHUNKER.chunk(render(sections))) < 100:
            sections[0].extend(
                rng.choice(stock) if rng.random() < 0.7 else paragraph(rng) for _ in range(20)
            )
        return sections

    counts = count_new(21, replace, repetitive)
    assert sum(counts) / len(counts) <= 1.6
    assert counts[len(counts) * 99 // 100] <= 4


def test_an_edited_section_among_small_ones_embeds_only_what_is_around_it() -> None:
    def small_sections(rng: random.Random) -> Sections:
        return [["# Handbook"], *([f"## Part {n}", paragraph(rng)[:150]] for n in range(400))]

    counts = count_new(23, replace, small_sections)
    assert sum(counts) / len(counts) <= 1.6
    assert counts[len(counts) * 99 // 100] <= 4


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_an_edited_note_of_short_sections_embeds_only_what_is_around_it_at_any_size(
    seed: int, count: int
) -> None:
    rng = random.Random(seed)
    sections = note(rng, count)
    before = texts(sections)
    for edit in SECTION_EDITS:
        edited = list(sections)
        edit(rng, edited)
        assert (texts(edited) - before).total() <= MOST


def test_a_changed_heading_embeds_its_section_and_subsections_again_and_nothing_else() -> None:
    rng = random.Random(22)
    sections = [["# Handbook", paragraph(rng)]]
    for part in range(8):
        sections.append([f"## Part {part}", *(paragraph(rng) for _ in range(12))])
        sections.append([f"### Detail of {part}", *(paragraph(rng) for _ in range(6))])
    content = render(sections)
    paths = [spec.heading_path for spec in CHUNKER.chunk(content)]
    before = texts(sections)
    sections[7][0] = "## Another"
    new = texts(sections) - before
    assert new.total() == sum("Part 3" in path for path in paths)
    assert all("Another" in text.split("\n")[0] for text in new)


def test_identical_content_and_another_name_embed_nothing() -> None:
    sections = many_sections(random.Random(23))
    assert texts(sections) == texts(sections)


if __name__ == "__main__":
    for make, edits, documents, each in (
        (one_section, [edit for edit, *_ in BOUNDS], 20, 200),
        (many_sections, [edit for edit, *_ in BOUNDS], 20, 200),
        (note, SECTION_EDITS, 2_000, 5),
    ):
        for edit in edits:
            counts = count_new(1, edit, make, documents=documents, edits=each)
            spread = dict(sorted(Counter(counts).items()))
            mean = sum(counts) / len(counts)
            print(make.__name__, edit.__name__, f"mean {mean:.3f}", spread)
