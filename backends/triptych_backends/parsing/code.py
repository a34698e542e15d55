"""Source code: kept as it is, its definitions found by tree-sitter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

import attrs

from triptych.chunking.outline import Locator, Part
from triptych.parsing.decoding import decode_text
from triptych.parsing.parsed import Decode, ParsedFile
from triptych_backends.parsing.languages import ENDINGS, LANGUAGES, OTHER_ENDINGS, Language

__all__ = ["CodeParser", "has_definitions"]

_MOST_CHARACTERS = 4_000_000  # what is larger was written by a program, for programs
_MOST_PARTS = 20_000
_DEEPEST = 64
_SECONDS = 10.0
_TITLE = 120
_PIECE = 1 << 16


@attrs.frozen(kw_only=True)
class CodeParser:
    """Python, Go, JavaScript, TypeScript, Java, Rust, C and C++ by definitions; others as text.

    A chunk holds no more than one function or method, with the comment before it, and its
    heading path names the class or module and the function. Without tree-sitter (the extra
    ``code``), and for files that it cannot read in time, the text is cut as any other, which a
    note tells.
    """

    decode: Decode = decode_text
    endings: frozenset[str] = attrs.field(default=frozenset(ENDINGS) | OTHER_ENDINGS, init=False)

    @property
    def signature(self) -> str:
        """The parser's version, and whether it can find definitions."""
        return "code/1" if _is_installed() else "code/1 plain"

    def recognises(self, data: bytes) -> bool:
        """Never: a name must say so."""
        return False

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        """The text as it is; locators are its lines, headings its definitions."""
        decoded = self.decode(data, name)
        if decoded is None:
            return None
        text = decoded.text
        language = LANGUAGES.get(ENDINGS.get(PurePosixPath(name).suffix.lower(), ""))
        parts: Sequence[Part] = ()
        signature, notes = "code/1 plain", list(decoded.notes)
        if language is not None:
            found = _definitions(text, language)
            if isinstance(found, str):
                notes.append(f"{name!r} is cut as plain text, not by definitions: {found}")
            else:
                parts, signature = found, f"code/1 {language.name}"
        locator = Locator(start=0, end=len(text), unit="line", number=1, counted=True)
        return ParsedFile(
            content=text,
            metadata={"kind": "code"},
            parser_sig=signature,
            locators=(locator,) if text else (),
            parts=tuple(parts),
            notes=tuple(notes),
        )


def _definitions(text: str, language: Language) -> list[Part] | str:
    """The definitions in ``text``, outermost first, or why there are none."""
    import time

    if len(text) > _MOST_CHARACTERS:
        return f"it has more than {_MOST_CHARACTERS:,} characters"
    try:
        parser = _parser(language.name)
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed, pip install 'triptych[code]'"
    end = time.monotonic() + _SECONDS
    data = text.encode("utf-8")

    def piece(at: int, _: object) -> bytes:
        # Of bytes as a whole the library takes no callback that stops it.
        return data[at : at + _PIECE]

    def is_late(*_: object) -> bool:
        return time.monotonic() > end

    try:
        tree = parser.parse(piece, progress_callback=is_late)
    except ValueError:
        return f"reading it takes more than {_SECONDS:g} seconds"
    spans = list(islice(_walk(tree.root_node, data, language), _MOST_PARTS))
    points = _code_points(text, data, spans)
    return [
        Part(start=points[start], end=points[stop], depth=depth, title=title)
        for start, stop, depth, title in spans
    ]


def has_definitions(ending: str) -> bool:
    """Whether definitions are found in files of this ending, by what is installed."""
    return ending in ENDINGS and _is_installed()


def _is_installed() -> bool:
    try:
        return find_spec("tree_sitter") is not None
    except ValueError:  # it is shut out, as in sys.modules
        return False


@cache
def _loaded(name: str) -> Any:
    from importlib import import_module

    from tree_sitter import Language as Grammar

    language = LANGUAGES[name]
    return Grammar(getattr(import_module(language.module), language.function)())


