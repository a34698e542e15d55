"""Checking inline citations ``[n]`` in a stream, and removing them from earlier messages."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import regex

from triptych.answers.records import AnswerSentence
from triptych.errors import ValidationError
from triptych.records import Message, check_text
from triptych.text.sentences import sentence_spans

_SPACE: Final = regex.compile(r"\s++", regex.V1)
_WORD: Final = regex.compile(r"[^\s`\[【]++", regex.V1)
_CODE: Final = regex.compile(r"[^\s`]++", regex.V1)
_TICKS: Final = regex.compile("`++|~++", regex.V1)
# Four digits are a year, or a list of them. A context has at most three.
_CITATION: Final = regex.compile(
    r"[\[【] ?[0-9]{1,3}(?: ?[,;、–-] ?[0-9]{1,3}){0,15} ?[\]】]", regex.V1
)
_NUMBERS: Final = regex.compile(r"([0-9]{1,3})(?: ?([–-]) ?([0-9]{1,3}))?", regex.V1)
_OPENING: Final = "[【"

_LINE: Final = regex.compile(r"[^\n]++", regex.V1)
_HEADING: Final = regex.compile(r"\s{0,3}+#{1,6}\s", regex.V1)
_ITEM: Final = regex.compile(r"\s*+(?:[-+*•]|[0-9]{1,4}[.)]|\||>)\s", regex.V1)
_SAYS: Final = regex.compile(r"[\p{L}\p{N}]", regex.V1)


class Mark(NamedTuple):
    """A citation in the text: its span and the numbers it names."""

    start: int
    end: int
    numbers: tuple[int, ...]


class CitationFilter:
    """Lets an answer through piece by piece, without the citations of what does not exist.

    What may still become a citation is held back until it is decided; however the answer is cut
    into pieces, what comes out is the same. White space around the answer is left out. Brackets
    in code, fenced or between backticks, are code.

    Attributes:
        text: what came out so far.
        marks: the citations in it.
        code: the spans of fenced code in it.
        removed: the numbers that were taken out, in order, each once.
    """

    def __init__(self, known: Collection[int]) -> None:
        self.marks: list[Mark] = []
        self.code: list[tuple[int, int]] = []
        self.removed: list[int] = []
        self._known = frozenset(known)
        self._parts: list[str] = []
        self._length = 0
        self._held = ""
        self._blank = ""  # white space that comes out with what follows it
        self._eats = False  # blanks after a citation that was removed at the start of a line
        self._fence = ""
        self._ticks = 0  # the backticks that opened the code in this line

    @property
    def text(self) -> str:
        """What came out so far."""
        return "".join(self._parts)

    def feed(self, piece: str) -> str:
        """Take the next piece; what can be shown now."""
        self._held += piece
        return self._advance(last=False)

    def end(self) -> str:
        """Take the end of the answer; what is left to be shown."""
        return self._advance(last=True)

    def _advance(self, *, last: bool) -> str:
        before = len(self._parts)
        text, at = self._held, 0
        while at < len(text):
            following = self._step(text, at, last)
            if following is None:
                break
            at = following
        self._held = text[at:]
        if self._fence:
            self.code[-1] = (self.code[-1][0], self._length)  # so far
        return "".join(self._parts[before:])

    def _step(self, text: str, at: int, last: bool) -> int | None:
        """Read on from ``at``; None where more of the text is needed to decide."""
        first = text[at]
        if space := _SPACE.match(text, at):
            self._space(space.group())
            return space.end()
        if first == "`" or (first == "~" and self._starts_line):
            run = _TICKS.match(text, at)
            end = at + 1 if run is None else run.end()
            if end == len(text) and not last:
                return None
            self._ticked(text[at:end])
            return end
        if self._fence or self._ticks:
            return self._emit(_CODE, text, at)
        if first not in _OPENING:
            return self._emit(_WORD, text, at)
        found = _CITATION.match(text, at, partial=not last)
        if found is None:
            self._show(first)
            return at + 1
        if found.partial:
            return None
        self._cite(found.group())
        return found.end()

    @property
    def _starts_line(self) -> bool:
        return "\n" in self._blank or not self._length

    def _space(self, space: str) -> None:
        if self._eats:
            space = space.lstrip(" \t")
            self._eats = not space
        if "\n" in space:
            self._ticks = 0
        self._blank += space

    def _ticked(self, run: str) -> None:
        fences = len(run) >= 3 and self._starts_line and not self._ticks
        if fences and not self._fence:
            self._show(run)
            self._fence = run[0]
            self.code.append((self._length - len(run), self._length))
        elif fences and self._fence == run[0]:
            self._show(run)
            self._fence = ""
            self.code[-1] = (self.code[-1][0], self._length)
        else:
            self._show(run)
            if not self._fence and run[0] == "`" and self._ticks in (0, len(run)):
                self._ticks = 0 if self._ticks else len(run)

    def _cite(self, found: str) -> None:
        numbers: dict[int, None] = {}
        missing = False
        for each in _NUMBERS.finditer(found):
            one, other = int(each[1]), int(each[3] or each[1])
            for end in dict.fromkeys((one, other)):
                if end not in self._known:
                    missing = True
                    if end not in self.removed:
                        self.removed.append(end)
            step = 1 if one <= other else -1
            numbers |= dict.fromkeys(n for n in range(one, other + step, step) if n in self._known)
        if not numbers:
            self._eats = self._starts_line
            self._blank = self._blank.rstrip(" \t")
            return
        plain = not missing and found[0] + found[-1] == "[]"
        kept = found if plain else f"[{', '.join(map(str, numbers))}]"
        self._show(kept)
        self.marks.append(Mark(self._length - len(kept), self._length, tuple(numbers)))

    def _emit(self, token: regex.Pattern[str], text: str, at: int) -> int:
        found = token.match(text, at)
        end = at + 1 if found is None else found.end()
        self._show(text[at:end])
        return end

    def _show(self, text: str) -> None:
        shown = (self._blank if self._length else "") + text
        self._blank, self._eats = "", False
        self._parts.append(shown)
        self._length += len(shown)


def without_citations(text: str) -> str:
    """``text`` without its citations: those of an earlier answer name other sources."""
    reading = CitationFilter(())
    return reading.feed(text) + reading.end()


def sentences_of(
    text: str,
    marks: Sequence[Mark],
    code: Sequence[tuple[int, int]] = (),
    *,
    introductions: bool = False,
) -> tuple[AnswerSentence, ...]:
    """The sentences of an answer with the numbers that each cites.

    A citation after the full stop belongs to the sentence before it, if that has none. Headings,
    code and lines without a word are no sentences, nor, unless they are asked for, introductions
    that end in a colon.
    """
    found: list[AnswerSentence] = []
    starts = [mark.start for mark in marks]
    for start, end in _blocks(text, code):
        before: AnswerSentence | None = None
        for first, last in sentence_spans(text, start, end):
            own = list(marks[bisect_left(starts, first) : bisect_left(starts, last)])
            begin = first
            if before is not None and not before.numbers:
                # A row of citations at the beginning, which the full stop cut off.
                moved = []
                while own and not text[begin : own[0].start].strip():
                    moved.append(own.pop(0))
                    begin = moved[-1].end
                if moved:
                    before = _sentence(text, before.start, begin, moved)
                    found[-1] = before
                    begin += len(text[begin:last]) - len(text[begin:last].lstrip(" \t\n.,;"))
            if _is_sentence(text[begin:last], introductions):
                before = _sentence(text, begin, last, own)
                found.append(before)
    return tuple(found)


def _sentence(text: str, start: int, end: int, marks: Sequence[Mark]) -> AnswerSentence:
    numbers = dict.fromkeys(number for mark in marks for number in mark.numbers)
    return AnswerSentence(text=text[start:end], start=start, end=end, numbers=tuple(numbers))


def _is_sentence(text: str, introductions: bool) -> bool:
    whole = introductions or not text.rstrip("*_ ").endswith((":", "："))
    return whole and _SAYS.search(text) is not None


def _blocks(text: str, code: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The paragraphs, items and rows, as spans; no headings and no code."""
    start: int | None = None
    end = 0
    begins_of_code = [first for first, _ in code]
    for line in _LINE.finditer(text):
        before = bisect_right(begins_of_code, line.start()) - 1
        fenced = before >= 0 and line.start() < code[before][1]
        heading = not fenced and _HEADING.match(text, line.start()) is not None
        begins = fenced or heading or text[end : line.start()].count("\n") > 1
        begins = begins or not line.group().strip() or bool(_ITEM.match(text, line.start()))
        if begins and start is not None:
            yield start, end
            start = None
        if not (fenced or heading) and start is None:
            start = line.start()
        end = line.end()
    if start is not None:
        yield start, end


