"""Taking a model's thoughts out of its answer, and JSON out of what stands around it."""

from __future__ import annotations

import re
from typing import Final

_FINAL: Final = "<|channel|>final<|message|>"
_ENDS: Final = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "[think]": "[/think]",
    "◁think▷": "◁/think▷",
    "<|channel|>analysis": _FINAL,
    "<|channel|>commentary": _FINAL,
    "<|start|>assistant": _FINAL,
}
"""The mark that ends a thought, by the one that begins it, in lower case. The last three are the
channels of OpenAI's harmony format."""

_ORPHANS: Final = ("</think>", "</thinking>", "[/think]", "◁/think▷", _FINAL)
"""Marks that end a thought which the model's chat template began, so that no mark begins it."""

_TRAILING: Final = re.compile(r"(?:<\|(?:return|end|call)\|>\s*)+\Z")
_LONGEST: Final = max(map(len, (*_ENDS, *_ORPHANS)))


class ThoughtFilter:
    """Takes thoughts out of the pieces of one answer, wherever the pieces are cut.

    A thought stands at the beginning of an answer, or follows another thought. Marks elsewhere, and
    marks in backticks, are text.

    Args:
        opened: whether the model is known to begin with a thought that no mark begins. Nothing is
            given then before its end is there.

    Attributes:
        restarted: whether what was given before turned out to be a thought, which no mark began.
            The answer begins after it; set this to False when it is read.
    """

    def __init__(self, *, opened: bool = False) -> None:
        self.restarted: bool = False
        self._held = ""
        self._before = ""  # the end of what was given
        self._ends: tuple[str, ...] = _ORPHANS if opened else ()
        self._guessed = opened
        self._is_text = False
        self._is_visible = False  # something was given that is no white space
        self._is_first = True  # no thought has ended, and no mark stands in the text

    def feed(self, piece: str) -> str:
        """Return the text of the answer that is certain by now."""
        self._held += piece
        given = ""
        while True:
            if self._is_text:
                end = self._orphan() if self._is_first else None
                if end is None:
                    return given + self._safe()
                self.restarted = self.restarted or self._is_visible
                self._begin_after(end)
                given = ""
            elif self._ends:
                if not self._end_thought():
                    return given
            elif not self._opening():
                return given

    def end(self) -> str:
        """Return what is left when nothing follows."""
        rest, self._held = self._held, ""
        if self._ends and not self._guessed:
            return ""  # all of it is a thought
        return _TRAILING.sub("", rest if self._is_first else rest.lstrip())

    def _opening(self) -> bool:
        """Whether it is known what begins here: a thought or text."""
        bare = self._held.lstrip()
        low = bare[:_LONGEST].lower()
        mark = next((each for each in _ENDS if low.startswith(each)), None)
        if mark is not None:
            self._held, self._ends = bare[len(mark) :], (_ENDS[mark],)
        elif any(each.startswith(low) for each in _ENDS):
            return False  # it may go on
        else:
            self._is_text = True
            self._held = self._held if self._is_first else bare
        return True

    def _end_thought(self) -> bool:
        low = self._held.lower()
        found = [(at, each) for each in self._ends if (at := low.find(each)) >= 0]
        if not found:
            if not self._guessed:  # no thought is kept
                self._held = self._held[-_LONGEST:]
            return False
        at, mark = min(found)
        self._begin_after(at + len(mark))
        return True

    def _begin_after(self, end: int) -> None:
        self._held, self._ends, self._before = self._held[end:], (), ""
        self._is_text = self._is_first = self._guessed = False

    def _orphan(self) -> int | None:
        """The place after a mark in the text that ends a thought which no mark began."""
        text = self._before + self._held
        low = text.lower()
        found = [(at, each) for each in _ORPHANS if (at := low.find(each)) >= 0]
        if not found:
            return None
        at, mark = min(found)
        quoted = text[at - 1 : at] == "`" or any(each in low[:at] for each in _ENDS)
        if quoted:
            self._is_first = False
            return None
        return at + len(mark) - len(self._before)

    def _safe(self) -> str:
        """What can be given of the held text: the end may be the beginning of a mark."""
        low, keep = self._held[-_LONGEST:].lower(), 0
        for size in range(1, len(low) + 1):
            if any(each.startswith(low[-size:]) for each in (*_ORPHANS, "<|return|>", "<|end|>")):
                keep = size
        cut = len(self._held) - keep
        given, self._held = self._held[:cut], self._held[cut:]
        if self._is_first and any(each in (self._before + given).lower() for each in _ENDS):
            self._is_first = False
        self._before = (self._before + given)[-_LONGEST:]
        self._is_visible = self._is_visible or bool(given.strip())
        return given


def without_thoughts(text: str) -> str:
    """Return a whole answer without its thoughts."""
    thoughts = ThoughtFilter()
    given = thoughts.feed(text)
    return given + thoughts.end()


_CODE: Final = re.compile(r"```[\w+-]*\s*(.*?)\s*```", re.DOTALL)


def json_text(answer: str) -> str:
    """Return the JSON in a model's answer: without thoughts, and without a code fence around it."""
    text = without_thoughts(answer).strip()
    code = _CODE.fullmatch(text)
    return code[1] if code else text
