"""``knowledge_get``: a document as it was put, or some of its lines, now or as it was."""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from triptych.errors import ConflictError, NotAvailableError, NotFoundError, ValidationError
from triptych.records import SourceDocument
from triptych.records.serialization import to_dict
from triptych.text.injection import suspicious
from triptych.text.tokens import MOST_CHARACTERS
from triptych_adapters.tools.base import QUOTED, Base, compact, cursor_schema
from triptych_adapters.tools.paging import Place, check_cursor, next_cursor, read_cursor
from triptych_adapters.tools.rendering import to_json
from triptych_adapters.tools.results import DOCUMENT
from triptych_adapters.tools.tool import Tool
from triptych_adapters.wire.operations import ARGUMENTS

_LINE: Final = re.compile(r"[^\r\n]*+(?:\r\n?|\n)|[^\r\n]++")
_LINES: Final = re.compile(r"\s*([0-9]{1,9})\s*(?:(-)\s*([0-9]{1,9})?\s*)?")
_MOST_VERSIONS: Final = 20
_MOST_SIGNS: Final = 5
_GET: Final[dict[str, dict[str, Any]]] = {
    "name": {**ARGUMENTS["name"], "description": "The document, by its exact name."},
    "dataset_id": {
        **ARGUMENTS["dataset_id"],
        "description": "The dataset that has it. Leave it out where no other has this name.",
    },
    "lines": {
        "type": "string",
        "description": "Only these lines, counted from 1: '50-90', '50-' (from there on) or '50'.",
    },
    "version": {
        "type": "integer",
        "minimum": 1,
        "description": "The document as it was, one of 'versions' of an answer. Leave it out for "
        "the document as it is.",
    },
    "cursor": cursor_schema("answer"),
}
_DESCRIPTION: Final = (
    "Read a document of the knowledge base, or some of its lines, now or in an earlier version. "
    "Use it when a passage that was found is not enough. A long text is cut: 'cut' says which "
    "characters of it are shown, and 'cursor' leads to the rest. 'versions' are those that can be "
    f"read, the newest first. {QUOTED}"
)


def get_tool(base: Base) -> Tool:
    """``knowledge_get``."""
    return base.tool(
        "knowledge_get",
        "Read a document",
        _DESCRIPTION,
        _GET,
        ["name"],
        lambda arguments: _get(base, arguments),
        DOCUMENT,
    )


def _get(base: Base, arguments: dict[str, Any]) -> dict[str, Any]:
    """A document, or a part of it."""
    name, version = arguments["name"], arguments.get("version")
    dataset_id = base.dataset_of(name, arguments)
    asked = to_json([dataset_id, name, version, arguments.get("lines")])
    start = read_cursor(arguments["cursor"], asked) if "cursor" in arguments else Place()
    with base.own_dataset():
        document = _document(base, dataset_id, name, version)
    fields = compact(to_dict(document), DOCUMENT)
    lines = _LINE.findall(document.content)
    part = document.content
    if "lines" in arguments:
        first, last = _read_lines(arguments["lines"], len(lines))
        part = "".join(lines[first - 1 : last])
        fields["lines"] = f"{first}-{last}"
    fields["total_lines"] = len(lines)
    if versions := _versions(base, dataset_id, name):
        fields["versions"] = versions
    if signs := _signs(part, start.character, MOST_CHARACTERS * base.max_tokens):
        fields["signs"] = signs
    parts = [{**fields, "content": part}]
    check_cursor(start, parts)

    def cursor(place: Place | None) -> str | None:
        return None if place is None else next_cursor(place, parts, asked)

    filled = base.fill({}, "documents", parts, start, cursor)
    if not filled["documents"]:
        raise ConflictError("the cursor leads past the document's end: ask without a cursor")
    return {**filled["documents"][0], "cursor": filled["cursor"]}


def _document(base: Base, dataset_id: str, name: str, version: int | None) -> SourceDocument:
    try:
        return base.service.get_document(dataset_id, name, version)
    except NotFoundError as error:
        if version is not None or dataset_id not in base.service.list_datasets():
            raise
        raise base.without(str(error), [dataset_id], name) from error


def _signs(text: str, start: int, most: int) -> list[dict[str, Any]]:
    """What looks like instructions to a model in the part of ``text`` that can be shown."""
    found = suspicious(text[start : start + most])[:_MOST_SIGNS]
    moved = (attrs.evolve(each, start=each.start + start, end=each.end + start) for each in found)
    return [attrs.asdict(each) for each in moved]


def _read_lines(text: str, total: int) -> tuple[int, int]:
    """The first and the last line that are asked for.

    Raises:
        ValidationError: the text names none, or the document does not have the first.
    """
    found = _LINES.fullmatch(text)
    if found is None:
        raise ValidationError(f"the argument 'lines' is {text[:40]!r}: give '50-90', '50-' or '50'")
    first = int(found[1])
    last = first if found[2] is None else total if found[3] is None else int(found[3])
    if not 1 <= first <= max(total, 1) or last < first:
        there = "1 line" if total == 1 else f"{total} lines"
        raise ValidationError(f"there are no lines {text[:40]!r}: the document has {there}")
    return first, min(last, max(total, 1))


def _versions(base: Base, dataset_id: str, name: str) -> list[int]:
    """The versions that can be read, the newest first; none where there is but the current one."""
    try:
        history = base.service.history(dataset_id, name)
    except NotAvailableError:
        return []
    versions = [each.version for each in history[:_MOST_VERSIONS]]
    return versions if len(versions) > 1 else []
