"""What readers do not see of a text, made visible; and the lines of a difference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from triptych.text.patterns import late

_UNSEEN: Final = late(
    r"(?<![ \t])[ \t]++$|[[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}"
    r"\u2800\U00013441\U00013442\U00016FE4\U0001BC9D\U0001D159]--[ \t\n]]"  # blank by name
    r"|\u2039(?=U\+)"  # a text cannot imitate the others
)
_PLACE: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_KINDS: Final = {"+": "added", "-": "removed"}


def visible(line: str) -> str:
    """Return ``line`` with each character that readers do not see as its number: ``‹U+202E›``.

    These are controls and formats (Unicode C), white space (Z) but blanks and tabs inside the
    line, and those that fonts may leave out.
    """
    if line.isascii() and line.isprintable() and line[-1:] != " ":
        return line  # most lines
    shown = _UNSEEN.sub(lambda it: "".join(f"‹U+{ord(each):04X}›" for each in it.group()), line)
    return shown.replace("\n", "‹U+000A›")


def diff_lines(difference: str) -> Iterator[tuple[str, str]]:
    """The lines of a unified diff, `visible`, each after its kind: "file", "place", "same", "added"
    or "removed".

    A line ends at a line feed alone. The counts of a place say which lines are of the texts, for a
    text may imitate the others.
    """
    old = new = 0
    for line in difference.removesuffix("\n").split("\n") if difference else ():
        kind = "same"
        if (old > 0 or new > 0) and line[:1] != "\\":
            kind = _KINDS.get(line[:1], "same")
            old, new = old - (kind != "added"), new - (kind != "removed")
        elif place := _PLACE.match(line):
            kind = "place"
            old, new = (1 if count is None else int(count) for count in place.groups())
        elif line[:1] != "\\":
            kind = "file"
        yield kind, line[:1] + visible(line[1:])
