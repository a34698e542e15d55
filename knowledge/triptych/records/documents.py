"""Documents and their derived data: chunks, layers, signatures, configuration."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import ClassVar, Literal

import attrs

from triptych.records.filters import EXPIRES_AT, Condition, FilterTree, Not, Subject
from triptych.records.metadata import Metadata, comparison_key, optional_metadata
from triptych.records.unread import Unread, read_unread
from triptych.records.values import (
    check_document_name,
    document_content,
    expiry,
    optional_expiry,
    optional_system_text,
    optional_version,
    provenance,
    summary_part,
    system_text,
)


@attrs.frozen(kw_only=True, slots=True)
class SystemData:
    """Triptych's own data about a document, separate from the user's metadata.

    ``outline`` is the structure that a parser found (`triptych.chunking.outline`), ``sync_root``
    the `triptych.sync.SyncRoot.key` of the root that owns the document; "" is none. From
    ``expires_at``, in UTC, on no search finds the document; None is never.
    """

    __plain_properties__: ClassVar[tuple[str, ...]] = ("unread",)

    outline: str = attrs.field(default="", converter=system_text)
    sync_root: str = attrs.field(default="", converter=system_text)
    expires_at: datetime | None = attrs.field(default=None, converter=expiry)

    @property
    def unread(self) -> Unread:
        """What of the document's file its text lacks."""
        return read_unread(self.outline)


@attrs.frozen(kw_only=True, slots=True)
class NewDocument:
    """A document to store.

    ``metadata["title"]`` overrides the first heading as the title, and ``metadata["kind"]``
    ("markdown", "text", …) the kind given by the name's extension. ``if_version`` is the version
    that must be stored (0: no document); None accepts any.

    ``metadata`` None keeps the document's metadata; ``{}`` removes it. These fields set the
    document's `SystemData`:

    - ``outline`` is the outline of ``content``, "" for none. None keeps the stored outline if the
      content is unchanged, else removes it.
    - ``sync_root`` names the root that owns the document, "" for none. None keeps the stored one.
    - ``expires_at`` is when the document expires, in UTC if it has no offset; "never" is none. None
      keeps the stored time.

    A put over an expired document keeps only its version count; ``if_version`` must then be 0.
    """

    name: str = attrs.field(converter=check_document_name)
    content: str = attrs.field(converter=document_content)
    metadata: Metadata | None = attrs.field(default=None, converter=optional_metadata)
    if_version: int | None = attrs.field(default=None, converter=optional_version)
    original_sha256: str = attrs.field(default="", converter=provenance)
    parser_sig: str = attrs.field(default="", converter=provenance)
    outline: str | None = attrs.field(default=None, converter=optional_system_text)
    sync_root: str | None = attrs.field(default=None, converter=optional_system_text)
    expires_at: datetime | Literal["never"] | None = attrs.field(
        default=None, converter=optional_expiry
    )


@attrs.frozen(kw_only=True, slots=True)
class SourceDocument:
    """A stored document: the source from which all other data is derived.

    ``content`` is exactly the text that was stored. ``version`` grows with every change and never
    repeats for a name, not even after a delete. If a parser made the content, ``original_sha256``
    is the digest of the file and ``parser_sig`` the parser's signature. ``metadata`` is the user's,
    ``system`` Triptych's own.
    """

    dataset_id: str
    name: str
    content: str
    metadata: Metadata
    version: int
    updated_at: datetime
    original_sha256: str = ""
    parser_sig: str = ""
    system: SystemData = SystemData()


@attrs.frozen(kw_only=True, slots=False)  # as `records` says
class DocumentInfo:
    """A document without its content.

    ``content_sha256`` is the hex digest of the content in UTF-8, ``size`` its length in bytes, and
    ``input_sig`` the digest of everything that chunking and embedding read of the document.
    """

    dataset_id: str
    name: str
    metadata: Metadata
    version: int
    updated_at: datetime
    content_sha256: str
    size: int
    input_sig: str
    original_sha256: str = ""
    parser_sig: str = ""
    system: SystemData = SystemData()


def document_subject(
    document: DocumentInfo | SourceDocument, headings: Collection[str] = ()
) -> Subject:
    """A document, or the chunk of one under ``headings``."""
    return Subject(
        name=document.name,
        metadata=document.metadata,
        version=document.version,
        updated_at=document.updated_at,
        expires_at=document.system.expires_at,
        headings=headings,
    )


@attrs.frozen(kw_only=True, slots=True)
class DocumentSummary:
    """A document's name and abstract (L0), from which the layers of a folder or dataset are
    made."""

    name: str = attrs.field(converter=summary_part)
    abstract: str = attrs.field(converter=summary_part)


def expired_by(moment: datetime) -> Condition:
    """Return the condition that a document expires at ``moment`` or earlier."""
    return Condition(EXPIRES_AT, "lte", (comparison_key(moment),))


def not_expired_by(moment: datetime) -> FilterTree:
    """Return the condition that a document never expires, or expires after ``moment``.

    Layers of folders and datasets always meet it.
    """
    return Not(expired_by(moment))


def has_expired(
    document: DocumentInfo | SourceDocument | None, moment: datetime | None = None
) -> bool:
    """Return whether the document has expired at ``moment`` (None: now); False without a
    document."""
    return document is not None and system_has_expired(document.system, moment)


def living_version(document: SourceDocument | DocumentInfo | None) -> int:
    """The ``if_version`` of a put over ``document``: 0 if there is none, or it has expired."""
    return 0 if document is None or has_expired(document) else document.version


def system_has_expired(system: SystemData | None, moment: datetime | None = None) -> bool:
    """Return `has_expired` for a document with this system data."""
    expires_at = None if system is None else system.expires_at
    return expires_at is not None and expires_at <= (moment or datetime.now(UTC))


@attrs.frozen(kw_only=True, slots=True)
class PutOutcome:
    """The outcome for one document of a bulk put: its ``document`` or its ``error``.

    ``input_sig`` is the document's `DocumentInfo.input_sig`, or "" if the store does not have it.
    """

    name: str
    change: Literal["added", "updated", "unchanged", "failed"]
    document: SourceDocument | None = None
    error: Exception | None = attrs.field(default=None, eq=False)
    input_sig: str = attrs.field(default="", eq=False)
