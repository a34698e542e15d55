"""A tool's answer as Markdown, in which no document's text passes for the answer's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from triptych_adapters.tools.rendering import to_json

_TEXTS: Final = frozenset({"content", "context"})
"""The fields that hold text of documents: each stands in a fence of its own."""

_PLAIN: Final = re.compile(r"[\w./@+:%-]+(?: [\w./@+:%-]+)*")
"""What stands as it is. Other text is written as JSON writes it, on one line."""


def to_markdown(answer: Mapping[str, Any]) -> str:
    """``answer`` in Markdown: fields as a list, objects of a list below headings.

    Text of documents stands between fences that are longer than any it holds.
    """
    fields = {key: value for key, value in answer.items() if not _objects(value)}
    parts = [_fields(fields)] if fields else []
    for key, value in answer.items():
        if _objects(value):
            parts += [f"## {key} {at}\n\n{_fields(each)}" for at, each in enumerate(value, 1)]
    return "\n\n".join(parts) + "\n"


def _objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(x, Mapping) for x in value)


def _fields(fields: Mapping[str, Any]) -> str:
    """Each field on a line; texts after them."""
    lines = [
        f"- {key}: {_shown(value)}" for key, value in fields.items() if not _is_text(key, value)
    ]
    texts = [_fenced(value) for key, value in fields.items() if _is_text(key, value)]
    return "\n\n".join([*(["\n".join(lines)] if lines else []), *texts])


def _is_text(key: str, value: Any) -> bool:
    return key in _TEXTS and isinstance(value, str)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return to_json(value)
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return ", ".join(map(_shown, value))
    text = to_json(value)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    mark = "`" * (longest + 1)
    return f"{mark} {text} {mark}" if longest else f"`{text}`"


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}text\n{text}\n{mark}"
