"""Converting reStructuredText to Markdown line by line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import attrs

from triptych.parsing.contract import (
    ContentBuilder,
    ParsedFile,
    ParseLimits,
    TextFileParser,
    markdown_safe,
    timed,
)
from triptych.parsing.decoder import DecodedText
from triptych.parsing.witness import Witness, without_tags
from triptych.records.unread import Omission

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*[ \t]*")
_DIRECTIVE = re.compile(r"\.\.[ \t]+([\w:.+-]+?)::(?:[ \t]+(.*))?")
_NOTE = re.compile(r"\.\.[ \t]+(\[[^\]]+\](?:[ \t]+.*)?)")
_SUBSTITUTION = re.compile(r"\.\.[ \t]+\|([^|]+)\|[ \t]+([\w-]+)::(?:[ \t]+(.*))?")
_OPTION = re.compile(r"[ \t]*:([\w-]+):(?:[ \t]+(.*))?")
_BULLET = re.compile(r"[ ]*(?:[-*+•]|\(?(?:#|\d+|[A-Za-z])[.)])[ ]+")
_INLINE = re.compile(
    r"""``(?P<code>[^\s`](?:[^\n]{0,300}?[^\s])?)``(?!`)
    |(?::[a-zA-Z][\w+.-]*)??(?::(?P<role>[a-zA-Z][\w-]*):)?`(?P<text>[^`\n]{1,300})`_{0,2}
    |\|(?P<name>[^|\s](?:[^|\n]{0,80}?[^|\s])?)\|_{0,2}
    |(?P<reference>_)(?<=(?:[^\W_]|\])_)_?(?![\w`])
    |\\(?P<space>[ ])""",
    re.VERBOSE,
)
_ENTRY = re.compile(r"([^<>\n]++)<[^<>\n]++>")
_MARKUP = re.compile(
    r"(?<!\S)\S*\\[ ]\S*|:[A-Za-z][\w+.:-]*:(?=`)|(?<![\\ \t])[ \t]*<[^<>`]*>(?=`)|\|[^|\s][^|]*\|"
)
_TICKS = re.compile(r"`+")
_SIGNS = re.compile(r"[`|_\\]")
_NAME_BEFORE = re.compile(r"(?<![\w\\])[\w\\]++\Z")
_TARGET = re.compile(r"(?<![\\ \t])[ \t]*<[^<>]*>\Z")
_UNICODE = re.compile(r"(?:0x|x|\\x|U\+|u|\\u|&\#x)([0-9A-Fa-f]{1,6});?|([0-9]{1,7})")
_PLAIN_ROLES = frozenset(
    ("", "abbr", "any", "doc", "emphasis", "numref", "ref", "strong", "sub", "sup", "term", "title")
)
_NAMED_ROLES = {"pep": "PEP ", "rfc": "RFC ", "cve": "CVE-"}
_CODE = frozenset(("code", "code-block", "sourcecode", "highlight", "parsed-literal"))
_DROPPED = frozenset(("contents", "include", "index", "meta", "raw", "sectnum"))
_HIDDEN = _DROPPED | {"toctree"}
_ADMONITIONS = {
    **{name: f"{name.title()}:" for name in ("attention", "caution", "danger", "error", "hint")},
    **{name: f"{name.title()}:" for name in ("important", "note", "tip", "warning")},
    "seealso": "See also:",
    "deprecated": "Deprecated since version",
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "versionremoved": "Removed in version",
}
"""What a reader sees above the text of these directives."""

_SHOWN_OPTIONS = frozenset(("alt", "caption", "header", "title"))
_MAX_LEVEL = 6
_LONGEST = 1_000
"""What of a substitution is shown at each place, in code points."""

_MAX_DEPTH = 50
"""Directives that nest deeper are text."""


@attrs.frozen(kw_only=True)
class RestructuredTextParser(TextFileParser):
    """reStructuredText: titles become Markdown headings, code blocks fences, roles their text.

    Substitutions and admonitions are what a reader sees. Comments, link targets and options are
    left out, and directives that show nothing of the file (contents, toctree, index, raw, …).
    """

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="rst/4", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".rst", ".rest")), init=False)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The text as Markdown; locators are the lines of the file."""
        text = decoded.text.removeprefix("\ufeff")
        lines = [line.rstrip() for line in re.split(r"\r\n?|\n", text.expandtabs(8))]
        builder = ContentBuilder(name, self.limits.max_characters)
        reading = _Reading(lines)
        for number, block, counted in timed(reading.blocks(lines), name, self.limits.seconds):
            builder.add(block, "line", number, counted=counted)
        return builder.parsed(
            self.signature, notes=decoded.notes, omissions=_omissions(lines, builder.content)
        )


