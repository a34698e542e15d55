"""Converting reStructuredText to Markdown line by line."""

from __future__ import annotations

import re
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

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*[ \t]*")
_DIRECTIVE = re.compile(r"\.\.[ \t]+(?:\|[^|]+\|[ \t]+)?([\w:.+-]+?)::(?:[ \t]+(.*))?")
_NOTE = re.compile(r"\.\.[ \t]+\[[^\]]+\](?:[ \t]+(.*))?")
_OPTION = re.compile(r"[ \t]*:[\w-]+:")
# Roles, :py:func:`~os.path.join` and :ref:`text <target>`, become their text as code or plain.
_ROLE = re.compile(r":(?:[a-zA-Z][\w+.-]*:)?([a-zA-Z][\w-]*):`([^`\n]{1,300})`")
_LINK = re.compile(r"`([^`<>\n]{1,300}?)[ \t]*<[^`<>\n]{1,500}>`__?")
_PLAIN_ROLES = frozenset(("doc", "ref", "term", "numref", "any", "abbr", "title-reference"))
_CODE = frozenset(("code", "code-block", "sourcecode", "highlight", "parsed-literal"))
_DROPPED = frozenset(
    ("contents", "include", "index", "meta", "only-raw", "raw", "sectnum", "toctree")
)
_MAX_LEVEL = 6


@attrs.frozen(kw_only=True)
class RestructuredTextParser(TextFileParser):
    """reStructuredText: titles become Markdown headings, code blocks fences, roles their text.

    Directives without readable text (contents, toctree, index, raw, …), comments and link targets
    are left out; other directives and footnotes keep their argument and text.
    """

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    signature: str = attrs.field(default="rst/3", init=False)
    endings: frozenset[str] = attrs.field(default=frozenset((".rst", ".rest")), init=False)

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The text as Markdown; locators are the lines of the file."""
        text = decoded.text.removeprefix("\ufeff")
        lines = [line.rstrip() for line in re.split(r"\r\n?|\n", text.expandtabs(8))]
        builder = ContentBuilder(name, self.limits.max_characters)
        for number, block, counted in timed(_blocks(lines), name, self.limits.seconds):
            builder.add(block, "line", number, counted=counted)
        return builder.parsed(self.signature, notes=decoded.notes)


def _blocks(lines: list[str]) -> Iterator[tuple[int, str, bool]]:
    """Each block's first line, from 1, its Markdown, and whether its lines are the file's."""
    levels: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
            continue
        title = _title(lines, at)
        if title is not None:
            text, style, title_at, at = title
            if style not in levels:
                levels.append(style)
            level = min(levels.index(style) + 1, _MAX_LEVEL)
            yield title_at + 1, f"{'#' * level} {_inline(text.strip())}", True
        elif line.startswith("..") and line[2:3] in ("", " "):
            end = _indented_end(lines, at + 1, 1)
            yield from _explicit(lines, at, end)
            at = end
        else:
            end = at
            while end < len(lines) and lines[end].strip() and not (end > at and _title(lines, end)):
                end += 1
            yield from _paragraph(lines, at, end)
            if lines[end - 1].endswith("::"):
                indent = _indent(line)
                start = _next_text(lines, end)
                if start < len(lines) and _indent(lines[start]) > indent:
                    after = _indented_end(lines, start, indent + 1)
                    yield start, _fenced(lines[start:after], ""), True
                    end = after
            at = end


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


def _explicit(lines: list[str], at: int, end: int) -> Iterator[tuple[int, str, bool]]:
    """A directive, footnote, target or comment with what is indented under it."""
    note = _NOTE.match(lines[at])
    found = note or _DIRECTIVE.match(lines[at])
    if found is None:
        return  # a comment, or a link's target: nothing to read
    name, argument = "" if note else found[1].lower(), (found[found.re.groups] or "").strip()
    if name.rsplit(":", 1)[-1] in _DROPPED:
        return
    start = at + 1
    while start < end and _OPTION.match(lines[start]):
        start += 1
    if name in _CODE:
        body = _next_text(lines, start)
        if body < end:
            yield body, _fenced(lines[body:end], argument), True
        return
    if argument:
        yield at + 1, markdown_safe(_inline(argument)), False
    inner = lines[start:end]
    least = min((_indent(line) for line in inner if line.strip()), default=0)
    for number, block, counted in _blocks([line[least:] for line in inner]):
        yield start + number, block, counted


def _paragraph(lines: list[str], at: int, end: int) -> Iterator[tuple[int, str, bool]]:
    """Its lines in the file's order, one for one."""
    text = "\n".join(lines[at:end])
    if text.endswith("::"):
        text = text[:-1].removesuffix(" :") if text != "::" else ""
    least = min(_indent(line) for line in lines[at:end])
    text = "\n".join(line[least:] for line in text.split("\n"))
    yield at + 1, markdown_safe(_inline(text)), True


def _fenced(lines: list[str], language: str) -> str:
    least = min((_indent(line) for line in lines if line.strip()), default=0)
    code = "\n".join(line[least:] for line in lines).rstrip()
    word = language.split()[0] if language else ""
    return f"```{word}\n{code}\n```"


def _inline(text: str) -> str:
    if "`" not in text:
        return text

    def role(found: re.Match[str]) -> str:
        shown = found[2].split(" <")[0].lstrip("~!")
        return shown if found[1] in _PLAIN_ROLES else f"`{shown}`"

    return _LINK.sub(r"\1", _ROLE.sub(role, text)).replace("``", "`")


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
