r"""What a reader sees in place of escapes and of grouped digits: words are compared after that.

Markdown writes ``my\_name``, HTML ``caf&eacute;``, JSON and programs ``\u00dc``: `decode` gives the
characters. Two things have two readings, and either finds them: ``\n`` before a letter ends a line
or begins a name in a path, and ``29,125`` is one number or two.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from triptych.text.words import normalize

# In order: a part of a Windows path before a name like _it or .it, which stays; ASCII punctuation;
# a surrogate pair; a code point; bytes beyond ASCII; the end of a line or a tab, but not after what
# stands before commands of LaTeX; an entity of HTML.
_ESCAPE: Final = r"""
    \\(?: (?P<path>[A-Za-z0-9]\w*+(?:[.-]\w++)*+\\(?=[._]\w))
    | (?P<sign>[!-/:-@\[-`{-~])
    | u(?P<high>[dD][89abAB][0-9A-Fa-f]{2})\\u(?P<low>[dD][c-fC-F][0-9A-Fa-f]{2})
    | (?P<code>u[0-9A-Fa-f]{4} | u\{[0-9A-Fa-f]{2,6}\} | U[0-9A-Fa-f]{8})
    | x(?P<bytes>[89a-fA-F][0-9A-Fa-f](?:\\x[89a-fA-F][0-9A-Fa-f]){0,63})
    | (?<![\s{($^_&\\]\\)(?P<control>[nrt])(?=(?P<next>[0-9A-Za-z_\u00c0-\u052f]{1,255}))
    )
    | &(?P<entity>\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});
"""
_NUMBER: Final = r"""
    (?<![0-9A-Za-z_])(?<![0-9][.,'])[0-9]{1,3}(?P<separator>SIGN)[0-9]{3}
    (?:(?P=separator)[0-9]{3}){0,5}(?:\.[0-9]{1,30}+)?(?!(?P=separator)?[0-9])
"""
_SPACES: Final = "\u00a0\u202f\u2009"
_ESCAPES: Final = re.compile(_ESCAPE, re.VERBOSE)
_NUMBERS: Final = re.compile(_NUMBER.replace("SIGN", f"[,{_SPACES}]"), re.VERBOSE)
# The second reading also joins the digits of what is one token, as `words` does: 1'234, 1.234.567.
_ALL: Final = re.compile(
    f"{_ESCAPE}|{_NUMBER}".replace("SIGN", rf"[,{_SPACES}_'’]|\.(?=[0-9]{{3}}\.[0-9]{{3}})"),
    re.VERBOSE,
)
# What `_ALL` may match has one of these: it is found ten times as fast.
_MAY_BE: Final = re.compile(rf"[\\&,.{_SPACES}_'’](?:(?<=[\\&])|(?<=[0-9].)[0-9]{{3}})")
_COMMAS: Final = re.compile(r",(?<=[0-9],)[0-9]{3}(?![0-9])")
_SEPARATED: Final = re.compile(rf"[,{_SPACES}](?<=[0-9].)[0-9]{{3}}(?![0-9])")

# Other names are also those of variables, whose address C takes: &alpha; &copy; &order;
_NO_VARIABLE: Final = re.compile(
    r"[A-Za-z]{1,6}(?:acute|grave|circ|uml|tilde|cedil|caron|ring|slash|lig|ogon|breve|macr"
    r"|strok|dot|dblac|cy)|amp|lt|gt|quot|apos|nbsp|shy|zwn?j|e[nm]sp|thinsp|[nm]dash|hellip"
    r"|[lr][sda]quo|sbquo|bdquo|bull|middot"
)


def decode(text: str) -> str:
    """Return ``text`` with characters in place of their escapes."""
    return _ESCAPES.sub(_character, text) if "\\" in text or "&" in text else text


def readings(text: str) -> list[str]:
    r"""Return ``text`` decoded, and where that differs with digits joined and ``\n`` as a space."""
    return [view.text for view in views(text)]


def expand(text: str) -> str:
    """Return the text whose words are those of all readings of ``text``."""
    if "\\" in text or "&" in text:
        # A letter and its mark may be one character or two: the escape before it is the same.
        text = _ESCAPES.sub(_both, normalize(text))
    spaced = not text.isascii() and ("\u00a0" in text or "\u202f" in text or "\u2009" in text)
    separated = _SEPARATED if spaced else _COMMAS
    return _with_joined(text, separated) if separated.search(text) else text


def _with_joined(text: str, separated: re.Pattern[str]) -> str:
    """``text`` with each number in groups of digits also joined, before it."""
    parts: list[str] = []
    at = 0
    for hit in separated.finditer(text):
        start = hit.start()
        while start > max(at, hit.start() - 3) and text[start - 1] in "0123456789":
            start -= 1
        # A ligature is letters, after which there is no number.
        before = normalize(text[start - 1 : start])[-1:] if start else ""
        is_word = before.isascii() and before.isalpha()
        if not is_word and (found := _NUMBERS.match(text, start)):
            parts += (text[at:start], f" {_joined(found)} {found[0]}")
            at = found.end()
    return "".join([*parts, text[at:]])


class View(NamedTuple):
    """A reading of a text, and what was replaced: start and end in the reading and in the text."""

    text: str
    replaced: list[tuple[int, int, int, int]]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the text that ``[start, end)`` of the reading stands for."""
        return self._character(start)[0], self._character(end - 1)[1]

    def _character(self, at: int) -> tuple[int, int]:
        which = bisect_right(self.replaced, at, key=lambda each: each[0]) - 1
        _, end, first, last = self.replaced[which] if which >= 0 else (0, 0, 0, 0)
        return (first, last) if at < end else (at - end + last, at - end + last + 1)


def views(text: str) -> list[View]:
    """Return the `readings` of ``text`` with the places of their characters in it."""
    if not _MAY_BE.search(text):
        return [View(text, [])]
    first, other = (_view(text, replacement) for replacement in (_character, _other))
    return [first] if first.text == other.text else [first, other]


def _view(text: str, replacement: Callable[[re.Match[str]], str]) -> View:
    parts: list[str] = []
    replaced = []
    at = length = 0
    for found in _ALL.finditer(text):
        start, new = found.start(), replacement(found)
        if new != found[0]:
            parts += (text[at:start], new)
            begin = length + start - at
            at, length = found.end(), begin + len(new)
            replaced.append((begin, length, start, at))
    return View("".join([*parts, text[at:]]), replaced)


def _character(found: re.Match[str]) -> str:
    """What the escape stands for; itself where that is nothing, or has two readings."""
    if found["sign"]:
        return str(found["sign"])
    if found["entity"]:
        return _entity(found, found["entity"])
    if found["high"]:
        return bytes.fromhex(found["high"] + found["low"]).decode("utf-16-be")
    if found["code"]:
        number = int(found["code"][1:].strip("{}"), 16)
        if number <= sys.maxunicode and not 0xD800 <= number <= 0xDFFF:
            return chr(number)
    if found["bytes"]:
        data = bytes.fromhex(found["bytes"].replace("\\x", ""))
        with suppress(UnicodeDecodeError):
            return data.decode("utf-8")
        return data.decode("latin-1")
    return str(found[0])


def _entity(found: re.Match[str], name: str) -> str:
    from html import entities, unescape  # few texts have one

    if name[0] == "#":
        return unescape(found[0])
    around = found.string[max(found.start() - 1, 0) : found.end() + 1].replace(found[0], "", 1)
    if _NO_VARIABLE.fullmatch(name) or any(each == "-" or each.isalnum() for each in around):
        return entities.html5.get(f"{name};", found[0])
    return str(found[0])


def _joined(found: re.Match[str]) -> str:
    return str(found[0]).replace(found["separator"], "")


def _other(found: re.Match[str]) -> str:
    if found["separator"]:
        return _joined(found)
    return " " if found["control"] else _character(found)


def _both(found: re.Match[str]) -> str:
    if found["control"] and len(found["next"]) > 1:
        return f" {found['control']}{found['next']} "
    return _character(found)