CONVERSATION_TOKENS: Final = 1500
"""The most tokens of earlier turns that are sent with a question."""


def check_turns(conversation: Any) -> tuple[Message, ...]:
    """The turns of user and assistant.

    Raises:
        ValidationError: it is no list of messages, or a message of the system is in it.
    """
    if isinstance(conversation, str | Message) or not isinstance(conversation, Iterable):
        raise ValidationError(
            f"conversation takes messages, such as Answer.conversation, not {conversation!r:.60}"
        )
    turns = tuple(conversation)
    for turn in turns:
        if not isinstance(turn, Message):
            raise ValidationError(f"conversation takes triptych.Message, not {turn!r:.60}")
        if turn.role not in ("user", "assistant"):
            raise ValidationError(
                f"a conversation is of user and assistant, not of {turn.role!r:.60}: give "
                "instructions for the model with prompt=AnswerPrompt(instructions=…)"
            )
        check_text(turn.content, "a message of the conversation")
    return turns


def newest_turns(
    turns: Sequence[Message], count: Callable[[str], int]
) -> tuple[tuple[Message, ...], int]:
    """The last turns that fit into `CONVERSATION_TOKENS`, as they are sent, and how many are left
    out.

    Those of the assistant lose their citations, which name sources of earlier contexts.
    """
    taken: list[Message] = []
    room = CONVERSATION_TOKENS
    for turn in reversed(turns):
        content = without_citations(turn.content) if turn.role == "assistant" else turn.content
        room -= count(content)
        if room < 0:
            break
        if content.strip():
            taken.append(Message(turn.role, content))
    kept = tuple(reversed(taken))
    blank = sum(not turn.content.strip() for turn in turns)
    return kept, max(len(turns) - len(kept) - blank, 0)
