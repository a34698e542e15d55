"""Layers without a model: abstracts and overviews made of the source's own sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import regex

from triptych.chunking.outline import Part
from triptych.errors import ValidationError
from triptych.layers.code_outline import code_abstract, code_overview, read_code
from triptych.layers.code_syntax import syntax_of
from triptych.layers.collection import dataset_abstract, dataset_overview
from triptych.layers.inline import clip, visible_text
from triptych.layers.outline import BlockKind, read_outline
from triptych.layers.overview import write_overview
from triptych.layers.passages import Passage, passages, salience
from triptych.records import DatasetContext, DocumentContext, DocumentSummary
from triptych.text import Analyzer, get_analyzer

SIGNATURE_PREFIX: Final = "extractive"
"""How the prompt signature begins of every layer that an extractive summariser made."""

_VERSION: Final = 3
"""Raised with every change that gives any text other layers."""

_LETTER: Final = regex.compile(r"\p{L}", regex.V1)
_VISIBLE: Final = regex.compile(r"[^\s\p{Cc}]", regex.V1)
_FALLBACK_CHARACTERS: Final = 1_000


def _tokens_from(least: int) -> Any:
    def check(_: Any, attribute: attrs.Attribute[int], value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValidationError(
                f"{attribute.name} is a whole number of tokens from {least} up, not {value!r}"
            )

    return check


def _known_language(_: Any, attribute: attrs.Attribute[str], value: Any) -> None:
    try:
        get_analyzer(value)
    except (TypeError, ValueError) as error:
        raise ValidationError(f"{attribute.name}: {error}") from error


@attrs.frozen(kw_only=True, slots=True)
class ExtractiveSummarizer:
    """Fills L0 and L1 with passages of the source itself, without any model.

    Sentences are scored by centroid, position and title (MEAD; Radev et al. 2004, see
    `triptych.layers.passages`). The abstract is the best one of the document; the overview is
    the outline of headings with the best sentences of each section. Each sentence is a passage
    of the source, white space collapsed and mark-up left out; one that is too long ends in "…".
    Pure: the same input gives the same layers. Reading is linear in the document's length;
    ranking is bounded, over the first blocks of every section.

    Attributes:
        abstract_tokens: the maximum number of tokens of an abstract, and of any one sentence
            (estimated by `triptych.text.tokens.estimate_tokens`).
        overview_tokens: the maximum number of tokens of an overview.
        language: the analyzer's, for stemming and stop words; others are read as well.

    Raises:
        ValidationError: a limit is too small, or the analyzer knows no such language.
    """

    abstract_tokens: int = attrs.field(default=100, validator=_tokens_from(16))
    overview_tokens: int = attrs.field(default=1000, validator=_tokens_from(64))
    language: str = attrs.field(default="english", validator=_known_language)

    @property
    def signature(self) -> str:
        """Names the algorithm's version and all options: the layers' ``prompt_sig``."""
        return (
            f"{SIGNATURE_PREFIX}-{_VERSION}/{self.abstract_tokens}/{self.overview_tokens}/"
            f"{self._analyzer.signature}"
        )

    def summarize_document(self, content: str, *, title: str | None = None) -> DocumentContext:
        """The abstract and the overview of a document's text, read as Markdown or plain text.

        ``title`` is the document's where its first heading should not decide. Both layers are
        "" only for a text that shows nothing; neither is, if it holds a letter.
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
        """The layers of source code: its own words, and its classes and functions.

        The abstract is the opening of the file's docstring or comment, else names what it
        defines; the overview adds an outline with the first sentence of each definition's
        comment. ``parts`` are the definitions that a parser found; without any, patterns of the
        language find them. None where ``name`` is no code's, or the text has neither.
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
        """The layers of a dataset from its documents' abstracts; the order does not count.

        The overview is made of lines ``- name: abstract``, chosen to fit, under the names of
        folders; the abstract is the one that stands best for all. Nothing gives "" and "".
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