class _Reading:
    """Reads the lines of one file; the titles in a directive have levels of their own."""

    def __init__(self, lines: list[str]) -> None:
        self.replacements: dict[str, str] = {}
        for at, line in enumerate(lines):
            if found := _SUBSTITUTION.match(line.lstrip()):
                end = _indented_end(lines, at + 1, _indent(line) + 1)
                self.replacements[found[1].strip()] = _replacement(found, lines[at + 1 : end])[
                    :_LONGEST
                ]

    def blocks(self, lines: list[str], depth: int = 0) -> Iterator[tuple[int, str, bool]]:
        """Each block's first line, from 1, its Markdown, and whether its lines are the file's."""
        levels: list[str] = []
        at = 0
        while at < len(lines):
            line = lines[at]
            indent = _indent(line)
            if not line:
                at += 1
                continue
            title = _title(lines, at)
            if title is not None:
                text, style, title_at, at = title
                if style not in levels:
                    levels.append(style)
                level = min(levels.index(style) + 1, _MAX_LEVEL)
                yield title_at + 1, f"{'#' * level} {self.inline(text.strip())}", True
            elif line[indent : indent + 3] in ("..", ".. ") and depth < _MAX_DEPTH:
                end = _indented_end(lines, at + 1, indent + 1)
                if line[indent:] == ".." and at + 1 < len(lines) and not lines[at + 1]:
                    end = at + 1  # an empty comment: what follows is text
                block = [line[indent:], *(each[indent:] for each in lines[at + 1 : end])]
                for number, text, counted in self.explicit(block, depth):
                    yield at + number, text, counted
                at = end
            else:
                end = at
                while end < len(lines) and lines[end] and not (end > at and _title(lines, end)):
                    end += 1
                yield at + 1, self.paragraph(lines[at:end]), True
                at = end
                if lines[end - 1].endswith("::"):
                    start = _next_text(lines, end)
                    outer = _literal_indent(lines[end - 1])
                    if start < len(lines) and _indent(lines[start]) > outer:
                        at = _indented_end(lines, start, outer + 1)
                        yield start, _fenced(lines[start:at], ""), True

    def explicit(self, lines: list[str], depth: int) -> Iterator[tuple[int, str, bool]]:
        """A directive or footnote with what is indented under it; nothing for a comment."""
        note = _NOTE.match(lines[0])
        found = note or _DIRECTIVE.match(lines[0])
        if found is None:
            return  # a comment, a link's target, or a substitution
        name = "" if note else found[1].lower().rsplit(":", 1)[-1]
        if name in _DROPPED:
            return
        argument = (found[found.re.groups] or "").strip()
        shown = [_ADMONITIONS.get(name, ""), "" if name in _CODE or name == "toctree" else argument]
        start = 1
        while start < len(lines) and (option := _OPTION.match(lines[start])):
            start += 1
            if option[1] in _SHOWN_OPTIONS:
                shown.append(option[2] or "")
        if name == "toctree":
            shown += [found[1].strip() for found in map(_ENTRY.match, lines[start:]) if found]
        yield 1, markdown_safe(self.inline(" ".join(filter(None, shown)))), False
        if name in _CODE:
            body = _next_text(lines, start)
            if body < len(lines):
                yield body, _fenced(lines[body:], argument), True
        if name in _CODE or name == "toctree":
            return
        inner = lines[start:]
        least = min((_indent(line) for line in inner if line), default=0)
        for number, block, counted in self.blocks([line[least:] for line in inner], depth + 1):
            yield start + number, block, counted

    def paragraph(self, lines: list[str]) -> str:
        """Its lines in the file's order, one for one."""
        text = "\n".join(lines)
        if text.endswith("::"):
            text = text[:-1].removesuffix(" :") if text.strip() != "::" else ""
        least = min(map(_indent, lines))
        return markdown_safe(self.inline("\n".join(line[least:] for line in text.split("\n"))))

    def inline(self, text: str) -> str:
        """``text`` with literals and roles as code or plain text, and substitutions replaced."""
        return _INLINE.sub(self._shown, text) if _SIGNS.search(text) else text

    def _shown(self, found: re.Match[str]) -> str:
        if (code := found["code"]) is not None:
            return found[0] if "`" in code else f"`{code}`"
        if (text := found["text"]) is not None:
            role = found["role"] or ""
            shown = _TARGET.sub("", text) or text.strip("<> ")
            shown = _NAMED_ROLES.get(role, "") + shown.lstrip("~!")
            return shown if role in _PLAIN_ROLES or role in _NAMED_ROLES else f"`{shown}`"
        if found["name"] is not None:
            return self.replacements.get(found["name"], found[0])
        # `name_` is a link, `__init__` is not.
        before = _NAME_BEFORE.search(found.string, max(0, found.start() - 100), found.start())
        return found[0] if before and before[0].startswith("_") else ""


