"""What of a file is not in the text that a parser made of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import index
from typing import Any, Final

import attrs

from triptych._internal.wording import counted

UNREAD: Final = "unread"
"""Its key in the outline of a text (`triptych.chunking.outline`)."""

MAX_OMISSIONS: Final = 50
"""The maximum number of places of a document; the words of further ones are added up."""


_NAMED: Final = 5


@attrs.frozen(kw_only=True, slots=True)
class Omission:
    """Words that a file shows and its text lacks, so that no search finds them.

    ``place`` is where they stand in the file ("page 7", "footnotes", ""), ``words`` how many they
    are, ``reason`` why they were left out ("footer on each page"), ``example`` the first of them.
    A place of which nothing could be read has 0 words.
    """

    place: str
    words: int
    reason: str
    example: str = ""

    def __str__(self) -> str:
        """The omission in words: "page 7: 14 words are not searched (footer on each page)"."""
        verb = "is" if self.words == 1 else "are"
        what = f"{counted(self.words, 'word')} {verb} not searched ({self.reason})"
        what = what if self.words else self.reason
        return f"{self.place}: {what}" if self.place else what


@attrs.frozen(kw_only=True, slots=True)
class Unread:
    """What of a file is not in its text: ``omissions`` by place, and ``no_text``, the reason why
    the text is empty or nearly empty ("" where it is not)."""

    omissions: tuple[Omission, ...] = ()
    no_text: str = ""

    def __bool__(self) -> bool:
        return bool(self.omissions or self.no_text)

    def __str__(self) -> str:
        """All of it on one line, "" for nothing; the first five places, and how many more."""
        said = [f"little or no text ({self.no_text})"] if self.no_text else []
        said += map(str, self.omissions[:_NAMED])
        more = self.omissions[_NAMED:]
        if more:
            count = sum(each.words for each in more)
            said.append(f"{counted(count, 'word')} at {counted(len(more), 'more place')}")
        return "; ".join(said)

    def fields(self) -> list[Any]:
        """Return it as plain data for JSON."""
        return [self.no_text, [attrs.astuple(each) for each in _merged(self.omissions)]]


def _merged(omissions: Sequence[Omission]) -> Sequence[Omission]:
    if len(omissions) <= MAX_OMISSIONS:
        return omissions
    by_size = sorted(range(len(omissions)), key=lambda at: -omissions[at].words)
    largest = set(by_size[: MAX_OMISSIONS - 1])
    kept = [each for at, each in enumerate(omissions) if at in largest]
    rest = [each for at, each in enumerate(omissions) if at not in largest]
    words = sum(each.words for each in rest)
    return [*kept, Omission(place=f"{len(rest):,} other places", words=words, reason="several")]


def read_unread(text: str) -> Unread:
    """What the outline ``text`` says of the words that the document's text lacks."""
    if f'"{UNREAD}":[' not in text:  # in a title the quotes have backslashes
        return Unread()
    try:
        no_text, fields = json.loads(text)[UNREAD]
        omissions = [
            Omission(place=str(place), words=index(words), reason=str(reason), example=str(example))
            for place, words, reason, example in fields
        ]
        return Unread(omissions=tuple(omissions), no_text=str(no_text))
    except (ValueError, TypeError, LookupError, RecursionError):
        return Unread()  # not written by `triptych.chunking.outline.write_outline`
