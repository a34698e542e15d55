"""Extractive layers: abstracts and overviews from sentences of the source, without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import regex

from triptych.chunking.outline import Part
from triptych.errors import ValidationError
from triptych.layers.code_outline import code_abstract, code_overview, read_code
from triptych.layers.code_syntax import syntax_of
from triptych.layers.collection import dataset_abstract, dataset_overview
from triptych.layers.inline import clip, visible_text
from triptych.layers.outline import BlockKind, Section, read_outline
from triptych.layers.passages import Passage, is_redundant, passages, salience
from triptych.records import DatasetContext, DocumentContext, DocumentSummary, check_whole
from triptych.text import Analyzer, get_analyzer
from triptych.text.tokens import estimate_tokens

_HEADING_SHARE: Final = 0.3
"""The share of the budget for headings before sentences."""
_MAX_HEADING_TOKENS: Final = 30
_UNSPACED_ENDS: Final = ("。", "！", "？", "；", "”", "」", "』", "）")
_LEAST_SHARE_OF_BEST: Final = 0.25
"""The minimum score of a further sentence, as a share of the best one of its section."""
_SENTENCES_PER_CHOSEN: Final = 4
"""A section contributes one sentence, and one more for each group of this many."""


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


SIGNATURE_PREFIX: Final = "extractive"
"""The prefix of the prompt signature of extractive layers."""

_VERSION: Final = 3
"""The version, to be raised with every change of the results."""

_LETTER: Final = regex.compile(r"\p{L}", regex.V1)
_VISIBLE: Final = regex.compile(r"[^\s\p{Cc}]", regex.V1)
_FALLBACK_CHARACTERS: Final = 1_000


def _tokens_from(least: int) -> Any:
    def check(_: Any, attribute: attrs.Attribute[int], value: Any) -> None:
        check_whole(value, attribute.name, least=least)

    return check


def _known_language(_: Any, attribute: attrs.Attribute[str], value: Any) -> None:
    try:
        get_analyzer(value)
    except (TypeError, ValueError) as error:
        raise ValidationError(f"{attribute.name}: {error}") from error


@attrs.frozen(kw_only=True, slots=True)
class ExtractiveSummarizer:
    """Makes L0 and L1 from sentences of the source, without a model.

    Sentences are scored by centroid, position and title (MEAD; Radev et al. 2004, see
    `triptych.layers.passages`). The abstract is the best sentence of the document; the overview is
    the outline of headings with the best sentences of each section. Sentences are passages of the
    source without mark-up, with collapsed white space; one that is too long ends in "…". Pure: the
    same input gives the same layers. Reading is linear in the document's length; ranking is limited
    to the first blocks of every section.

    Attributes:
        abstract_tokens: the maximum number of tokens of an abstract, and of any sentence (estimated
            by `triptych.text.tokens.estimate_tokens`).
        overview_tokens: the maximum number of tokens of an overview.
        language: the language for stemming and stop words; other languages work too.

    Raises:
        ValidationError: a limit is too small, or the analyzer does not support the language.
    """

    abstract_tokens: int = attrs.field(default=100, validator=_tokens_from(16))
    overview_tokens: int = attrs.field(default=1000, validator=_tokens_from(64))
    language: str = attrs.field(default="english", validator=_known_language)

    @property
    def signature(self) -> str:
        """The algorithm's version and all options: the layers' ``prompt_sig``."""
        return (
            f"{SIGNATURE_PREFIX}-{_VERSION}/{self.abstract_tokens}/{self.overview_tokens}/"
            f"{self._analyzer.signature}"
        )

    def summarize_document(self, content: str, *, title: str | None = None) -> DocumentContext:
        """Return the abstract and the overview of a text, read as Markdown or plain text.

        ``title`` overrides the first heading as the title. Both layers are "" only for a text
        without visible characters; neither is "" if it contains a letter.
        """
        sections = read_outline(content)
        found = passages(sections, max_tokens=self.abstract_tokens, analyze=self._analyze)
        named = " ".join(title.split()) if title else ""
        headings = [section.title for section in sections if section.title]
        first = named or (headings[0] if headings else "")
        navigation = all(passage.kind is BlockKind.POINTER for passage in found)
        abstract = clip(first, self.abstract_tokens) if navigation else ""
        abstract = abstract or self._best(found, first) or self._fallback(content)
        repeated = bool(headings) and named.casefold() == headings[0].casefold()
        overview = write_overview(
            sections,
            found,
            title="" if repeated else named,
            analyze=self._analyze,
            max_tokens=self.overview_tokens,
        )
        return DocumentContext(abstract=abstract, overview=overview or abstract)

    def summarize_code(
        self, content: str, *, name: str, parts: Sequence[Part] = ()
    ) -> DocumentContext | None:
        """Return the layers of source code from its comments and definitions.

        The abstract is the start of the file's docstring or comment, else a list of its
        definitions; the overview adds an outline with the first sentence of each definition's
        comment. ``parts`` are the definitions from a parser; without them, patterns of the language
        find them. None if ``name`` is not a code file, or the text has neither.
        """
        syntax = syntax_of(name)
        if syntax is None:
            return None
        outline = read_code(content, syntax, parts)
        abstract = code_abstract(outline, max_tokens=self.abstract_tokens)
        if not abstract:
            return None
        overview = code_overview(outline, max_tokens=self.overview_tokens)
        return DocumentContext(abstract=abstract, overview=overview or abstract)

    def summarize_dataset(self, summaries: Sequence[DocumentSummary]) -> DatasetContext:
        """Return the layers of a dataset from its documents' abstracts, independent of their order.

        The overview has lines ``- name: abstract``, selected to fit, below the names of folders;
        the abstract is the most representative one. Without abstracts both are "".
        """
        return DatasetContext(
            abstract=dataset_abstract(
                summaries, max_tokens=self.abstract_tokens, analyze=self._analyze
            ),
            overview=dataset_overview(
                summaries, max_tokens=self.overview_tokens, analyze=self._analyze
            ),
        )

    @property
    def _analyzer(self) -> Analyzer:
        return get_analyzer(self.language)

    def _analyze(self, text: str) -> list[str]:
        # Terms as a query has them: without the stop words that would make all sentences alike.
        return self._analyzer.analyze_query(text)

    def _best(self, found: Sequence[Passage], title: str) -> str:
        title_terms = frozenset(self._analyze(title))
        best = min(
            found,
            key=lambda passage: (
                -salience(passage, position=passage.number, title_terms=title_terms),
                passage.number,
            ),
            default=None,
        )
        return "" if best is None else best.ranked.text

    def _fallback(self, content: str) -> str:
        """The line of the first letter, or of the first visible character, as it is."""
        seen = _LETTER.search(content) or _VISIBLE.search(content)
        if seen is None:
            return ""
        start = content.rfind("\n", max(0, seen.start() - _FALLBACK_CHARACTERS), seen.start()) + 1
        start = max(start, seen.start() - self.abstract_tokens)
        line = content[start : start + _FALLBACK_CHARACTERS].lstrip().partition("\n")[0]
        raw = " ".join(line.split())
        return clip(visible_text(raw) or raw, self.abstract_tokens)
