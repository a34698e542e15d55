"""The layers of source files: their description, and an outline of their definitions."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from typing import Final

import attrs

from triptych.chunking.outline import Part
from triptych.layers.code_syntax import Syntax, code_patterns, masked
from triptych.layers.inline import clip, visible_text
from triptych.text.sentences import split_sentences
from triptych.text.tokens import estimate_tokens

_MOST_CHARACTERS: Final = 400_000
_MOST_DEFINITIONS: Final = 2_000
_LONGEST_HEADER: Final = 160
_LONGEST_COMMENT: Final = 8_000
_LONGEST_SIGNATURE: Final = 1_000
_COMMENT_MARKS: Final = re.compile(
    r"^[ \t]*(?:///?!?|//!|/?\*+!?/?|\#+!?|--)[ \t]?(?:#?(?:end)?region\b.*)?|\*+/[ \t]*$", re.M
)
# What comments at the top of a file say to lawyers and tools, and not of the file.
_NOTICE: Final = re.compile(
    r"copyright|licen[cs]e|spdx|all rights reserved|permission is hereby|\(c\) \d{4}|do not edit"
    r"|^[ \t]*+(?:eslint|prettier|jshint|globals?|@ts-|@flow|istanbul|go:|\+build|-\*-|vim?:"
    r"|clang-format|nolint|noqa|type:|pylint|mypy|ruff|coding[:=]|@jest-environment|usr/)",
    re.IGNORECASE | re.MULTILINE,
)
_TAG_WITH_TEXT: Final = re.compile(
    r"^[ \t]*[@\\](?:file(?:overview)?|brief|description|desc|summary|packageDocumentation)\b[ \t]*"
    r"(?:\w[\w./-]*\.\w{1,4}[ \t]*$)?",
    re.MULTILINE | re.IGNORECASE,
)
_TAG: Final = re.compile(r"^[ \t]*[@\\][A-Za-z]\w*", re.MULTILINE)
_INLINE_TAG: Final = re.compile(r"\{@\w+[ \t]+([^{}\n]*)\}")
_MARKS: Final = re.compile(r"[()\[\]{;:\n]")
_ATTRIBUTE: Final = re.compile(r"[ \t]*(?:@[\w.]+|#!?\[)")
_DOCSTRING: Final = re.compile(
    r"\s*[rRuU]?(?:\"\"\"(?P<a>(?:[^\"\\]|\\.|\"(?!\"\"))*+)\"\"\""
    r"|'''(?P<b>(?:[^'\\]|\\.|'(?!''))*+)'''|\"(?P<c>(?:[^\"\\\n]|\\.)+)\"|'(?P<d>(?:[^'\\\n]|\\.)+)')",
    re.DOTALL,
)


@attrs.frozen(kw_only=True)
class Definition:
    """A class, function or the like: its depth from 0, name, first line and comment ("").

    ``kind`` is the keyword that begins it, "" where none does.
    """

    depth: int
    name: str
    header: str
    kind: str
    is_type: bool
    is_public: bool
    comment: str


@attrs.frozen(kw_only=True)
class CodeOutline:
    """What a source file says of itself ("") and its definitions, in the order of the text."""

    comment: str
    definitions: tuple[Definition, ...]


def read_code(content: str, syntax: Syntax, parts: Sequence[Part] = ()) -> CodeOutline:
    """The outline of ``content``, of which the first 400,000 code points are read.

    ``parts`` are the definitions that a parser found; without any, patterns find them.
    """
    text = content.removeprefix("\ufeff")
    shift = len(content) - len(text)
    reader = _Reader(text[:_MOST_CHARACTERS], syntax)
    if parts:
        starts = [
            (max(part.start - shift, 0), part.depth, part.title)
            for part in parts
            if part.start < _MOST_CHARACTERS
        ]
        found = reader.defined_by(starts[:_MOST_DEFINITIONS])
    else:
        found = reader.defined_by_pattern()
    return CodeOutline(comment=reader.file_comment(), definitions=tuple(found))


class _Reader:
    def __init__(self, text: str, syntax: Syntax) -> None:
        self._text = text
        self._syntax = syntax
        self._masked, self._comments = masked(text, syntax)
        self._starts = [start for start, _ in self._comments]

    # Definitions

    def defined_by(self, starts: Sequence[tuple[int, int, str]]) -> list[Definition]:
        """The definitions that a parser found: where each starts, its depth and its title."""
        _, pattern = code_patterns(self._syntax)
        found = []
        for start, depth, title in starts:
            header = self._header_from(start)
            if header is None:
                continue
            match = pattern.match(self._masked, self._line_start(header))
            kind = _kind(match) if match else self._masked[header:].split(None, 1)[0]
            found.append(self._definition(header, depth, title, kind, match))
        return found

    def defined_by_pattern(self) -> list[Definition]:
        """The definitions that the patterns of the language find."""
        _, pattern = code_patterns(self._syntax)
        found: list[Definition] = []
        open_types: list[tuple[int, bool]] = []
        for match in islice(pattern.finditer(self._masked), _MOST_DEFINITIONS):
            name = _name(match)
            indent = len(match["indent"].expandtabs(4))
            while open_types and open_types[-1][0] >= indent:
                open_types.pop()
            # What stands in a function is its own affair; a method is named with its type.
            if any(not holds for _, holds in open_types):
                continue
            depth = len(open_types)
            kind = _kind(match)
            if not depth and indent and "method" in match.groupdict() and match["method"]:
                continue
            start = match.start() + len(match["indent"])
            found.append(self._definition(start, depth, name, kind, match))
            open_types.append((indent, kind.rstrip("*") in self._syntax.types))
        return found

    def _definition(
        self, start: int, depth: int, name: str, kind: str, match: re.Match[str] | None
    ) -> Definition:
        header, end = self._header(start)
        has_docstring = self._syntax.docstrings and self._masked[end : end + 1] == ":"
        comment = self._docstring(end + 1) if has_docstring else ""
        public = self._syntax.public
        is_public = re.match(public, name) is not None if public else True
        if match is not None and "public" in match.groupdict():
            is_public = match["public"] is not None
        return Definition(
            depth=depth,
            name=name,
            header=header,
            kind=kind,
            is_type=kind in self._syntax.types,
            is_public=is_public,
            comment=comment or self._comment_above(start),
        )

    def _header_from(self, start: int) -> int | None:
        """Where the definition that begins at ``start`` has its first line, comments apart."""
        at = start
        while at < len(self._masked):
            end = self._masked.find("\n", at)
            end = len(self._masked) if end < 0 else end
            line = self._masked[at:end]
            if line.strip() and not _ATTRIBUTE.match(line):
                return at + len(line) - len(line.lstrip())
            at = end + 1
        return None

    def _header(self, start: int) -> tuple[str, int]:
        """The definition's first line without its body, and where that begins."""
        brackets = 0
        # After a docstring's owner stands a colon; where indents tell, a line is enough.
        ends = "{;" + (":" if self._syntax.docstrings else "\n" if self._syntax.by_indent else "")
        end = min(len(self._masked), start + _LONGEST_SIGNATURE)
        for mark in _MARKS.finditer(self._masked, start, end):
            at, character = mark.start(), mark[0]
            if character in "([":
                brackets += 1
            elif character in ")]":
                brackets -= 1
            elif brackets <= 0 and character in ends:
                end = at
                break
        text = " ".join(self._text[start:end].split()).rstrip(":{ ")
        text = re.sub(r"\(\s+", "(", re.sub(r"(?:(?<![\s,]),|(?<!\s))\s++\)", ")", text))
        if "=>" in text:
            text = text[: text.index("=>") + 2]  # what stands after is the body
        if len(text) > _LONGEST_HEADER:
            text = text[:_LONGEST_HEADER].rstrip() + "…"
        return text, end

    # Comments

    def file_comment(self) -> str:
        """What the file says of itself, "" where it says nothing."""
        syntax = self._syntax
        if syntax.docstrings:
            first = re.compile(r"\A(?:[ \t\r]*+(?:#[^\n]*+)?\n)*+").match(self._text)
            return self._docstring(first.end() if first else 0)
        if syntax.package:
            package = re.search(syntax.package, self._masked, re.MULTILINE)
            above = self._comment_above(package.start()) if package else ""
            return "" if _is_notice(above) else above
        first_code = len(self._masked) - len(self._masked.lstrip())
        for start, end in self._blocks(first_code):
            raw = self._text[start:end]
            if syntax.inner_doc and not re.match(syntax.inner_doc, raw):
                continue
            if raw.startswith("#!") and "\n" not in raw:
                continue
            if _is_notice(raw):
                continue
            # What touches the code is about what follows, unless it says that it is not.
            touches = self._text[end:first_code].count("\n") <= 1
            if touches and not syntax.inner_doc and not _TAG_WITH_TEXT.search(raw):
                continue
            return _prose(raw)
        return ""

    def _blocks(self, limit: int) -> list[tuple[int, int]]:
        """The comments before ``limit``, those on neighbouring lines as one."""
        blocks: list[tuple[int, int]] = []
        for start, end in self._comments:
            if start >= limit:
                break
            one_line = "\n" not in self._text[start:end]
            if blocks and one_line and self._text[blocks[-1][1] : start].count("\n") == 1:
                previous = self._text[blocks[-1][0] : blocks[-1][1]]
                if not previous.startswith(("/*", "#!/")):
                    blocks[-1] = (blocks[-1][0], end)
                    continue
            blocks.append((start, end))
        return blocks

    def _comment_above(self, start: int) -> str:
        """The comment that ends on the line before ``start``, attributes between them apart."""
        top = self._line_start(start)
        index = bisect_left(self._starts, top) - 1
        kept: list[str] = []
        while top > 0:
            line_start = self._line_start(top - 1)
            line = self._masked[line_start : top - 1]
            if _ATTRIBUTE.match(line):
                top = line_start
                continue
            if index < 0 or self._comments[index][1] < line_start or line.strip():
                break
            begin, end = self._comments[index]
            kept.append(self._text[begin:end][:_LONGEST_COMMENT])
            top = self._line_start(begin)
            index -= 1
            if kept[-1].startswith("/*"):
                break
        return _prose("\n".join(reversed(kept)))

    def _docstring(self, at: int) -> str:
        found = _DOCSTRING.match(self._text, at)
        if found is None:
            return ""
        text = next(value for value in found.groups() if value is not None)
        return _paragraphs(text)

    def _line_start(self, at: int) -> int:
        return self._masked.rfind("\n", 0, at) + 1


