"""Ignore files and their patterns (gitignore(5)), matched byte by byte, as Git does.

Each pattern becomes a regular expression that runs in polynomial time. A run of tokens between two
stars has a fixed length, so its leftmost match is as good as any other; an atomic group keeps that
match and never returns to it. The same holds for the folders between two ``**``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

import attrs

from triptych import deadlines
from triptych.errors import ValidationError
from triptych.scan import Folder, Tree

_LONGEST = 32_767
"""Bytes of the longest path of any system: a pattern with more tokens matches nothing."""

_AT_ONCE = 64
"""Patterns that are tried between two looks at the deadline."""

_ANY = rb"[^/]"
_STARS = (b"*", b"**")
_BACKSLASH, _DASH, _CLOSE = b"\\-]"
_ASCII = bytes(range(128)).decode("ascii")
_CLASSES = {
    b"alnum": str.isalnum,
    b"alpha": str.isalpha,
    b"blank": " \t".__contains__,
    b"cntrl": lambda each: not each.isprintable(),
    b"digit": str.isdigit,
    b"graph": lambda each: each.isprintable() and each != " ",
    b"lower": str.islower,
    b"print": str.isprintable,
    b"punct": lambda each: each.isprintable() and not each.isalnum() and each != " ",
    b"space": " \t\r\n".__contains__,
    b"upper": str.isupper,
    b"xdigit": "0123456789abcdefABCDEF".__contains__,
}
"""Git's classes, in which only ASCII is."""


@attrs.frozen(slots=True)
class Pattern:
    """One line of a ``.gitignore``.

    Attributes:
        negated: begins with ``!``: what it matches is not ignored.
        folders_only: ends in a slash.
        by_name: has no other slash: matched against the last part of a path.
        regex: what is matched, to its end.
    """

    negated: bool
    folders_only: bool
    by_name: bool
    regex: re.Pattern[bytes]


@attrs.frozen(slots=True)
class Patterns:
    """A list of patterns, the last one first."""

    reverse: Sequence[Pattern] = ()

    @classmethod
    def of(cls, patterns: Iterable[Pattern]) -> Patterns:
        """``patterns``, in the order of their file."""
        return cls(tuple(patterns)[::-1])

    def verdict(self, path: bytes, *, folder: bool) -> bool | None:
        """What the last pattern that matches ``path`` itself says; None when none matches.

        True is for a plain pattern, False for a negated one. What matches a folder above is not
        considered.
        """
        name = path[path.rfind(b"/") + 1 :]
        for start in range(0, len(self.reverse), _AT_ONCE):
            deadlines.check("matching patterns")
            for each in self.reverse[start : start + _AT_ONCE]:
                if each.folders_only and not folder:
                    continue
                if each.regex.match(name if each.by_name else path) is not None:
                    return not each.negated
        return None

    def covers(self, relative: str) -> bool:
        """Whether the patterns match a file or a folder that it lies in; the nearest decides."""
        path = os.fsencode(relative)
        verdict = self.verdict(path, folder=False)
        while verdict is None and b"/" in path:
            path = path[: path.rindex(b"/")]
            verdict = self.verdict(path, folder=True)
        return verdict is True


def compile_patterns(patterns: Sequence[str]) -> Patterns:
    """The patterns of an option.

    Raises:
        ValidationError: nothing can match one of them, because it is empty, for example: as the
            only one to include, it would leave out, and delete, everything.
    """
    found = []
    for pattern in patterns:
        parsed = parse_pattern(os.fsencode(pattern))
        if parsed is None:
            raise ValidationError(
                f"{pattern!r} is not a valid pattern: it is empty, a comment, has "
                "an open bracket, or ends in a backslash"
            )
        found.append(parsed)
    return Patterns.of(found)


def parse_pattern(line: bytes) -> Pattern | None:
    """A line without its end; None when it is empty or a comment, or when nothing matches it."""
    if line.startswith(b"#"):
        return None
    line = _without_trailing_spaces(line.partition(b"\0")[0])
    negated = line.startswith(b"!")
    body = line[1:] if negated else line
    folders_only = body.endswith(b"/")
    if folders_only:
        body = body[:-1]
    by_name = b"/" not in body
    segments = _segments(body if by_name else body.removeprefix(b"/"))
    if segments is None or not all(segments) or sum(map(len, segments)) > _LONGEST:
        return None
    source = _segment(segments[0]) if by_name else _path(segments)
    return Pattern(negated, folders_only, by_name, re.compile(source + rb"\Z", re.DOTALL))


def _without_trailing_spaces(line: bytes) -> bytes:
    bare = line.rstrip(b" ")
    # After an odd number of backslashes, the first space is escaped.
    if bare != line and (len(bare) - len(bare.rstrip(b"\\"))) % 2:
        return bare + b" "
    return bare


# From a pattern to tokens: a star, or what matches one byte.


def _segments(body: bytes) -> list[list[bytes]] | None:
    """The tokens between slashes; None when nothing can match."""
    segments: list[list[bytes]] = [[]]
    at = 0
    while at < len(body):
        byte, at = body[at : at + 1], at + 1
        if byte == b"*":
            start = at
            while body[at : at + 1] == b"*":
                at += 1
            segments[-1].append(_STARS[at > start])
        elif byte == b"?":
            segments[-1].append(_ANY)
        elif byte == b"[":
            found = _bracket(body, at)
            if found is None:
                return None
            token, at = found
            segments[-1].append(token)
        else:
            if byte == b"\\":
                byte, at = body[at : at + 1], at + 1
                if not byte:
                    return None
            if byte == b"/":
                segments.append([])
            else:
                segments[-1].append(_one_of({ord(byte)}))
    return segments


