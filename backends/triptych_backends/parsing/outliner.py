"""The outline of a text that is put by itself: that of a file of its name."""

from __future__ import annotations

from pathlib import PurePosixPath

from triptych.errors import CancelledError, TriptychError
from triptych.parsing import FileParser, JsonParser, YamlParser
from triptych_backends.parsing.code import CodeParser, has_definitions

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