def _kind(match: re.Match[str]) -> str:
    groups = match.groupdict()
    if groups.get("type"):
        return "type"
    if groups.get("impl"):
        return "impl"
    return " ".join((groups.get("kind") or "").split()[:1])


def _name(match: re.Match[str]) -> str:
    groups = match.groupdict()
    name = next(
        value
        for key in ("name", "type_name", "value_name", "method", "impl")
        if (value := groups.get(key))
    )
    owner = groups.get("owner")
    return " ".join(f"{owner}.{name}".split() if owner else name.split())


def _is_notice(comment: str) -> bool:
    return _NOTICE.search(_COMMENT_MARKS.sub("", comment)) is not None


def _prose(comment: str) -> str:
    """``comment`` without its marks and tags."""
    text = _COMMENT_MARKS.sub("", comment)
    text = _TAG_WITH_TEXT.sub("", text)
    tag = _TAG.search(text)
    text = text[: tag.start()] if tag else text
    return _paragraphs(_INLINE_TAG.sub(r"\1", text))


def _paragraphs(text: str) -> str:
    """``text`` with each paragraph on one line, a blank line between them."""
    lines = [line.strip() for line in text.strip().splitlines()]
    paragraphs = "\n".join(lines).split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs if each.strip())


# Layers

_PROSE_SHARE: Final = 0.4
"""Of an overview, what the file's own words may take before there are definitions."""
_SHORT_SENTENCE_TOKENS: Final = 12
"""A first sentence below that says little: the second comes with it."""
_MOST_NAMES: Final = 12
_SENTENCE_TOKENS: Final = 40


