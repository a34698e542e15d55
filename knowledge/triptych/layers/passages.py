"""Scoring passages by how well they represent their document (MEAD).

D. R. Radev, H. Jing, M. Styś, D. Tam, "Centroid-based summarization of multiple documents",
Information Processing & Management 40(6), 2004, section 3: a sentence's score is a weighted sum
of its nearness to the centroid of all sentences, of its position and of its overlap with the
first sentence (here: the title, after H. P. Edmundson, "New methods in automatic extracting",
Journal of the ACM 16(2), 1969); what repeats a chosen sentence is skipped. Cost is linear
in the number of terms.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs
import regex

from triptych.layers.inline import clip, visible_text
from triptych.layers.outline import BlockKind, Section
from triptych.text.sentences import split_sentences

MAX_OVERLAP: Final = 0.6
"""Share of the smaller sentence's terms above which two sentences say the same."""

_LETTER: Final = regex.compile(r"\p{L}", regex.V1)
_URL: Final = regex.compile(r"https?://", regex.V1)
_COLON: Final = regex.compile(r"[:：]\W*$", regex.V1)
_QUESTION: Final = regex.compile(r"[?？؟]\W*$", regex.V1)
_CLOSED: Final = regex.compile(r"[\p{STerm}｡][\p{Pf}\p{Pe}\"'*`]*$", regex.V1)
# Openings that lean on the sentence before them. "This chapter …" leans on nothing.
_LEANING: Final = regex.compile(
    r"(?!This\s(?:article|book|chapter|class|command|crate|document|file|function|guide|library"
    r"|module|package|page|paper|project|report|section|specification|study|tool|tutorial)\b)"
    r"(?:This|These|That|Those|It|They|He|She|But|And|So|Or|However|Then|Now|Also|Thus|Therefore"
    r"|Again|Next|Instead|Otherwise|Similarly|Finally|Still|Yet|For (?:example|instance|that)"
    r"|In (?:this|that|these|those|some|such) (?:case|example)s?|In addition"
    r"|Notice|Note|Remember|If you (?:look|run|try|want)|The (?:same|above|previous|following)"
    r"|Before (?:diving|continuing)|We (?:first|already|have)|We['’](?:ve|ll|re)"
    r"|You['’](?:ve|ll)|You (?:will|have)"
    r"|Let['’]s|Recall|With (?:this|these|that)|By now|So far|Up to now|In [Cc]hapter"
    r"|As (?:mentioned|we|you))\b"
    r"|(?!这(?:一)?[章节篇])[这那它他她]|但|不过|因此|所以|然后|而|此外|例如|比如|同样|注意|现在|您已经"
    r"|接下来|在深入|另外|これ|それ|しかし|また|例えば",
    regex.V1,
)


@attrs.frozen(kw_only=True, slots=True)
class RankedText:
    """A text with its distinct terms and the cosine between it and the centroid, 0 to 1."""

    text: str
    terms: frozenset[str]
    centrality: float


def centrality(texts: Sequence[tuple[str, Sequence[str]]]) -> list[RankedText]:
    """Each (text, terms) with its cosine to the TF-IDF centroid of all of them, in order."""
    frequency: Counter[str] = Counter()
    counts = []
    for _, terms in texts:
        count = Counter(terms)
        counts.append(count)
        frequency.update(count.keys())
    rarity = {term: math.log(1 + len(texts) / found) for term, found in frequency.items()}
    centroid: dict[str, float] = dict.fromkeys(frequency, 0.0)
    for count in counts:
        for term, found in count.items():
            centroid[term] += found * rarity[term]
    length = math.sqrt(math.fsum(weight * weight for weight in centroid.values()))
    ranked = []
    for (text, _), count in zip(texts, counts, strict=True):
        product = norm = 0.0
        for term, found in count.items():
            weight = found * rarity[term]
            product += weight * centroid[term]
            norm += weight * weight
        near = product / (math.sqrt(norm) * length) if norm else 0.0
        ranked.append(RankedText(text=text, terms=frozenset(count), centrality=near))
    return ranked


def title_overlap(terms: frozenset[str], title_terms: frozenset[str]) -> float:
    """The share of the title's terms that are among ``terms``; 0 without a title."""
    return len(terms & title_terms) / len(title_terms) if title_terms else 0.0


def shape(text: str, terms: frozenset[str]) -> float:
    """How well ``text`` can stand alone, by its form: a factor above 0, at most 1.

    Fragments, questions, lead-ins that end in a colon, sentences that lean on the one before,
    clipped ones and those that are mostly figures and signs count for less.
    """
    factor = 1.0
    if len(terms) < 4:
        factor *= 0.4
    if _COLON.search(text):
        factor *= 0.35
    elif _QUESTION.search(text):
        factor *= 0.5
    elif text.endswith("…"):
        factor *= 0.6
    elif not _CLOSED.search(text):
        factor *= 0.7
    if _LEANING.match(text):
        factor *= 0.65
    if _URL.search(text):
        factor *= 0.6
    if sum(1 for _ in _LETTER.finditer(text)) < 0.6 * len(text.replace(" ", "")):
        factor *= 0.5
    return factor


def is_redundant(terms: frozenset[str], chosen: Iterable[frozenset[str]]) -> bool:
    """Whether ``terms`` mostly repeat those of one of the ``chosen``."""
    return any(
        len(terms & other) > MAX_OVERLAP * min(len(terms), len(other)) for other in chosen if other
    )


# Passages

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
