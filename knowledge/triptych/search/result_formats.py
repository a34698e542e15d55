"""Search results formatted as text, XML and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from triptych._internal.xml_text import attribute_text, element_text, printable
from triptych.errors import ValidationError
from triptych.records import Hit, Layer, Result
from triptych.records.metadata import text_of

_STEERING = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LINE_END = re.compile(r"\r\n?|\n")


def format_text(result: Result | Iterable[Hit]) -> str:
    """The hits for a reader: each with a line that says where it is from, then its text.

    Control characters, which could steer a terminal, are replaced by U+FFFD. Nothing keeps a
    document from imitating such a line: for a prompt, take `format_xml`.
    """
    parts = []
    for rank, hit in enumerate(_hits(result), start=1):
        about = _about(hit)
        source = about.pop("source") + (f", lines {about.pop('lines')}" if "lines" in about else "")
        source += f", {about.pop('locator')}" if "locator" in about else ""
        known = [about.pop(key) for key in ("section", "category") if key in about]
        rest = [f"{key} {value}" for key, value in about.items()]
        line = " | ".join([f"{rank}. {source}", *known, *rest])
        parts.append(f"{_plain(line)}\n\n{_plain(shown_text(hit).strip())}\n")
    return "\n".join(parts) or "No results.\n"


def format_xml(result: Result | Iterable[Hit]) -> str:
    """The hits for a prompt: ``<retrieved_context>`` with a ``<document>`` for each.

    Its attributes are ``source`` (the document's name), ``dataset``, ``section`` (the headings
    above), ``category`` (of the metadata), ``layer`` (of abstracts and overviews), ``lines`` or,
    where a parser told it, ``locator`` (the place in the original file), ``version``, ``score``
    and ``stale``; what does not apply is left out. A line of its own begins and ends the text.

    Well-formed whatever the documents hold: everything is escaped, line ends are as XML reads
    them, and the characters that XML cannot hold are replaced by U+FFFD. So no document can
    close its element, or open another. Warnings of the result are not told here.
    """
    lines = ["<retrieved_context>"]
    for hit in _hits(result):
        about = " ".join(f'{key}="{attribute_text(value)}"' for key, value in _about(hit).items())
        lines += [f"<document {about}>", element_text(shown_text(hit)), "</document>"]
    return "\n".join([*lines, "</retrieved_context>\n"])


def format_json(result: Result | Iterable[Hit]) -> str:
    """The hits for a program: an object with ``hits``, and a Result's ``warnings`` and
    ``exhausted``.

    A hit has the fields of `Hit.to_dict`, ``section`` (the headings above as one string),
    ``category`` (of the metadata, or null) and ``lines`` (first and last, from 1, of what is
    shown; null for layers).
    """
    value: dict[str, Any] = {
        "hits": [
            hit.to_dict()
            | {
                "section": _section(hit),
                "category": text_of(hit.metadata, "category") or None,
                "lines": shown_lines(hit),
            }
            for hit in _hits(result)
        ]
    }
    if isinstance(result, Result):
        value |= {"warnings": list(result.warnings), "exhausted": result.exhausted}
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


FORMATS: dict[str, Callable[[Result | Iterable[Hit]], str]] = {
    "json": format_json,
    "text": format_text,
    "xml": format_xml,
}
"""The formats by name."""


def _hits(result: Result | Iterable[Hit]) -> Iterable[Hit]:
    if isinstance(result, Result):
        return result.hits
    if not isinstance(result, Iterable):
        raise ValidationError(f"a Result or hits can be formatted, not {type(result).__name__}")
    hits = list(result)
    for hit in hits:
        if not isinstance(hit, Hit):
            raise ValidationError(f"hits are Hit records, not {type(hit).__name__}")
    return hits


def _about(hit: Hit) -> dict[str, str]:
    """What there is to say about a hit, in the order in which it is said."""
    lines = shown_lines(hit)
    about = {
        "source": hit.doc_name,
        "dataset": hit.dataset_id,
        "section": _section(hit),
        "category": text_of(hit.metadata, "category"),
        "layer": "" if hit.layer in (None, Layer.DETAIL) else str(hit.layer),
        # The lines of an extracted text are no lines of the file that a reader can open.
        "lines": "" if lines is None or hit.locator else f"{lines[0]}-{lines[1]}",
        "locator": hit.locator or "",
        "version": str(hit.sig.source_version),
        "score": f"{hit.score:.4f}",
        "stale": hit.stale or "",
    }
    return {key: value for key, value in about.items() if value or key == "source"}


def _section(hit: Hit) -> str:
    return " > ".join(hit.heading_path)


def shown_text(hit: Hit) -> str:
    return hit.content if hit.window is None else hit.window


def shown_lines(hit: Hit) -> tuple[int, int] | None:
    """Return the first and last line of the shown text; None for layers, which have no lines."""
    if hit.layer not in (None, Layer.DETAIL):
        return None
    first = hit.start_line
    if hit.window is not None and hit.window_start is not None:
        first -= line_ends(hit.window[: hit.start - hit.window_start])
    return first, first + line_ends(shown_text(hit))


def line_ends(text: str) -> int:
    return sum(1 for _ in _LINE_END.finditer(text))


def _plain(text: str) -> str:
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", _LINE_END.sub("\n", printable(text)))