def code_abstract(outline: CodeOutline, *, max_tokens: int) -> str:
    """The first sentence of what the file says of itself, else its classes and functions.

    The second sentence comes with a short first one. A file that has one definition or one class
    for others is described by its comment. "" where there is nothing.
    """
    if opening := _opening(outline.comment, max_tokens):
        return opening
    main = _public([each for each in outline.definitions if each.depth == 0])
    types = [each for each in main if each.is_type]
    classes = [each for each in types if each.kind == "class"]
    for only in (main, classes):
        if len(only) == 1 and (opening := _opening(only[0].comment, max_tokens)):
            return opening
    plain = "Class Classes" if len(classes) == len(types) else "Type Types"
    said: list[str] = []
    for words, names in (
        (plain, _names(types)),
        ("Function Functions", _names([each for each in main if not each.is_type])),
    ):
        if names:
            word = words.split()[len(names) > 1]
            said.append(f"{word.lower() if said else word} {_listed(names)}")
    return clip("; ".join(said) + ".", max_tokens) if said else ""


def code_overview(outline: CodeOutline, *, max_tokens: int) -> str:
    """The file's own words, then its definitions as a list, each with its first sentence.

    Definitions come in by depth, public ones first, as long as there is room; a last line counts
    those that found none.
    """
    prose: list[str] = []
    room = int(max_tokens * _PROSE_SHARE)
    for paragraph in outline.comment.split("\n\n"):
        text = visible_text(paragraph)
        cost = estimate_tokens(text + "\n\n")
        if not text or cost > room:
            break
        prose.append(text)
        room -= cost
    if not prose and outline.comment:
        prose = [clip(visible_text(outline.comment.split("\n\n")[0]), room)]
    left = max_tokens - estimate_tokens("\n\n".join(prose)) - _cost("- and 1000 more")
    order = sorted(
        range(len(outline.definitions)),
        key=lambda at: (outline.definitions[at].depth, not outline.definitions[at].is_public, at),
    )
    lines: dict[int, str] = {}
    for at in order:
        line = _line(outline.definitions[at])
        if (cost := _cost(line)) > left:
            break
        lines[at] = line
        left -= cost
    listed = [lines[at] for at in sorted(lines)]
    missing = len(outline.definitions) - len(listed)
    if missing and listed:
        listed.append(f"- and {missing} more")
    return "\n\n".join([*prose, *(["\n".join(listed)] if listed else [])])


