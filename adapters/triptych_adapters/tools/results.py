"""The JSON Schemas of the tools' answers, for callers that read fields rather than text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_Schema = dict[str, Any]


def _text(description: str = "") -> _Schema:
    return {"type": "string", **({"description": description} if description else {})}


def _whole(description: str = "") -> _Schema:
    return {"type": "integer", **({"description": description} if description else {})}


def _list(items: _Schema) -> _Schema:
    return {"type": "array", "items": items}


def _object(required: str, fields: Mapping[str, _Schema]) -> _Schema:
    """An object; fields that are not named may come with later versions."""
    return {"type": "object", "properties": dict(fields), "required": required.split()}


_CURSOR: Final = {
    "type": ["string", "null"],
    "description": "What leads to the rest; null where all is shown.",
}
_CUT: Final = _object(
    "from to of", {"from": _whole(), "to": _whole(), "of": _whole("Code points of the whole.")}
)
_LEFT_OUT: Final = _list(_text("A field there was no room for."))
_QUOTED: Final = _text("Quoted from a document.")
_METADATA: Final = {"type": "object"}
_SIGNS: Final = _list({"type": "object"})
_PLACED: Final = {"dataset_id": _text(), "name": _text(), "version": _whole()}

HIT: Final = _object(
    "dataset_id doc_name layer score version content",
    {
        "dataset_id": _text(),
        "doc_name": _text(),
        "version": _whole(),
        "layer": _text("L2 for passages, L1 for overviews, L0 for abstracts."),
        "chunk_index": _whole(),
        "chunk_id": _text(),
        "start_line": _whole("The first line in the document, from 1."),
        "end_line": _whole(),
        "locator": _text("The place in the original file."),
        "file": _text("The file on this machine that it came from."),
        "heading_path": _list(_text()),
        "score": {"type": "number"},
        "scores": {"type": "object"},
        "stale": _text("Why it may be outdated."),
        "metadata": _METADATA,
        "signs": _SIGNS,
        "cut": _CUT,
        "left_out": _LEFT_OUT,
        "content": _QUOTED,
    },
)
HITS: Final = _object(
    "hits warnings exhausted cursor",
    {
        "hits": _list(HIT),
        "warnings": _list(_text()),
        "exhausted": {"type": "boolean"},
        "cursor": _CURSOR,
    },
)
CONTEXT: Final = _object(
    "context warnings",
    {
        "context": _text("Cited pieces, each below a line that names its source."),
        "warnings": _list(_text()),
    },
)
DOCUMENT: Final = _object(
    "dataset_id name version total_lines content cursor",
    {
        **_PLACED,
        "updated_at": _text("ISO 8601."),
        "metadata": _METADATA,
        "lines": _text("Those that were asked for."),
        "total_lines": _whole(),
        "versions": _list(_whole()),
        "signs": _SIGNS,
        "cut": _CUT,
        "left_out": _LEFT_OUT,
        "content": _QUOTED,
        "cursor": _CURSOR,
    },
)
LISTED: Final = _object(
    "dataset_id name version updated_at size",
    {
        **_PLACED,
        "updated_at": _text("ISO 8601."),
        "expires_at": _text("ISO 8601."),
        "size": _whole("Bytes in UTF-8."),
        "metadata": _METADATA,
        "left_out": _LEFT_OUT,
    },
)
DOCUMENTS: Final = _object("documents cursor", {"documents": _list(LISTED), "cursor": _CURSOR})
ENTRIES: Final = _object(
    "entries cursor",
    {
        "dataset_id": _text(),
        "path": _text(),
        "entries": _list(
            _object(
                "kind",
                {
                    "dataset_id": _text(),
                    "name": _text(),
                    "kind": {"type": "string", "enum": ["dataset", "folder", "document"]},
                    "documents": _whole("How many are in it, at all levels."),
                    "size": _whole("Bytes in UTF-8."),
                    "layer": _text("L0 or L1."),
                    "stale": _text("Why it may be outdated."),
                    "cut": _CUT,
                    "content": _QUOTED,
                },
            )
        ),
        "cursor": _CURSOR,
    },
)
CHANGE: Final = _object(
    "dataset_id name kind version",
    {**_PLACED, "kind": {"type": "string", "enum": ["added", "updated", "deleted"]}},
)
CHANGES: Final = _object(
    "changes more reset cursor",
    {
        "changes": _list(CHANGE),
        "more": {"type": "boolean"},
        "reset": {"type": "boolean"},
        "cursor": _text("What the next call begins with."),
    },
)
PUT: Final = _object(
    "status dataset_id name version",
    {"status": {"type": "string", "enum": ["added", "updated", "unchanged"]}, **_PLACED},
)
