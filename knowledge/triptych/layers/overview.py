"""A document's overview: its outline of headings, each with the sentences that stand for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from triptych.layers.inline import clip
from triptych.layers.outline import BlockKind, Section
from triptych.layers.passages import Passage, is_redundant, salience
from triptych.text.tokens import estimate_tokens

_HEADING_SHARE: Final = 0.3
"""Of the budget, what headings may take before there are sentences."""
_MAX_HEADING_TOKENS: Final = 30
_UNSPACED_ENDS: Final = ("。", "！", "？", "；", "”", "」", "』", "）")
_LEAST_SHARE_OF_BEST: Final = 0.25
"""Of the standing of its section's best sentence, what a further one must have."""
_SENTENCES_PER_CHOSEN: Final = 4
"""A section gives one sentence, and one more for every so many that it has."""


def write_overview(
    sections: Sequence[Section],
    found: Sequence[Passage],
    *,
    title: str,
    analyze: Callable[[str], list[str]],
    max_tokens: int,
) -> str:
    """Markdown of at most ``max_tokens``: headings in document order, sentences under them.

    Headings come in by level, the upper ones first, then every section's best sentence, then
    further ones by their standing, as long as there is room.
    """
    headings = _headings(sections, title)
    left = max_tokens
    shown: dict[int, list[Passage]] = {-1: []} if title else {}
    if title:
        left -= _cost(headings[-1])
    room_for_headings = left - int(max_tokens * (1 - _HEADING_SHARE))
    for index in sorted(range(len(sections)), key=lambda index: sections[index].level):
        cost = _cost(headings[index]) if index in headings else 0
        if cost > room_for_headings:
            break
        shown[index] = []
        room_for_headings -= cost
        left -= cost

    home = _salience(sections, shown)
    chosen: dict[str, frozenset[str]] = {}
    first, others = _by_salience(sections, found, analyze, home)
    for number, passage in enumerate(first + others):
        text, terms = passage.ranked.text, passage.ranked.terms
        cost = _cost(text)
        if cost > left or text in chosen:
            continue
        if number >= len(first) and is_redundant(terms, chosen.values()):
            continue
        left -= cost
        chosen[text] = terms
        shown[home[passage.section]].append(passage)

    written = ""
    was_bare = False
    for index in sorted(shown):
        lines = ([headings[index]] if index in headings else []) + _prose(shown[index])
        if lines:
            # Headings without sentences under them stand close, as a list does.
            bare = len(lines) == 1 and index in headings
            gap = "" if not written else "\n" if bare and was_bare else "\n\n"
            written += gap + "\n".join(lines)
            was_bare = bare
    return written


def _cost(line: str) -> int:
    # Two line feeds, or a bullet and one, go with each piece.
    return estimate_tokens(line + "- \n\n")


def _headings(sections: Sequence[Section], title: str) -> dict[int, str]:
    """The heading line of each section that has one, and the title's under -1.

    The first line is the only one of the first level: it names the document.
    """
    titled = [index for index, section in enumerate(sections) if section.title]
    top = min((sections[index].level for index in titled), default=1)
    lines = {}
    if title:
        lines[-1] = f"# {clip(title, _MAX_HEADING_TOKENS)}"
    # A first heading among its equals is the document's title, and not their sibling.
    siblings = len(titled) > 1 and sections[titled[1]].level == top
    for index in titled:
        level = sections[index].level - top + 1
        if lines:
            level = level + 1 if title or siblings else max(level, 2)
        lines[index] = f"{'#' * min(level, 6)} {clip(sections[index].title, _MAX_HEADING_TOKENS)}"
    return lines


def _salience(sections: Sequence[Section], shown: dict[int, list[Passage]]) -> dict[int, int]:
    """For each section the shown one that its sentences go to: itself, or, where headings of
    its level are not shown at all, the one above. What did not fit has none."""
    levels = {sections[index].level for index in shown if index >= 0}
    homes: dict[int, int] = {}
    above: list[tuple[int, int | None]] = []
    for index, section in enumerate(sections):
        while above and above[-1][0] >= section.level:
            above.pop()
        home: int | None = None
        if index in shown:
            home = index
        elif section.level not in levels and above:
            home = above[-1][1]
        above.append((section.level, home))
        if home is not None:
            homes[index] = home
    return homes


def _by_salience(
    sections: Sequence[Section],
    found: Sequence[Passage],
    analyze: Callable[[str], list[str]],
    home: dict[int, int],
) -> tuple[list[Passage], list[Passage]]:
    """What may be shown, in the order in which it gets room: the best of each section by level
    and place, and all the others that a section may show by their standing."""
    gathered: dict[int, list[tuple[float, Passage]]] = {}
    title_terms: dict[int, frozenset[str]] = {}
    for passage in found:
        if passage.section not in home:
            continue
        entries = gathered.setdefault(home[passage.section], [])
        if not entries:
            title_terms[home[passage.section]] = frozenset(
                analyze(sections[home[passage.section]].title)
            )
        worth = salience(
            passage, position=len(entries), title_terms=title_terms[home[passage.section]]
        )
        entries.append((worth, passage))
    first: list[tuple[int, int, Passage]] = []
    others: list[tuple[float, int, Passage]] = []
    for index, entries in gathered.items():
        entries.sort(key=lambda entry: (-entry[0], entry[1].number))
        best = entries[0][0]
        first.append((sections[index].level, index, entries[0][1]))
        quota = 1 + (len(entries) - 1) // _SENTENCES_PER_CHOSEN
        if entries[0][1].kind is BlockKind.POINTER:
            quota = len(entries)
        others += [
            (-worth, passage.number, passage)
            for worth, passage in entries[1:quota]
            if worth >= best * _LEAST_SHARE_OF_BEST
        ]
    first.sort(key=lambda entry: entry[:2])
    others.sort(key=lambda entry: entry[:2])
    return [passage for *_, passage in first], [passage for *_, passage in others]


def _prose(chosen: list[Passage]) -> list[str]:
    """Lines for a section's sentences in document order: items as a list, the rest run on."""
    lines: list[str] = []
    running = False
    for passage in sorted(chosen, key=lambda passage: passage.number):
        text = passage.ranked.text
        if passage.kind in (BlockKind.ITEM, BlockKind.POINTER):
            lines.append(f"- {text}")
            running = False
        elif running:
            lines[-1] += text if lines[-1].endswith(_UNSPACED_ENDS) else f" {text}"
        else:
            # A line of its own after a list would be read as the last item's.
            lines += [""] if lines else []
            lines.append(text)
            running = True
    return lines
