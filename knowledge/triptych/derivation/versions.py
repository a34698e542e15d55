"""The versions of a document: listed, read, compared, put back."""

from __future__ import annotations

import re
from collections.abc import Sequence

from triptych._internal import sequence_diff
from triptych.contracts import VersionReader
from triptych.derivation.expiration import LivingDocuments
from triptych.errors import NotAvailableError, NotFoundError
from triptych.records import (
    DocumentInfo,
    NewDocument,
    SourceDocument,
    check_whole,
)

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_SHOWN = 12
"""Kept versions that an error lists."""
_MOST = (1 << 63) - 1
"""No version is greater: databases hold integers of 64 bits."""


class VersionHistory:
    """Reads old versions, where the store keeps them."""

    def __init__(self, reader: VersionReader | None, living: LivingDocuments) -> None:
        self._reader = reader
        self._living = living

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """The current version and the kept ones, newest first; empty without a document."""
        versions = self._require().versions(dataset_id, name)
        return () if versions and self._living.hides(versions[0]) else versions

    def get(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        """The document at ``version``, None where there is no document.

        Raises:
            NotFoundError: there is one, but that version is not kept.
        """
        reader = self._require()
        check_whole(version, "version", least=1)
        if self._living.get_info(dataset_id, name) is None:
            return None
        found = reader.get_version(dataset_id, name, version) if version <= _MOST else None
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


def restored(old: SourceDocument, if_version: int | None) -> NewDocument:
    """What puts ``old`` back. The document stays of the root that it is of now."""
    return NewDocument(
        name=old.name,
        content=old.content,
        metadata=old.metadata,
        if_version=if_version,
        original_sha256=old.original_sha256,
        parser_sig=old.parser_sig,
        outline=old.system.outline,
    )


def unified_diff(old: SourceDocument, new: SourceDocument) -> str:
    """How ``new`` differs from ``old``, line by line, as ``diff -u`` tells it; "" if in nothing.

    Metadata that differs comes first, as lines of its own part.
    """
    return _diff(old, new, " metadata", _metadata(old), _metadata(new)) + _diff(
        old, new, "", old.content, new.content
    )


def _diff(old: SourceDocument, new: SourceDocument, what: str, before: str, after: str) -> str:
    return sequence_diff.unified_diff(
        _LINES.findall(before),
        _LINES.findall(after),
        f"{old.name}{what} (version {old.version})",
        f"{new.name}{what} (version {new.version})",
    )


def _metadata(document: SourceDocument) -> str:
    return "".join(f"{key}: {value!r}\n" for key, value in sorted(document.metadata.items()))
