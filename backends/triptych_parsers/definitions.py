"""The definitions in a source file, by tree-sitter; also a program that finds them.

Recovering from text that is not code can take tree-sitter time that grows with the square of the
text, which a caller in this process cannot always stop. So long files are read in a process of
their own: it runs this module, which needs nothing but tree-sitter, and can be killed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triptych_parsers.languages import Language

Definition = tuple[int, int, int, str]
"""Start and end (code points), depth and title."""

_MOST_PARTS = 20_000
_DEEPEST = 64
_TITLE = 120
_PIECE = 256
"""Bytes that tree-sitter is given at a time; it can be stopped wherever it asks for more."""
_IDLE_SECONDS = 60.0


class TooSlowError(Exception):
    """The time is over."""


def definitions(data: bytes, language: Language, end: float) -> list[Definition]:
    """The definitions in ``data`` (UTF-8), outermost first; ``end`` is when `time.monotonic` stops.

    Raises:
        TooSlowError: it took longer.
        ModuleNotFoundError: tree-sitter or the grammar is missing.
    """
    from tree_sitter import Parser

    # One a call: a parser is not to be shared between threads.
    parser = Parser(_loaded(language.module, language.function))

    def is_late(*_: object) -> bool:
        return time.monotonic() > end

    def piece(at: int, _: object) -> bytes:
        # While it recovers from an error it asks for text, and does not report its progress.
        return b"" if is_late() else data[at : at + _PIECE]

    try:
        tree = parser.parse(piece, progress_callback=is_late)
    except ValueError:
        raise TooSlowError from None
    found = []
    if not is_late():
        for each in islice(_walk(tree.root_node, data, language), _MOST_PARTS):
            found.append(each)
            if is_late():
                break
    if is_late():
        raise TooSlowError
    points = _code_points(data, found)
    return [(points[start], points[stop], depth, title) for start, stop, depth, title in found]


@cache
def _loaded(module: str, function: str) -> Any:
    import tree_sitter

    return tree_sitter.Language(getattr(import_module(module), function)())


def _walk(root: Any, data: bytes, language: Language) -> Iterator[Definition]:
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


def _code_points(data: bytes, spans: Sequence[Definition]) -> dict[int, int]:
    """The code point at each byte offset that ``spans`` name."""
    wanted = sorted({at for start, end, _, _ in spans for at in (start, end)})
    if data.isascii():
        return {at: at for at in wanted}
    points: dict[int, int] = {}
    last = point = 0
    for at in wanted:
        point += len(data[last:at].decode("utf-8"))
        points[at] = point
        last = at
    return points


def main() -> None:
    """Answer requests until standard input ends, or none has come for a while.

    A request is a line of JSON, its ``size`` bytes of text after it; an answer is a line of JSON.
    """
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not an answer
    _hold_to(int(sys.argv[1]))
    languages: dict[str, Any] = {}  # each with the fields of a `Language`
    while True:
        idle = threading.Timer(_IDLE_SECONDS, os._exit, (0,))
        idle.daemon = True
        idle.start()
        line = requests.readline()
        idle.cancel()
        if not line:
            os._exit(0)
        asked = json.loads(line)
        data = requests.read(asked["size"])
        fields = asked["language"]
        sets = {key: frozenset(each) for key, each in fields.items() if isinstance(each, list)}
        language = languages.setdefault(fields["name"], SimpleNamespace(**{**fields, **sets}))
        answer = _answer(data, language, asked["seconds"])
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _answer(data: bytes, language: Language, seconds: float) -> dict[str, Any]:
    try:
        return {"found": definitions(data, language, time.monotonic() + seconds)}
    except TooSlowError:
        return {"late": True}
    except ModuleNotFoundError as error:
        return {"missing": error.name or "a library"}
    except MemoryError:
        return {"failed": "reading it needs too much memory"}
    except Exception as error:  # noqa: BLE001 - a library may fail in any way
        return {"failed": f"it cannot be read ({type(error).__name__})"}


def _hold_to(memory: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    except (ValueError, OSError):
        return  # macOS refuses a limit of address space


if __name__ == "__main__":
    main()
