"""Taking a model's thoughts out of its answer, and JSON out of what stands around it."""

from __future__ import annotations

import string
from typing import Final

import regex

_FINAL: Final = r"<\|channel\|>final<\|message\|>"
_TAGS: Final = ("think", "thinking", "thought", "reasoning", "seed:think")
_PAIRS: Final = (
    *((rf"<{tag}(?:\s{{1,9}}\w{{1,20}}=[^<>]{{0,40}}|\s{{0,9}})>", f"</{tag}>") for tag in _TAGS),
    (r"\[think\]", r"\[/think\]"),
    ("◁think▷", "◁/think▷"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<\|channel>thought", r"<channel\|>"),
    # The channels of OpenAI's harmony format: many begin, and one ends them all.
    (r"<\|channel\|>(?:analysis|commentary)|<\|start\|>assistant", _FINAL),
)
"""The marks that begin and end a thought."""

_INSIDE: Final = [
    regex.compile(f"(?P<end>{end})" + f"|(?P<begin>{begin})" * (end != _FINAL), regex.I)
    for begin, end in _PAIRS
]
_BEGIN: Final = regex.compile("|".join(f"({begin})" for begin, _ in _PAIRS), regex.I)
_OPENING: Final = regex.compile(rf"{_BEGIN.pattern}|<\|begin_of_solution\|>", regex.I)
_QUOTES: Final = frozenset("`\"'")
_BLANK: Final = f"{string.whitespace}\u200b\u2060\ufeff"
_ORPHAN: Final = regex.compile("|".join(end for _, end in _PAIRS), regex.I)
"""A mark that may end a thought which the model's chat template began: no mark begins it."""

_TAIL: Final = regex.compile(
    r"(?<=[^\s=:(\[\"'`])<\|(?:return|end|call|end_of_solution)\|>\s{0,9}\Z", regex.I
)
_LONGEST: Final = 64

_FENCE: Final = regex.compile(r"^ {0,3}(?:```|~~~)", regex.M)
_OPENS: Final = regex.compile(
    r"(?:(?:^|[\s(\[{=:,])[\"'`“‘«„*_~]+|[(\[{=\\/|]|<\w+>|[:=|,]\s+"
    r"|^\s*(?:[-*+•>|]|\d+[.)])\s*|^(?: {4}|\t)\s*)\Z"
)
"""The end of a line after which a mark is quoted, or an item, or code."""

_CLOSES: Final = regex.compile(r"[\"'`”’»)\]}|,;:.?!](?![\w`])")
_SENTENCE_ENDS: Final = '.!?…。！？)]"”'


def _goes_on(line: str, after: str) -> bool:
    """Whether a mark between the two is a word of a sentence: "up to </think> in the output"."""
    said, bare = line.rstrip(), after.lstrip()
    is_same_line = "\n" not in after[: len(after) - len(bare)]
    if not said:
        return is_same_line and after != bare and bare[:1].islower()
    inside = said != line and said[-1] not in _SENTENCE_ENDS
    return inside and (is_same_line or bare[:1].islower())


def _ends_thought(before: str, after: str) -> bool:
    """Whether a mark between the two, which no mark began, looks like the end of a thought."""
    line, bare = before[before.rfind("\n") + 1 :], after.lstrip()
    if _BEGIN.search(before) or len(_FENCE.findall(before)) % 2 or _OPENS.search(line):
        return False
    if "\n" not in after[: len(after) - len(bare)]:
        is_open = line.count('"') % 2 or line.count("`") % 2 or line.count("“") > line.count("”")
        if is_open or _CLOSES.match(after):
            return False
    return not _goes_on(line, after)


class ThoughtFilter:
    """Takes thoughts out of the pieces of one answer, wherever the pieces are cut.

    A thought stands at the beginning of an answer, or follows another thought. Marks elsewhere are
    text, and so is an end mark that nothing began, unless it is the first and stands as the end
    of a thought does: not quoted, in code, in a list or in the middle of a sentence.

    Args:
        opened: whether the model is known to begin with a thought that no mark begins. No text is
            given then before its end is there.

    Attributes:
        restarted: whether what was given before turned out to be a thought, which no mark began.
            The answer begins after it; set this to False when it is read.
        orphan: the thought that no mark began; "" without one.
    """

    def __init__(self, *, opened: bool = False) -> None:
        self.restarted: bool = False
        self.orphan: str = ""
        self._held = self._blank = ""
        self._given = 0  # how much of the held text was given
        self._looked = 0  # where the next mark is looked for
        self._inside: regex.Pattern[str] | None = None
        self._depth = self._spoken = 0  # thoughts that are open, and begin marks in a sentence
        self._holds = opened
        self._is_text = False
        self._is_first = True  # no thought has ended, and no end mark stands in the text

    def feed(self, piece: str) -> str:
        """Return the text of the answer that is certain by now."""
        self._held += piece
        return self._advance(last=False)

    def end(self) -> str:
        """Return what is left when nothing follows."""
        return self._advance(last=True)

    def _advance(self, *, last: bool) -> str:
        while True:
            if self._is_text:
                if not self._end_orphan(last):
                    return self._safe(last)
            elif not (self._opening(last) if self._inside is None else self._end_thought(last)):
                return ""

    def _opening(self, last: bool) -> bool:
        """Whether it is known what begins here: a thought or text."""
        bare = self._held.lstrip(_BLANK)
        self._blank += self._held[: len(self._held) - len(bare)]
        self._held = bare
        mark = _OPENING.match(bare, partial=not last)
        if mark is None:
            self._is_text = True
            self._held = self._blank * self._is_first + bare
            return True
        if mark.partial:
            return False  # it may go on
        self._held = self._held[mark.end() :]
        if mark.lastindex is not None:
            self._inside, self._depth, self._spoken = _INSIDE[mark.lastindex - 1], 1, 0
        return True

    def _end_thought(self, last: bool) -> bool:
        assert self._inside is not None
        while mark := self._inside.search(self._held, self._looked):
            line = self._held[self._held.rfind("\n", 0, mark.start()) + 1 : mark.start()]
            after = self._held[mark.end() :]
            if not last and len(after.lstrip()) < 1:
                return False  # what follows tells whether it is spoken of
            self._looked = mark.end()
            if line[-1:] in _QUOTES and after[:1] == line[-1:] and line.count(line[-1]) % 2:
                continue
            spoken = _goes_on(line, after)
            if mark.lastgroup == "begin":
                self._depth, self._spoken = self._depth + (not spoken), self._spoken + spoken
            elif spoken and self._spoken:
                self._spoken -= 1
            else:
                self._depth -= 1
                if not self._depth:
                    self._begin_after(mark.end())
                    return True
        # No more of a thought is kept than its last line.
        kept = self._held.rfind("\n", 0, max(0, len(self._held) - _LONGEST)) + 1
        self._held = "" if last else self._held[kept:]
        self._looked = max(self._looked - kept, len(self._held) - _LONGEST, 0)
        return False

    def _begin_after(self, end: int) -> None:
        self._held, self._inside, self._given, self._looked = self._held[end:], None, 0, 0
        self._is_text = self._is_first = self._holds = False

    def _end_orphan(self, last: bool) -> bool:
        """Whether a thought ends in the text which no mark began."""
        if not self._is_first:
            return False
        mark = _ORPHAN.search(self._held, self._looked, partial=not last)
        self._looked = len(self._held) if mark is None else mark.start()
        if mark is None or mark.partial:
            return False
        before, after = self._held[: mark.start()], self._held[mark.end() :]
        if len(after.lstrip()) < 2 and not last:
            return False  # what follows tells
        if not _ends_thought(before, after):
            self._is_first = self._holds = False
            return False
        self.orphan = before
        self.restarted = bool(before[: self._given].strip())
        self._begin_after(mark.end())
        return True

    def _safe(self, last: bool) -> str:
        """What can be given of the held text: the end may be the beginning of a mark."""
        stop = self._looked if self._is_first and not last else len(self._held)
        if self._holds and not last:
            return ""
        if tail := _TAIL.search(self._held, self._given, partial=not last):
            stop = min(stop, tail.start())
        given = self._held[self._given : stop]
        self._given = max(self._given, stop)
        if not self._is_first and self._given > 1:  # one character is looked back at
            self._held, self._given = self._held[self._given - 1 :], 1
        return given


def without_thoughts(text: str) -> str:
    """Return a whole answer without its thoughts."""
    thoughts = ThoughtFilter()
    given = thoughts.feed(text)
    return given + thoughts.end()


_CODE: Final = regex.compile(r"```[\w+-]*\s*(.*?)\s*```", regex.DOTALL)


def json_text(answer: str) -> str:
    """Return the JSON in a model's answer: without thoughts, and without a code fence around it."""
    text = without_thoughts(answer).strip()
    code = _CODE.fullmatch(text)
    return code[1] if code else text
