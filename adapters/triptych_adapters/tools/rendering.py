"""Rendering a tool's answer as JSON or Markdown, and estimating its tokens."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, Final

from triptych.text.tokens import MOST_CHARACTERS, estimate_tokens

DEFAULT_MAX_TOKENS: Final = 4000
LEAST_MAX_TOKENS: Final = 256
"""How many tokens an answer of a tool may have."""


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_json(value: Any) -> str:
    """``value`` as JSON without needless white space or escapes; equal values, equal text.

    Raises:
        ValueError: a number in it is not finite: JSON has none such.
    """
    return _ENCODER.encode(value)


def tokens(value: Any) -> int:
    """The estimated cost of ``value`` as one entry of a JSON list."""
    return estimate_tokens(to_json(value) + ",")


def clip(text: str, max_tokens: int) -> str:
    """``text``, or its beginning and "…" where its JSON is estimated above ``max_tokens``."""
    most = MOST_CHARACTERS * max_tokens
    if tokens(text[: most + 1]) <= max_tokens:
        return text
    ends = range(1, min(len(text), most) + 1)
    kept = bisect_left(ends, True, key=lambda end: tokens(text[:end] + "…") > max_tokens)
    return text[:kept] + "…"


# Markdown

_TEXTS: Final = frozenset({"content", "context", "prefix"})
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
    mark = _mark(text, 1)
    return f"{mark} {text} {mark}" if len(mark) > 1 else f"`{text}`"


def _fenced(text: str) -> str:
    mark = _mark(text, 3)
    return f"{mark}text\n{text}\n{mark}"


def _mark(text: str, least: int) -> str:
    """More backticks than ``text`` has anywhere."""
    return "`" * max([least, *(len(run) + 1 for run in re.findall("`+", text))])
