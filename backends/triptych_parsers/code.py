"""Source code: unchanged text, with definitions found by tree-sitter."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import PurePosixPath

import attrs

from triptych import deadlines
from triptych.chunking import CODE_ENDINGS, Part
from triptych.errors import CancelledError, TriptychError
from triptych.installation import install_command
from triptych.parsing import (
    DecodedText,
    FileParser,
    JsonParser,
    ParsedFile,
    ParseLimits,
    TextFileParser,
    YamlParser,
    kept_as_lines,
)
from triptych_parsers.definitions import TooSlowError, definitions
from triptych_parsers.definitions_process import NoProcessError, definitions_apart
from triptych_parsers.languages import ENDINGS, LANGUAGES, Language

_MOST_CHARACTERS = 4_000_000  # what is larger was written by a program, for programs
_MOST_HERE = 16_384
"""The maximum bytes to parse in this process. Text of this size that is not code takes 0.4 s, and
twice as much takes four times as long. Larger files are parsed in another process, which costs a
millisecond."""
_SECONDS = 10.0


@attrs.frozen(kw_only=True)
class CodeParser(TextFileParser):
    """Python, Go, JavaScript, TypeScript, Java, Rust, C and C++ by definitions; others as text.

    A chunk contains at most one function or method, with the preceding comment, and its heading
    path names the class or module and the function. Without tree-sitter (the extra ``code``), and
    for files that it cannot parse in time, the file is treated as plain text, and a note says so.
    """

    limits: ParseLimits = attrs.field(factory=ParseLimits)
    endings: frozenset[str] = attrs.field(default=CODE_ENDINGS, init=False)

    @property
    def signature(self) -> str:
        """The parser's version, and whether tree-sitter is available."""
        return "code/1" if _is_installed() else "code/1 plain"

    def _read(self, name: str, decoded: DecodedText) -> ParsedFile:
        """The text as it is; locators are its lines, headings its definitions."""
        language = LANGUAGES.get(ENDINGS.get(PurePosixPath(name).suffix.lower(), ""))
        parts: Sequence[Part] = ()
        signature, notes = "code/1 plain", []
        if language is not None:
            found = _definitions(decoded.text, language, self.limits)
            if isinstance(found, str):
                notes.append(f"{name!r} is cut as plain text, not by definitions: {found}")
            else:
                parts, signature = found, f"code/1 {language.name}"
        return kept_as_lines(decoded, signature, parts, metadata={"kind": "code"}, notes=notes)


def _definitions(text: str, language: Language, limits: ParseLimits) -> list[Part] | str:
    """The definitions in ``text``, outermost first, or why there are none."""
    if len(text) > _MOST_CHARACTERS:
        return f"it has more than {_MOST_CHARACTERS:,} characters"
    deadlines.check("reading a file")
    most = min(_SECONDS, limits.seconds)
    left = deadlines.remaining()
    seconds = most if left is None else min(most, left)
    data = text.encode("utf-8")
    try:
        if len(data) > _MOST_HERE:
            import_module("tree_sitter")  # where it is missing, no process needs to be started
            found = definitions_apart(data, language, seconds, memory=int(limits.memory))
        else:
            found = definitions(data, language, time.monotonic() + seconds)
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: {install_command(extra='code')}"
    except TooSlowError:
        deadlines.check("reading a file")
        return f"reading it takes more than {most:g} seconds"
    except NoProcessError as error:
        return str(error)
    return [
        Part(start=start, end=end, depth=depth, title=title) for start, end, depth, title in found
    ]


def has_definitions(ending: str) -> bool:
    """Whether definitions are found in files of this ending, by what is installed."""
    return ending in ENDINGS and _is_installed()


def _is_installed() -> bool:
    try:
        return find_spec("tree_sitter") is not None
    except ValueError:  # it is shut out, as in sys.modules
        return False


_KEYS: tuple[FileParser, ...] = (JsonParser(), YamlParser())


def outline_of(name: str, content: str) -> str | None:
    """The outline that a parser of the name's ending writes, where it keeps the text as it
    is: source code of a language whose grammar is installed, JSON and YAML.

    None for every other name, and for a text that is not of its format.
    """
    ending = PurePosixPath(name).suffix.lower()
    parser: FileParser | None = CodeParser() if has_definitions(ending) else None
    if parser is None:
        parser = next((each for each in _KEYS if ending in each.endings), None)
    if parser is None:
        return None
    try:
        parsed = parser.parse(name, content.encode("utf-8"))
    except CancelledError:
        raise
    except TriptychError:
        return None  # as a text without structure, it can be put all the same
    if parsed is None or parsed.content != content:
        return None
    return parsed.outline
