"""Whether a model's answer is one: pure functions."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import regex

from triptych.errors import TriptychError, ValidationError
from triptych.layers.prompts import FRAME
from triptych.records import Generation, ParkedReason, check_text

__all__ = ["BadAnswerError", "checked"]

_REFUSAL: Final = regex.compile(
    r"""^\W*(?:
        (?:sorry\b[,.!]?\s*(?:but\s*)?)?
        (?:i(?:['’]m|\s+am)\s+(?:very\s+|really\s+)?(?:sorry|unable|not\s+able|afraid\s+(?:that\s+)?i)
          |i\s+(?:can(?:['’]t|not|\s+not)|won['’]t|will\s+not|must\s+decline|have\s+to\s+decline
             |am\s+not\s+(?:allowed|permitted))\b
          |(?:my\s+)?apologi(?:es|[sz]e)\b
          |as\s+an\s+(?:ai|artificial\s+intelligence)\b)
        |sorry\b[,.!]?\s+(?:but\s+)?i\b
        |(?:很)?抱歉|对不起|對不起|我(?:无法|無法|不能)
        |es\s+tut\s+mir\s+leid|je\s+suis\s+désolée?|lo\s+siento
        |申し訳(?:ありません|ございません)
    )""",
    regex.V1 | regex.IGNORECASE | regex.VERBOSE,
)
_LONGEST_REFUSAL: Final = 120
"""Words. What is longer describes something, whatever it begins with."""

_ORDER: Final = regex.compile(
    r"""(?:(?:ignore|disregard|forget|override)\b[^.\n]{0,60}
            \b(?:instructions?|prompts?|rules|above|previous|everything|system)
        |(?:answer|reply|respond|output|print|say|write|repeat|return)\s+
            (?:only|just|exactly|nothing\s+but|with|the\s+(?:word|text|phrase|following)|:|["'“`]))""",
    regex.V1 | regex.IGNORECASE | regex.VERBOSE,
)
_REACH: Final = 400
"""How many characters behind an order its words may stand."""

_LONGEST_OBEYED: Final = 15
"""Words. A longer answer that is in the text is a quotation."""

_MARK: Final = regex.compile(r"</?text-[0-9a-f]{12}>")


class BadAnswerError(TriptychError):
    """An answer that is none; ``reason`` is what it is parked under."""

    def __init__(self, reason: ParkedReason, message: str) -> None:
        super().__init__(message)
        self.reason: ParkedReason = reason


def checked(answer: object, *, text: str, prompt: str, ceiling: int) -> str:
    """The answer's text, without white space or the marks of `prompts.fenced` around it.

    Args:
        answer: what ``generate`` returned.
        text: the data that was shown.
        prompt: the instruction that was given.
        ceiling: the most tokens that were allowed.

    Raises:
        BadAnswerError: it is no `Generation`, cannot be stored, was cut at its ceiling, is
            blank, is a refusal, says no more than what the text itself orders to say, or
            gives the instruction away.
    """
    if not isinstance(answer, Generation):
        raise BadAnswerError(
            "unusable", f"the model answered with a {type(answer).__name__}, not a Generation"
        )
    try:
        # Small models wrap what they write in the marks that they were shown.
        said = _MARK.sub("", check_text(answer.text, "the answer")).strip()
    except ValidationError as error:
        raise BadAnswerError("unusable", str(error)) from error
    if answer.truncated:
        raise BadAnswerError("endless", f"the answer did not end within {ceiling} tokens")
    if not said:
        raise BadAnswerError("empty", "the answer is blank")
    if is_refusal(said, text):
        raise BadAnswerError("refusal", f"the model refused: {_shown(said)}")
    if gives_away(said, prompt, text):
        raise BadAnswerError("instructions", "the answer repeats the instruction")
    if is_obeyed(said, text):
        raise BadAnswerError(
            "instructions", f"the answer is what the text orders to say: {_shown(said)}"
        )
    return said


def is_refusal(said: str, text: str) -> bool:
    """Whether ``said`` is how models decline, and not a quotation of ``text``."""
    words = said.split()
    if len(words) > _LONGEST_REFUSAL or not _REFUSAL.search(said):
        return False
    return _plain(" ".join(words[:8])) not in _plain(text)


def is_obeyed(said: str, text: str) -> bool:
    """Whether ``said`` is short and stands in ``text`` right behind an order to say something."""
    wanted = _plain(said)
    if not wanted or len(said.split()) > _LONGEST_OBEYED:
        return False
    return any(
        wanted in _plain(text[order.start() : order.end() + _REACH])
        for order in _ORDER.finditer(text)
    )


def gives_away(said: str, prompt: str, text: str) -> bool:
    """Whether ``said`` holds a sentence of the instruction that ``text`` does not hold."""
    answer = _plain(said)
    repeated = [sentence for sentence in _sentences(prompt) if sentence in answer]
    shown = _plain(text) if repeated else ""
    return any(sentence not in shown for sentence in repeated)


@lru_cache(maxsize=64)
def _sentences(prompt: str) -> tuple[str, ...]:
    """The sentences of an instruction that are long enough to be known again."""
    sentences = map(_plain, regex.split(r"(?<=[.:])\s", f"{prompt}\n{FRAME}"))
    return tuple(sentence for sentence in sentences if len(sentence) >= 40)


def _plain(text: str) -> str:
    return " ".join(regex.findall(r"[\p{L}\p{N}]+", text.casefold()))


def _shown(said: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in said).split())
    return line if len(line) <= 120 else f"{line[:120]}…"
