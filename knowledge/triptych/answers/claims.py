"""What an answer says word by word: its quotations, code, dates, figures and names."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from triptych.answers.records import AnswerSentence, ClaimKind
from triptych.text.patterns import late
from triptych.text.quantities import (
    Quantity,
    dates_of,
    decimal_mark,
    figures_of,
    language_of,
)

if TYPE_CHECKING:
    import regex

# Mark-up is no word: entities, tags, the targets of links, citations, numbers of list items.
_TOKEN: Final = late(
    r"(?:&(?:\w+|#\d+);|</?\w[^<>\n]{0,80}>|\]\([^()\s]*\)|\[\d{1,3}\]|(?m:^)[ \t>]*\d{1,3}[.)]\s)"
    r"|(?P<token>[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]|\p{Nd}+(?:[.,]\p{Nd}+)*"
    r"|[[\p{L}\p{M}\p{N}\p{Cf}]--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]]+"
    r"|[%‰≤≥±§$€£¥°]|(?<![\p{L}\p{N}])[-−](?=\p{Nd}))"
)
_INVISIBLE: Final = late(r"\p{Cf}+")
_QUOTED: Final = late(
    r'(?<![\p{L}\p{N}"])"((?:[^"\n]|\n(?!\s*\n))++)"(?![\p{L}\p{N}])|'
    + "|".join(
        rf"[{opening}]((?:[^{opening}{closing}\n]|\n(?!\s*\n))++)[{closing}]"
        for opening, closing in ("„“", "„”", "“”", "””", "«»", "»«", "「」", "『』")
    )
)
_LEFT_OUT: Final = late(r"\[(?:…|\.{3}|\p{L}{2,}+[^\[\]]*+)\](?!\()|…|\.{3,}")
_TICKED: Final = late(r"(?<!`)(`++)((?:[^`\n]|\n(?!\s*\n))++)\1(?!`)")
_CODE: Final = late(
    r"https?://[^\s<>)\]]{1,500}[^\s<>)\].,;:!?]"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,100}\.[\w.-]{0,100}\w"
    r"|(?<![\w-])--[a-zA-Z][\w-]*+|(?<!\S)-[a-zA-Z]\b(?!-)"
    r"|(?<![\w.])(?=[\w.]{0,200}\(\))[\w.]*[a-zA-Z]\w*\(\)"
    r"|\b(?=\w{0,100}[a-zA-Z]\w{0,100}_\w)\w+|\b_\w+"
    r"|(?<![\w/.<])(?:~|\.{1,2})?/[\w.-]*\w(?:/[\w.-]*\w)*+|"
    r"\b[\w-]{1,100}(?:/[\w.-]{1,100}){1,30}\.\w+(?::\d+(?:-\d+)?)?"
    r"|(?<![\w-])[a-zA-Z_][\w-]*\w(?:\.[a-zA-Z_]\w+)+\b"
    r"|(?<![\w-])(?:v?\d+\.\d+\.\d+[\w.-]*\b|v\d+(?:\.\d+)*\b)"
    r"|(?<![\d:])\d{1,2}:\d{2}(?::\d{2})?(?![\d:])"
)
# Not what a reader counts by: citations, numbers of items, "step 2".
_COUNTED: Final = late(
    r"[\[【] ?\d{1,3}(?: ?[,;、–-] ?\d{1,3}){0,15} ?[\]】]"
    r"|(?m:^)[ \t>*•-]{0,40}\d{1,3}[.)](?=\s|\Z)"
    r"|\b(?:step|option|sources?|schritt|quellen?|étape|paso|fuentes?)\s{1,20}\d{1,3}(?!\d)",
    ignore_case=True,
)
_ITEM: Final = late(r"(?:[-+*•|>]|\d{1,4}[.)])\s")
_NAME: Final = late(
    r"(?P<form>\b(?:\p{Ll}+\p{Lu}|\p{Lu}[\p{Ll}\d]+\p{Lu}|\p{Lu}{2}|\p{Lu}+-?\d)[\p{L}\p{N}-]*)"
    r"|(?P<run>(?<![\p{L}\p{N}@#&])\p{Lu}[\p{Ll}\p{M}][\p{Ll}\p{M}’'-]*+(?![\p{L}\p{N}_])"
    r"(?:[ \n]\p{Lu}[\p{Ll}\p{M}][\p{Ll}\p{M}’'-]*+(?![\p{L}\p{N}_]))*)"
)
_STARTS: Final = late(r"(?:^|[.:!?|;/…\n—–-])[\s*_\"'“”‘„«»()\[\]>#`|\uE000-]{0,80}\Z")
_FILLER: Final = "\ue000"
_IDEOGRAPH: Final = "⺀"
_LEAST_WORDS, _LEAST_CHARACTERS = 3, 6


class Token(NamedTuple):
    """A word, number or sign, as it is compared, and its span."""

    text: str
    start: int
    end: int


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text without mark-up, invisible characters and case."""
    return [
        Token(_plain(found["token"]), *found.span())
        for found in _TOKEN.finditer(text)
        if found["token"] and _plain(found["token"])
    ]


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold().replace("−", "-")


