"""Old versions of documents: reading them, putting one again, and how two differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime

import attrs

from triptych.contracts import DocumentReader, VersionReader
from triptych.errors import NotAvailableError, NotFoundError
from triptych.records import DocumentInfo, Metadata, NewDocument, SourceDocument, check_whole
from triptych.text import sequence_diff

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_KEY = re.compile(r"\w[\w .-]*")
_OF_FILE = ("original_sha256", "parser_sig")
_APART = (
    *("dataset_id", "name", "version", "updated_at", "content", "metadata", "system"),
    *_OF_FILE,
)
_SHOWN = 12
"""Kept versions that an error lists."""
LAST_VERSION = (1 << 63) - 1
"""No version is greater: databases hold integers of 64 bits."""


class VersionHistory:
    """Reads old versions, where the store keeps them."""

    def __init__(self, reader: VersionReader | None, documents: DocumentReader) -> None:
        self._reader = reader
        self._documents = documents

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """The current version and the kept ones, newest first; empty without a document."""
        reader = self._require()
        if self._documents.get_info(dataset_id, name) is None:
            return ()
        return reader.versions(dataset_id, name)

    def get(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        """The document at ``version``, None where there is no document.

        Raises:
            NotFoundError: there is one, but that version is not kept.
        """
        reader = self._require()
        check_whole(version, "version", least=1)
        if self._documents.get_info(dataset_id, name) is None:
            return None
        found = reader.get_version(dataset_id, name, version) if version <= LAST_VERSION else None
        if found is not None:
            return found
        kept = [info.version for info in reader.versions(dataset_id, name)]
        if not kept:
            return None
        listed = ", ".join(map(str, kept[:_SHOWN])) + (" …" if len(kept) > _SHOWN else "")
        raise NotFoundError(
            f"version {version} of {name!r} in {dataset_id!r} is not kept; kept are: {listed}"
        )

    def _require(self) -> VersionReader:
        if self._reader is None:
            raise NotAvailableError(
                "this store keeps no old versions: use one that does (./kb.db, files:///… or "
                "memory://), or leave the version out"
            )
        return self._reader


def put_again(
    old: SourceDocument,
    if_version: int | None,
    *,
    metadata: Metadata | None = None,
    expires_at: datetime | None = None,
) -> NewDocument:
    """What puts ``old`` again, with its metadata or another. The document stays of the root that it
    is of now, and without ``expires_at`` ends when it does now."""
    return NewDocument(
        name=old.name,
        content=old.content,
        metadata=old.metadata if metadata is None else metadata,
        if_version=if_version,
        original_sha256=old.original_sha256,
        parser_sig=old.parser_sig,
        outline=old.system.outline,
        expires_at=expires_at,
    )


def unified_diff(old: SourceDocument, new: SourceDocument, *, whole: bool = False) -> str:
    """How ``new`` differs from ``old``, line by line, as ``diff -u`` tells it; "" if in nothing.

    Metadata and the time of expiry come first, as lines of their own part; ``whole`` adds all else
    that is stored of a document, with the digests of its file last.
    """
    fields = (_fields(each, whole=whole) for each in (old, new))
    file = (_file_fields(each) if whole else "" for each in (old, new))
    said = _diff(old, new, " metadata", *fields) + _diff(old, new, "", old.content, new.content)
    return said + _diff(old, new, " file", *file)


def _diff(old: SourceDocument, new: SourceDocument, what: str, before: str, after: str) -> str:
    return sequence_diff.unified_diff(
        _LINES.findall(before),
        _LINES.findall(after),
        f"{old.name}{what} (version {old.version})",
        f"{new.name}{what} (version {new.version})",
    )


def _fields(document: SourceDocument, *, whole: bool) -> str:
    """A line for each: a key that could be taken for another, or for a field, is quoted."""
    fields = {
        f"${each.name}": getattr(of, each.name)
        for of in (document, document.system)
        for each in attrs.fields(type(of))
        if (whole and each.name not in _APART) or each.name == "expires_at"
    }
    lines = [f"{key}: {str(value)!r}\n" for key, value in sorted(fields.items()) if value]
    for key, value in sorted(document.metadata.items()):
        lines.append(f"{key if _KEY.fullmatch(key) else repr(key)}: {_value(value)}\n")
    return "".join(lines)


def _file_fields(document: SourceDocument) -> str:
    return "".join(
        f"${name}: {value!r}\n" for name in _OF_FILE if (value := getattr(document, name))
    )


def _value(value: object) -> str:
    """A value of metadata: text in quotation marks, so that 5 and "5" differ."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value).lower() if isinstance(value, bool) else repr(value)