def _parser(name: str) -> Any:
    # One a call: a parser is not to be shared between threads.
    from tree_sitter import Parser

    return Parser(_loaded(name))


def _walk(root: Any, data: bytes, language: Language) -> Iterator[tuple[int, int, int, str]]:
    """Start, end (bytes), depth and title of each definition, in the order of the text."""
    # What is still to be looked at, last first: a node, its depth, and what is wrapped around it.
    waiting = [(child, 0, None) for child in reversed(root.children)]
    ends: list[int] = []
    floor = 0
    while waiting:
        node, depth, outer = waiting.pop()
        kind = node.type
        if kind in language.wrappers and depth <= _DEEPEST:
            around = outer or node
            waiting += [(child, depth, around) for child in reversed(node.children)]
            continue
        title = _title(node, data, language) if kind in language.definitions else ""
        if title:
            while len(ends) > depth:
                floor = max(floor, ends.pop())
            whole = outer or node
            start, end = max(_with_comments(whole, language), floor), whole.end_byte
            # Those of one line, such as an alias of a type, stay with their neighbours.
            lines = node.end_point[0] > node.start_point[0] or kind in language.holders
            if lines and start < end <= (ends[-1] if ends else len(data)):
                yield start, end, depth, title
                ends.append(end)
                floor = start
                depth += 1
        if depth <= _DEEPEST and (kind in language.holders or kind in language.bodies):
            waiting += [(child, depth, None) for child in reversed(node.children)]


def _title(node: Any, data: bytes, language: Language) -> str:
    """What a definition is called, "" for what has no name."""
    if node.type in language.whole_titles:
        body = node.child_by_field_name("body")
        end = node.end_byte if body is None else body.start_byte
        text = data[node.start_byte : end].decode("utf-8", "replace")
        return " ".join(text.split()).removesuffix("{").strip()[:_TITLE]
    named = node.child_by_field_name("name")
    if named is None:
        named = node.child_by_field_name("declarator")
        while named is not None and named.child_by_field_name("declarator") is not None:
            named = named.child_by_field_name("declarator")
    if named is None and node.type in language.inner_names:
        inner = [child for child in node.named_children if child.child_by_field_name("name")]
        if len(inner) != 1:
            return ""
        value = inner[0].child_by_field_name("value")
        if language.values and (value is None or value.type not in language.values):
            return ""
        named = inner[0].child_by_field_name("name")
    if named is None:
        return ""
    if node.type in language.needs_body and node.child_by_field_name("body") is None:
        return ""
    text = " ".join(_text(named, data).split())
    receiver = node.child_by_field_name("receiver")  # a method of Go's
    if receiver is not None:
        names = re.findall(r"\w+", _text(receiver, data))
        owner = names[1] if len(names) > 1 else "".join(names)
        text = f"{owner}.{text}"
    return text[:_TITLE]


def _text(node: Any, data: bytes) -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _with_comments(node: Any, language: Language) -> int:
    """Where a definition begins, the comments and attributes right above it included."""
    start: int = node.start_byte
    row = node.start_point[0]
    before = node.prev_sibling
    while before is not None and before.type in language.comments:
        earlier = before.prev_sibling
        follows_code = (
            earlier is not None
            and earlier.type not in language.comments
            and _last_row(earlier) == before.start_point[0]
        )
        if follows_code or _last_row(before) < row - 1:
            break
        start, row = before.start_byte, before.start_point[0]
        before = earlier
    return start


def _last_row(node: Any) -> int:
    # Some grammars count a line end as part of what stands before it.
    row, column = node.end_point
    return int(row) - int(column == 0)


def _code_points(
    text: str, data: bytes, spans: Sequence[tuple[int, int, int, str]]
) -> dict[int, int]:
    """The code point at each byte offset that ``spans`` name."""
    wanted = sorted({at for start, end, _, _ in spans for at in (start, end)})
    if len(text) == len(data):
        return {at: at for at in wanted}
    points: dict[int, int] = {}
    last = point = 0
    for at in wanted:
        point += len(data[last:at].decode("utf-8"))
        points[at] = point
        last = at
    return points