class FoundClaim(NamedTuple):
    """A claim, not looked up yet: its span, and the sentences that make it, as a range."""

    start: int
    end: int
    kind: ClaimKind
    sentences: tuple[int, int]
    quantities: tuple[Quantity, ...] = ()
    parts: tuple[tuple[str, ...], ...] = ()


def is_long(words: Sequence[str], least: int = _LEAST_WORDS) -> bool:
    """Whether there are at least a few words, or twice as many characters without blanks."""
    return sum(0.5 if word[0] >= _IDEOGRAPH else 1 for word in words) >= least


def claims_of(text: str, sentences: Sequence[AnswerSentence], given: str) -> list[FoundClaim]:
    """The claims of the sentences of an answer, in order.

    Names and code of ``given``, the question, are the reader's own words, and no claims.
    """
    return sorted(_Finder(text, sentences, given).found)


def without(text: str, spans: Iterable[tuple[int, int]] = ()) -> str:
    """``text`` of the same length, without citations, numbers of items, and ``spans``."""
    spans = [*spans, *(each.span() for each in _COUNTED.finditer(text))]
    for start, end in spans:
        text = text[:start] + _FILLER * (end - start) + text[end:]
    return text


def runs_of(text: str, sentences: Sequence[AnswerSentence]) -> list[tuple[int, int]]:
    """The spans of sentences that follow each other in one paragraph or item."""
    runs: list[tuple[int, int]] = []
    for each in sentences:
        gap = text[runs[-1][1] : each.start] if runs else ""
        item = "\n" in gap and _ITEM.match(text, each.start)
        if not runs or gap.strip() or gap.count("\n") > 1 or item:
            runs.append((each.start, each.end))
        else:
            runs[-1] = (runs[-1][0], each.end)
    return runs


def opens_at(text: str) -> int:
    """Where a quotation or code is opened that may still be closed; the length if nowhere."""
    opened = [len(text)]
    for pattern, marks in ((_TICKED, "`"), (_QUOTED, '"„“”«»「『')):
        left = pattern.sub(lambda each: _FILLER * len(each[0]), text)
        opened += [at for mark in marks if (at := left.find(mark)) >= 0]
    return min(opened)


class _Finder:
    """Finds claims of one kind after the other; what was taken is blotted out for the next."""

    def __init__(self, text: str, sentences: Sequence[AnswerSentence], given: str) -> None:
        self.found: list[FoundClaim] = []
        self._sentences = sentences
        self._starts = [each.start for each in sentences]
        self._known = _spaced(given)
        self._left = without(text)
        for start, end in runs_of(text, sentences):
            self._quotations(text, start, end)
            self._code(_TICKED, 2, start, end)
        for span, dates in groupby(dates_of(self._left), key=attrgetter("start", "end")):
            self._take(*span, "date", tuple(dates))  # "2. September" is in two sentences
        # Else a sentence alone decides: the same when the answer goes on.
        for each in sentences:
            language = language_of(f"{given} {each.text}")
            decimal = decimal_mark(f"{given} {each.text}")
            self._code(_CODE, 0, each.start, each.end)
            for figure in figures_of(self._left[each.start : each.end], decimal):
                self._take(each.start + figure.start, each.start + figure.end, "figure", (figure,))
            self._names(each, language == "german")

    def _take(
        self,
        start: int,
        end: int,
        kind: ClaimKind,
        quantities: tuple[Quantity, ...] = (),
        parts: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        first, last = (bisect_right(self._starts, at) - 1 for at in (start, end - 1))
        first += first < 0 or self._sentences[first].end <= start
        if first <= last:
            self.found.append(FoundClaim(start, end, kind, (first, last + 1), quantities, parts))
        self._blot(start, end)

    def _blot(self, start: int, end: int) -> None:
        self._left = self._left[:start] + _FILLER * (end - start) + self._left[end:]

    def _quotations(self, text: str, start: int, end: int) -> None:
        ticked = [each.span() for each in _TICKED.finditer(self._left, start, end)]
        for each in _QUOTED.finditer(text, start, end):
            inner = next(group for group in each.groups() if group)
            said = [[token.text for token in tokens_of(part)] for part in _LEFT_OUT.split(inner)]
            parts = tuple(tuple(part) for part in said if part)
            in_code = any(first < each.start() and each.end() < last for first, last in ticked)
            if is_long([word for part in parts for word in part]) and not in_code:
                self._take(*each.span(), "quotation", parts=parts)

    def _code(self, pattern: regex.Pattern[str], group: int, start: int, end: int) -> None:
        for each in pattern.finditer(self._left, start, end):
            said = each[group]
            if [(0, len(said))] == [each[:2] for each in figures_of(said, "")]:
                continue  # a figure, in whatever type
            if _spaced(said) not in self._known:
                self._take(*each.span(group), "code")
            self._blot(*each.span())

    def _names(self, sentence: AnswerSentence, german: bool) -> None:
        """Names; in German, where all nouns are capitalised, only those that their form tells."""
        for found in _NAME.finditer(self._left, sentence.start, sentence.end):
            start, end = found.span()
            if found["run"] is not None:
                if _STARTS.search(self._left[sentence.start : start]):
                    start += len(found["run"].split()[0]) + 1
                if german or start >= end:
                    continue
            if _spaced(self._left[start:end]) not in self._known:
                self._take(start, end, "name")


def _spaced(text: str) -> str:
    return " ".join(text.casefold().split())
