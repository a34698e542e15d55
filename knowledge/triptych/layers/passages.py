"""The sentences of a document that may stand for it, with where they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import regex

from triptych.layers.inline import visible_text
from triptych.layers.outline import BlockKind, Section
from triptych.layers.ranking import RankedText, centrality, shape, title_overlap
from triptych.layers.sentences import clip
from triptych.text.sentences import split_sentences

_MAX_CHARACTERS: Final = 200_000
"""Raw code points that are read as sentences; bounds the work on huge documents."""
_MAX_BLOCK: Final = 8_000
_LEAST_BLOCK: Final = 50
"""What the shortest block counts for, so that their number is bounded too."""
_KIND_WEIGHT: Final = {
    BlockKind.PARAGRAPH: 1.0,
    BlockKind.ITEM: 0.6,
    BlockKind.ASIDE: 0.5,
    BlockKind.POINTER: 0.3,
}
_CENTROID_WEIGHT: Final = 1.0
_POSITION_WEIGHT: Final = 1.5
_TITLE_WEIGHT: Final = 0.75
# After so many sentences a position counts for half: texts say at once what they are about.
_LEAD: Final = 4.0
_LETTER: Final = regex.compile(r"\p{L}", regex.V1)


@attrs.frozen(kw_only=True, slots=True)
class Passage:
    """One sentence: its section's index, its kind, and its number in the document, in its
    section and in its block, each from 0."""

    section: int
    kind: BlockKind
    number: int
    number_in_section: int
    number_in_block: int
    ranked: RankedText


def passages(
    sections: Sequence[Section], *, max_tokens: int, analyze: Callable[[str], list[str]]
) -> list[Passage]:
    """The sentences with letters of ``sections`` in document order, each clipped to
    ``max_tokens``.

    Of a document too long to be read whole, every section's first blocks come first. Links
    and table rows are read only where there is nothing else.
    """
    places = [
        (place, index)
        for index, section in enumerate(sections)
        for place, block in enumerate(section.blocks)
        if block.kind is not BlockKind.POINTER
    ] or [
        (place, index)
        for index, section in enumerate(sections)
        for place in range(len(section.blocks))
    ]
    places.sort()
    read: list[tuple[int, int]] = []
    characters = 0
    for place, index in places:
        length = len(sections[index].blocks[place].text)
        characters += max(_LEAST_BLOCK, min(length, _MAX_BLOCK))
        if read and characters > _MAX_CHARACTERS:
            break
        read.append((index, place))

    found: list[tuple[int, BlockKind, int, str]] = []
    for index, place in sorted(read):
        block = sections[index].blocks[place]
        for number, sentence in enumerate(split_sentences(visible_text(block.text[:_MAX_BLOCK]))):
            if _LETTER.search(sentence):
                found.append((index, block.kind, number, clip(sentence, max_tokens)))

    ranked = centrality([(text, analyze(text)) for *_, text in found])
    numbers: dict[int, int] = {}
    result = []
    for number, ((index, kind, in_block, _), rank) in enumerate(zip(found, ranked, strict=True)):
        in_section = numbers.get(index, 0)
        numbers[index] = in_section + 1
        result.append(
            Passage(
                section=index,
                kind=kind,
                number=number,
                number_in_section=in_section,
                number_in_block=in_block,
                ranked=rank,
            )
        )
    return result


def salience(passage: Passage, *, position: int, title_terms: frozenset[str]) -> float:
    """How well ``passage`` stands for the text in which it is sentence number ``position``."""
    ranked = passage.ranked
    lead = _LEAD / (_LEAD + position) * (1.0 if passage.number_in_block == 0 else 0.7)
    worth = (
        _CENTROID_WEIGHT * ranked.centrality
        + _POSITION_WEIGHT * lead
        + _TITLE_WEIGHT * title_overlap(ranked.terms, title_terms)
    )
    return worth * _KIND_WEIGHT[passage.kind] * shape(ranked.text, ranked.terms)