def _bracket(body: bytes, at: int) -> tuple[bytes, int] | None:
    """The token of a bracket expression whose inside begins at ``at``, and where it ends; None
    when it has no end, names an unknown class, or no byte but a slash is in it."""
    negated = body[at : at + 1] in (b"!", b"^")
    at += negated
    members: set[int] = set()
    start, close = at, -1
    before: int | None = None  # what a range may begin with
    while at < len(body) and (body[at] != _CLOSE or at == start):
        byte = body[at]
        if byte == _DASH and before is not None and body[at + 1 : at + 2] not in (b"", b"]"):
            at += 1 + (body[at + 1] == _BACKSLASH)
            members.update(range(before, body[at] + 1) if at < len(body) else ())
            before = None
        elif body.startswith(b"[:", at):
            if close < at + 2:
                close = body.find(b"]", at + 2)
            if close < 0:
                return None
            if close > at + 2 and body[close - 1 : close] == b":":
                member = _CLASSES.get(body[at + 2 : close - 1])
                if member is None:
                    return None
                members.update(map(ord, filter(member, _ASCII)))
                before, at = None, close
            else:
                members.add(byte)
                before = byte
        else:
            at += byte == _BACKSLASH
            before = body[at] if at < len(body) else None
            members.add(before or 0)
        at += 1
    if at >= len(body):
        return None
    if negated:
        members = set(range(1, 256)) - members
    members -= {ord("/")}
    return (_one_of(members), at + 1) if members else None


def _one_of(members: set[int]) -> bytes:
    codes = b"".join(rb"\x%02x" % each for each in sorted(members))
    return codes if len(members) == 1 else b"[" + codes + b"]"


# From tokens to a regular expression.


def _segment(tokens: list[bytes]) -> bytes:
    runs = [b""]
    for token in tokens:
        if token in _STARS:
            runs.append(b"")
        else:
            runs[-1] += token
    if len(runs) == 1:
        return runs[0]
    first, *middle, last = runs
    return first + b"".join(rb"(?>[^/]*?%b)" % run for run in middle) + rb"[^/]*" + last


def _path(segments: list[list[bytes]]) -> bytes:
    """``**`` as a whole segment stands for any number of folders; at the end, for anything."""
    groups: list[list[bytes]] = [[]]
    for tokens in segments:
        if tokens == [b"**"]:
            groups.append([])
        else:
            groups[-1].append(_segment(tokens))
    first, *others = [b"/".join(group) for group in groups]
    if not others:
        return first
    *middle, last = others
    source = first + b"/" if first else b""
    source += b"".join(rb"(?>(?:[^/]+/)*?%b/)" % group for group in middle if group)
    return source + (rb"(?:[^/]+/)*?%b" % last if last else rb".+")


IGNORE_FILES = (".gitignore", ".triptychignore")
"""Later files win over earlier ones of the same folder."""

_MOST = 1024 * 1024
"""Bytes of an ignore file that are read."""

_MARK = b"\xef\xbb\xbf"


@attrs.frozen(slots=True)
class _Level:
    """One folder's patterns; ``strip`` is the length of its path from the top, with a slash."""

    strip: int
    patterns: Patterns


@attrs.frozen(slots=True)
class IgnoreStack:
    """The ignore files in force in one folder, outermost first.

    ``lead`` is the path of the synced root from the top of its work tree, with a slash after, or
    "" where there is none.
    """

    levels: tuple[_Level, ...] = ()
    lead: str = ""

    def entered(self, relative: str, folder: Folder) -> IgnoreStack:
        """The stack inside ``folder``, whose path from the root is ``relative``, "" for the root.

        Raises:
            OSError: an ignore file is there and cannot be read.
        """
        patterns = _read(folder)
        if not patterns.reverse:
            return self
        strip = len(os.fsencode(self.lead + relative)) + bool(relative)
        return attrs.evolve(self, levels=(*self.levels, _Level(strip, patterns)))

    def verdict(self, relative: str, *, folder: bool = False) -> bool | None:
        """Whether the file or folder is ignored (True) or a negated pattern keeps it (False);
        None when no pattern matches. The folders it lies in are not considered."""
        path = os.fsencode(self.lead + relative)
        for level in reversed(self.levels):
            found = level.patterns.verdict(path[level.strip :], folder=folder)
            if found is not None:
                return found
        return None


def ignore_stack(root: str) -> IgnoreStack:
    """What holds in ``root`` before its own ignore files: those above it, in a git work tree.

    A root that is itself ignored there was named all the same: nothing above it counts then.

    Raises:
        OSError: an ignore file is there and cannot be read.
    """
    above: list[str] = []
    top = root
    while not os.path.lexists(os.path.join(top, ".git")):
        top, before = os.path.dirname(top), top
        if top == before:
            return IgnoreStack()  # no work tree
        above.append(os.path.basename(before))
    stack, relative, path = IgnoreStack(), "", top
    for name in reversed(above):
        with Tree.of(path) as tree, tree.folder(()) as folder:
            stack = stack.entered(relative, folder)
        relative, path = f"{relative}/{name}" if relative else name, os.path.join(path, name)
        if stack.verdict(relative, folder=True):
            return IgnoreStack()
    return attrs.evolve(stack, lead=f"{relative}/" if relative else "")


def _read(folder: Folder) -> Patterns:
    # A link could lead out of the root, and Git does not follow one here either.
    found = [folder.head(name, _MOST) for name in IGNORE_FILES]
    return Patterns.of(pattern for data in found if data for pattern in _parsed(data))


def _parsed(data: bytes) -> Iterator[Pattern]:
    for line in data.removeprefix(_MARK).split(b"\n"):
        deadlines.check("reading ignore files")
        pattern = parse_pattern(line.removesuffix(b"\r"))
        if pattern is not None:
            yield pattern