def _replacement(found: re.Match[str], more: list[str]) -> str:
    """What a substitution stands for, on one line."""
    text = " ".join([found[3] or "", *more]).split()
    if found[2] == "image":
        options = filter(None, map(_OPTION.match, more))
        return next((each[2] or "" for each in options if each[1] == "alt"), "")[:_LONGEST]
    if found[2] != "unicode":
        return " ".join(text)[:_LONGEST]
    signs = []
    for each in text[: text.index("..") if ".." in text else None]:
        code = _UNICODE.fullmatch(each)
        number = int(code[1], 16) if code and code[1] else int(code[2]) if code else -1
        signs.append(chr(number) if 0 <= number < 0x110000 else each)
    return "".join(signs)[:_LONGEST]


def _title(lines: list[str], at: int) -> tuple[str, str, int, int] | None:
    """The title at this line: its text, its style, where it stands, and the line after it."""

    def adornment(place: int) -> str:
        line = lines[place] if place < len(lines) else ""
        return line if _ADORNMENT.fullmatch(line) and len(line) >= 2 else ""

    over = adornment(at)
    if over and at + 2 < len(lines) and adornment(at + 2)[:1] == over[0]:
        text = lines[at + 1]
        if text.strip() and not adornment(at + 1) and len(over) >= len(text.strip()):
            return text, over[0] * 2, at + 1, at + 3
    text, under = lines[at], adornment(at + 1)
    plain = text.strip() and text[0] != " " and not over
    # docutils asks for the title's length, and accepts four with a warning.
    if under and plain and len(under) >= min(len(text), 4):
        return text, under[0], at, at + 2
    return None


def _literal_indent(line: str) -> int:
    """The indent that a literal block under ``line`` exceeds."""
    bullet = _BULLET.match(line)
    return bullet.end() if bullet else _indent(line)


def _fenced(lines: list[str], language: str) -> str:
    least = min((_indent(line) for line in lines if line.strip()), default=0)
    code = "\n".join(line[least:] for line in lines).rstrip()
    word = language.split()[0] if language else ""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(code)), default=0))
    return f"{fence}{word}\n{code}\n{fence}"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _next_text(lines: list[str], at: int) -> int:
    while at < len(lines) and not lines[at].strip():
        at += 1
    return at


def _indented_end(lines: list[str], at: int, least: int) -> int:
    """The line after those that are blank or indented by ``least``; blank ones at the end not."""
    end = at
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at]) >= least):
        at += 1
        if lines[at - 1].strip():
            end = at
    return end


def _omissions(lines: list[str], content: str) -> list[Omission]:
    """The words that a reader of the file sees, and ``content`` lacks."""
    raw, shown = _plain_reading(lines)
    # Most lines are unchanged, and only the words of the others are compared.
    left = Counter(map(str.strip, content.split("\n")))
    for number, text in list(shown.items()):
        if left.get(text):
            left[text] -= 1
            del shown[number]
    witness = Witness("\n".join(left.elements()))
    found = [
        witness.omission(f"line {number}", without_tags(text), reason)
        for reason, texts in (("not understood", shown), ("raw directive", raw))
        for number, text in texts.items()
    ]
    return [each for each in found if each is not None]


def _plain_reading(lines: list[str]) -> tuple[dict[int, str], dict[int, str]]:
    """The text of raw directives, and all other text that is shown, by line.

    That is without the names of directives and roles, options, comments, targets and substitutions.
    """
    raw: dict[int, str] = {}
    shown: dict[int, str] = {}
    into: dict[int, str] | None = shown  # None: nothing of this block is shown
    outer, first, options = -1, 0, False
    for number, line in enumerate(lines, start=1):
        text = line.lstrip()
        indent = len(line) - len(text)
        if text and indent <= outer:
            into, outer = shown, -1
        if into is shown and (text == ".." or text.startswith(".. ")):
            directive = _DIRECTIVE.match(text)
            name = directive[1] if directive else ""
            if name == "raw" or name in _HIDDEN or not (directive or _NOTE.match(text)):
                into, outer, first, text = raw if name == "raw" else None, indent, number, ""
            elif directive:
                text = "" if name in _CODE else directive[2] or ""
            options = True
        elif options and (option := _OPTION.match(text)):
            text = option[2] or "" if option[1] in _SHOWN_OPTIONS else ""
        else:
            options = False
        if text and into is raw:
            raw[first] = f"{raw.get(first, '')}{text}\n"
        elif text and into is not None:
            shown[number] = _MARKUP.sub(" ", text) if _SIGNS.search(text) else text
    return raw, shown