def _opening(comment: str, max_tokens: int) -> str:
    """The first sentence, and the second with a short one, of at most ``max_tokens``."""
    sentences = [
        sentence
        for paragraph in comment.split("\n\n")[:2]
        for sentence in split_sentences(visible_text(paragraph))
    ]
    if not sentences:
        return ""
    text = sentences[0]
    if len(sentences) > 1 and estimate_tokens(text) < _SHORT_SENTENCE_TOKENS:
        longer = f"{text} {sentences[1]}"
        text = longer if estimate_tokens(longer) <= max_tokens else text
    return clip(text, max_tokens)


def _first_sentence(comment: str) -> str:
    sentences = split_sentences(visible_text(comment.split("\n\n")[0]))
    return clip(sentences[0], _SENTENCE_TOKENS) if sentences else ""


def _public(definitions: Sequence[Definition]) -> list[Definition]:
    """Those that others use; where there are none, all."""
    return [each for each in definitions if each.is_public] or list(definitions)


def _names(definitions: Sequence[Definition]) -> list[str]:
    return list(dict.fromkeys(each.name for each in definitions))


def _listed(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[: _MOST_NAMES - 1])} and {len(names) - _MOST_NAMES + 1} more"
    return " and ".join([*([", ".join(names[:-1])] if names[:-1] else []), names[-1]])


def _line(definition: Definition) -> str:
    said = _first_sentence(definition.comment)
    header = definition.header.replace("`", "'")
    return f"{'  ' * definition.depth}- `{header}`" + (f": {said}" if said else "")


def _cost(line: str) -> int:
    return estimate_tokens(line + "\n")
